import { useState } from 'preact/hooks'
import { type Column, DataTable, numbers } from '../parts/data-table.js'
import { Input, Quiet, useTelling } from '../parts/form.js'
import { Page } from '../shell/bar.js'
import { Markdown } from '../markdown/markdown.js'
import { type Call, useAnswer, useServer } from '../server.js'
import { AddKeyForm, type KeyTerms, type LimitName, limits, withoutLimit } from './add-key-form.js'

/** A key as the server lists it. */
interface Key extends KeyTerms {
  /** Whether this page uses the key itself. */
  readonly asks: boolean
}

/** The key whose limits are being edited, and the texts typed so far. */
interface Draft {
  readonly name: string
  readonly texts: Readonly<Record<string, string>>
}

const eachLimit = <T,>(of: (limit: LimitName) => T): Readonly<Record<string, T>> =>
  Object.fromEntries(limits.map(([limit]) => [limit, of(limit)]))

/** The API keys: who may use the server, and how much. Keys are made, limited and revoked while it runs. */
export function KeysPage() {
  const server = useServer()
  const [draft, setDraft] = useState<Draft>()
  const { told, attempt } = useTelling()
  type Listed = { readonly data: readonly Key[] }
  const { answer, problem, askAgain } = useAnswer<Listed>('admin/keys')

  const change = (path: string, call: Call, done: string): void =>
    attempt(async () => {
      await server.json(`admin/keys${path}`, call)
      setDraft(undefined)
      askAgain()
      return done
    })
  const revoke = (name: string): void => {
    const query = new URLSearchParams({ name }).toString()
    const done = `${name} is revoked: its next request is refused.`
    change(`?${query}`, { method: 'DELETE' }, done)
  }
  const save = ({ name, texts }: Draft): void => {
    const body = eachLimit((limit) => (texts[limit] === '' ? null : Number(texts[limit])))
    const done = `${name} has new limits, from its next request on.`
    change(`/${encodeURIComponent(name)}`, { method: 'PATCH', body }, done)
  }

  const columns: readonly Column<Key>[] = [
    { name: 'name', kind: 'head', cell: ({ name }) => name },
    { name: 'tenant', cell: ({ tenant }) => tenant },
    { name: 'role', cell: ({ role }) => role },
    ...limits.map(([limit, label], index) =>
      numbers<Key>(label.toLowerCase(), (key) =>
        key.name !== draft?.name ? (
          (key[limit]?.toLocaleString('en-US') ?? withoutLimit(limit))
        ) : (
          <Input
            type="number"
            autofocus={index === 0}
            min="1"
            placeholder={withoutLimit(limit)}
            aria-label={`${label} of ${key.name}`}
            value={draft.texts[limit] ?? ''}
            onText={(text) => setDraft({ ...draft, texts: { ...draft.texts, [limit]: text } })}
          />
        ),
      ),
    ),
    {
      name: '',
      cell: (key) =>
        key.name === draft?.name ? (
          <>
            <button onClick={() => save(draft)}>Save</button>
            <Quiet onClick={() => setDraft(undefined)}>Cancel</Quiet>
          </>
        ) : (
          <>
            <Quiet
              aria-label={`Change the limits of ${key.name}`}
              onClick={() =>
                setDraft({ name: key.name, texts: eachLimit((limit) => String(key[limit] ?? '')) })
              }
            >
              Limits
            </Quiet>
            <Revoke of={key} onRevoke={() => revoke(key.name)} />
          </>
        ),
    },
  ]
  return (
    <Page title="Keys">
      {answer !== undefined && (
        <>
          <p class="hint">
            Who may use this server, and how much. Changes hold at once; <code>cllm keys</code>{' '}
            makes the same ones.
          </p>
          <DataTable label="Keys" rows={answer.data} keyOf={({ name }) => name} columns={columns} />
        </>
      )}
      <div role="status">
        <Markdown text={problem ?? told} />
      </div>
      {answer !== undefined && <AddKeyForm onAdded={askAgain} />}
    </Page>
  )
}

interface RevokeProps {
  readonly of: Key
  readonly onRevoke: () => void
}

/** A button that asks for a confirmation and revokes a key; not the one that this page uses. */
function Revoke({ of: { name, asks }, onRevoke }: RevokeProps) {
  const [isAsked, setAsked] = useState(false)
  if (asks) return <span class="dim">this page's</span>
  if (!isAsked) {
    return (
      <Quiet aria-label={`Revoke ${name}`} onClick={() => setAsked(true)}>
        Revoke
      </Quiet>
    )
  }
  return (
    <>
      <button class="danger" onClick={onRevoke}>
        Revoke {name} for good
      </button>
      <Quiet onClick={() => setAsked(false)}>Keep it</Quiet>
    </>
  )
}
