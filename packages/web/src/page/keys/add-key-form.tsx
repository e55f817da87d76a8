import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { CopyButton } from '../parts/copy-button.js'
import { Field, Form, Problem, Select } from '../parts/form.js'
import { type KeyTerms, limits, withoutLimit } from './key-terms.js'
import { useServer } from '../server/server.js'

interface Draft {
  readonly name: string
  readonly tenant: string
  readonly role: string
  readonly limits: Readonly<Record<string, string>>
}

const empty: Draft = { name: '', tenant: '', role: 'user', limits: {} }

/** What is left empty is not sent. */
function bodyOf({ name, tenant, role, limits }: Draft): object {
  const given = Object.entries(limits).filter(([, text]) => text !== '')
  return {
    name: name.trim(),
    ...(tenant.trim() === '' ? {} : { tenant: tenant.trim() }),
    role,
    ...Object.fromEntries(given.map(([limit, text]) => [limit, Number(text)])),
  }
}

/** Makes a key, and shows it until that is said to be enough. */
export function AddKeyForm({ onAdded }: { readonly onAdded: () => void }): JSX.Element {
  const server = useServer()
  const [draft, setDraft] = useState(empty)
  const [made, setMade] = useState<KeyTerms & { readonly key: string }>()
  const [problem, setProblem] = useState<string>()
  const change = (part: Partial<Draft>): void => setDraft({ ...draft, ...part })

  const add = async (): Promise<void> => {
    try {
      const call = { method: 'POST', body: bodyOf(draft) } as const
      type Made = { readonly data: KeyTerms & { readonly key: string } }
      setMade((await server.json<Made>('admin/keys', call)).data)
      setDraft(empty)
      setProblem(undefined)
      onAdded()
    } catch (error) {
      setProblem((error as Error).message)
    }
  }

  return (
    <Form class="card" onSend={() => void add()}>
      <h2>New key</h2>
      <p class="hint">
        A user may generate; an admin may also change the server and see everything.
      </p>
      <div class="fields">
        <Field
          label="Name"
          required
          autocomplete="off"
          value={draft.name}
          onText={(name) => change({ name })}
        />
        <Field
          label="Tenant"
          placeholder="as the name"
          autocomplete="off"
          value={draft.tenant}
          onText={(tenant) => change({ tenant })}
        />
        <Select
          label="Role"
          value={draft.role}
          options={['user', 'admin']}
          onChoose={(role) => change({ role })}
        />
        {limits.map(([name, label]) => (
          <Field
            key={name}
            label={label}
            type="number"
            min="1"
            placeholder={withoutLimit(name)}
            value={draft.limits[name] ?? ''}
            onText={(text) => change({ limits: { ...draft.limits, [name]: text } })}
          />
        ))}
      </div>
      <div class="buttons">
        <button type="submit" disabled={draft.name.trim() === ''}>
          Make the key
        </button>
      </div>
      <Problem text={problem} />
      <div role="status">
        {made !== undefined && (
          <div class="made">
            <p>
              The key of {made.name}. It is shown <strong>only now</strong>: the server keeps its
              hash.
            </p>
            <p class="secret">
              <code>{made.key}</code> <CopyButton text={made.key} />
              <button type="button" class="quiet" onClick={() => setMade(undefined)}>
                I have it
              </button>
            </p>
          </div>
        )}
      </div>
    </Form>
  )
}
