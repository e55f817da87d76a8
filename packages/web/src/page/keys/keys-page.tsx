import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ColumnHeads } from '../column-heads.js'
import { Markdown } from '../markdown/markdown.js'
import { useServer } from '../server/server-context.js'
import { AddKeyForm } from './add-key-form.js'
import { type KeyTerms, limits } from './key-terms.js'

interface Key extends KeyTerms {
  /** Whether this page asks with it. */
  readonly asks: boolean
}

/** The API keys: who may use the server, and how much; made and revoked while it runs. */
export function KeysPage(): JSX.Element {
  const server = useServer()
  const [keys, setKeys] = useState<readonly Key[]>()
  const [told, setTold] = useState('')

  const look = async (): Promise<void> => {
    const { data } = await server.json<{ readonly data: readonly Key[] }>('admin/keys')
    setKeys(data)
  }
  const tellFailure = (error: unknown): void => setTold((error as Error).message)
  useEffect(() => void look().catch(tellFailure), [])

  const revoke = async (name: string): Promise<void> => {
    try {
      const query = new URLSearchParams({ name }).toString()
      await server.json(`admin/keys?${query}`, { method: 'DELETE' })
      setTold(`${name} is revoked: its next request is refused.`)
      await look()
    } catch (error) {
      tellFailure(error)
    }
  }

  return (
    <>
      <h1>Keys</h1>
      {keys !== undefined && (
        <>
          <p class="hint">
            Who may use this server, and how much. Changes hold at once; <code>cllm keys</code>{' '}
            makes the same ones.
          </p>
          <div class="scroll" tabIndex={0} role="region" aria-label="Keys">
            <table>
              <thead>
                <tr>
                  <ColumnHeads names={['name', 'tenant', 'role']} />
                  <ColumnHeads names={limits.map(([, label]) => label.toLowerCase())} numbers />
                  <td />
                </tr>
              </thead>
              <tbody>
                {keys.map((key) => (
                  <Row key={key.name} of={key} onRevoke={() => void revoke(key.name)} />
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
    </>
  )
}

function Row({
  of: key,
  onRevoke,
}: {
  readonly of: Key
  readonly onRevoke: () => void
}): JSX.Element {
  const [isAsked, setAsked] = useState(false)
  const { name, tenant, role, asks } = key
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{tenant}</td>
      <td>{role}</td>
      {limits.map(([limit]) => (
        <td class="number" key={limit}>
          {key[limit]?.toLocaleString('en-US') ??
            (limit === 'tokens_per_month' ? 'no limit' : "the server's")}
        </td>
      ))}
      <td class="row-buttons">
        {asks && <span class="dim">this page's</span>}
        {!asks && !isAsked && (
          <button class="quiet" aria-label={`Revoke ${name}`} onClick={() => setAsked(true)}>
            Revoke
          </button>
        )}
        {isAsked && (
          <>
            <button class="danger" onClick={onRevoke}>
              Revoke {name} for good
            </button>
            <button class="quiet" onClick={() => setAsked(false)}>
              Keep it
            </button>
          </>
        )}
      </td>
    </tr>
  )
}
