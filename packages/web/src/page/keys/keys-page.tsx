import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Bar } from '../shell/bar.js'
import { ColumnHeads } from '../parts/column-heads.js'
import { Markdown } from '../markdown/markdown.js'
import { type Call, useServer } from '../server/server.js'
import { AddKeyForm } from './add-key-form.js'
import { type Key, KeyRow, type NewLimits } from './key-row.js'
import { limits } from './key-terms.js'

/** The API keys: who may use the server, and how much; made, limited and revoked while it runs. */
export function KeysPage(): JSX.Element {
  const server = useServer()
  const [keys, setKeys] = useState<readonly Key[]>()
  const [told, setTold] = useState('')

  const look = async (): Promise<void> => {
    const { data } = await server.json<{ readonly data: readonly Key[] }>('admin/keys')
    setKeys(data)
  }
  const tellFailure = (error: unknown): void => setTold((error as Error).message)
  useEffect(() => void look().then(() => setTold(''), tellFailure), [server])

  /** Whether it was changed. */
  const change = async (path: string, call: Call, done: string): Promise<boolean> => {
    try {
      await server.json(`admin/keys${path}`, call)
      setTold(done)
      await look()
      return true
    } catch (error) {
      tellFailure(error)
      return false
    }
  }
  const revoke = async (name: string): Promise<boolean> => {
    const query = new URLSearchParams({ name }).toString()
    const done = `${name} is revoked: its next request is refused.`
    return await change(`?${query}`, { method: 'DELETE' }, done)
  }
  const limit = async (name: string, body: NewLimits): Promise<boolean> => {
    const done = `${name} has new limits, from its next request on.`
    return await change(`/${encodeURIComponent(name)}`, { method: 'PATCH', body }, done)
  }

  return (
    <>
      <Bar title="Keys" />
      <div class="body">
        {keys !== undefined && (
          <>
            <p class="hint">
              Who may use this server, and how much. Changes hold at once; <code>cllm keys</code>{' '}
              makes the same ones.
            </p>
            <div class="scroll" tabIndex={0} role="region" aria-label="Keys">
              <table class="stacks">
                <thead>
                  <tr>
                    <ColumnHeads names={['name', 'tenant', 'role']} />
                    <ColumnHeads names={limits.map(([, label]) => label.toLowerCase())} numbers />
                    <td />
                  </tr>
                </thead>
                <tbody>
                  {keys.map((key) => (
                    <KeyRow
                      key={key.name}
                      of={key}
                      onRevoke={() => void revoke(key.name)}
                      onLimit={async (limits) => await limit(key.name, limits)}
                    />
                  ))}
                </tbody>
              </table>
            </div>
          </>
        )}
        <div role="status">
          <Markdown text={told} />
        </div>
        {keys !== undefined && <AddKeyForm onAdded={() => void look().catch(tellFailure)} />}
      </div>
    </>
  )
}
