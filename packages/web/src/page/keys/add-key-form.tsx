import { useState } from 'preact/hooks'
import { CopyButton } from '../parts/icon.js'
import { Buttons, Field, Form, Problem, Quiet, Select, useTelling } from '../parts/form.js'
import { useServer } from '../server.js'

/** The limits that a key can have, with their labels. */
export const limits = [
  ['requests_per_minute', 'Requests a minute'],
  ['tokens_per_minute', 'Tokens a minute'],
  ['tokens_per_month', 'Tokens a month'],
] as const

/** The name of a limit. */
export type LimitName = (typeof limits)[number][0]

/** A key's limits, as in the server's `/admin/keys`; null: the server's limit holds, or none. */
export interface KeyTerms extends Readonly<Record<LimitName, number | null>> {
  readonly name: string
  readonly tenant: string
  readonly role: 'user' | 'metrics' | 'admin'
}

/** The words for a limit that a key does not set. */
export const withoutLimit = (limit: LimitName): string =>
  limit === 'tokens_per_month' ? 'no limit' : "the server's"

const empty: Readonly<Record<string, string>> = { role: 'user' }

/** The body of the request, without fields that were left empty. */
function bodyOf(draft: typeof empty): object {
  const given = Object.entries(draft).filter(([, text]) => text.trim() !== '')
  const isLimit = (name: string): boolean => limits.some(([limit]) => limit === name)
  return Object.fromEntries(
    given.map(([name, text]) => [name, isLimit(name) ? Number(text) : text.trim()]),
  )
}

/** Makes a key, and shows its secret until the user dismisses it. */
export function AddKeyForm({ onAdded }: { readonly onAdded: () => void }) {
  const server = useServer()
  const [draft, setDraft] = useState(empty)
  const [made, setMade] = useState<KeyTerms & { readonly key: string }>()
  const { told, attempt } = useTelling()
  const { name = '', tenant = '', role } = draft
  const set = (field: string) => (text: string) => setDraft({ ...draft, [field]: text })

  const add = async (): Promise<string> => {
    const call = { method: 'POST', body: bodyOf(draft) } as const
    type Made = { readonly data: KeyTerms & { readonly key: string } }
    setMade((await server.json<Made>('admin/keys', call)).data)
    setDraft(empty)
    onAdded()
    return ''
  }

  return (
    <Form class="card" onSend={() => attempt(add)}>
      <h2>New key</h2>
      <p class="hint">
        A user may generate; metrics may only be scraped; an admin may change the server and see
        all.
      </p>
      <div class="fields thirds">
        <Field label="Name" required autocomplete="off" value={name} onText={set('name')} />
        <Field
          label="Tenant"
          placeholder="as the name"
          autocomplete="off"
          value={tenant}
          onText={set('tenant')}
        />
        <Select
          label="Role"
          value={role}
          options={['user', 'metrics', 'admin']}
          onChoose={set('role')}
        />
        {limits.map(([limit, label]) => (
          <Field
            key={limit}
            label={label}
            type="number"
            min="1"
            placeholder={withoutLimit(limit)}
            value={draft[limit] ?? ''}
            onText={set(limit)}
          />
        ))}
      </div>
      <Buttons send="Make the key" disabled={name.trim() === ''} />
      <Problem text={told || undefined} />
      <div role="status">
        {made !== undefined && (
          <div class="made">
            <p>
              The key of {made.name}. It is shown <strong>only now</strong>: the server keeps its
              hash.
            </p>
            <p class="secret">
              <code>{made.key}</code> <CopyButton text={made.key} />
              <Quiet onClick={() => setMade(undefined)}>I have it</Quiet>
            </p>
          </div>
        )}
      </div>
    </Form>
  )
}
