import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { TextField } from '../parts/text-field.js'
import { useServer } from '../server/server-context.js'
import { CopyButton } from '../parts/copy-button.js'
import { type KeyTerms, limits } from './key-terms.js'
import { LimitField } from './limit-field.js'

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

  const add = async (): Promise<void> => {
    try {
      const body = bodyOf(draft)
      const { data } = await server.json<{ readonly data: KeyTerms & { readonly key: string } }>(
        'admin/keys',
        { method: 'POST', body },
      )
      setMade(data)
      setDraft(empty)
      setProblem(undefined)
      onAdded()
    } catch (error) {
      setProblem((error as Error).message)
    }
  }

  return (
    <form
      class="card"
      onSubmit={(event) => {
        event.preventDefault()
        void add()
      }}
    >
      <h2>New key</h2>
      <p class="hint">
        A user may generate; an admin may also change the server and see everything.
      </p>
      <div class="fields">
        <TextField
          label="Name"
          required
          autocomplete="off"
          value={draft.name}
          onText={(text) => setDraft({ ...draft, name: text })}
        />
        <TextField
          label="Tenant"
          placeholder="as the name"
          autocomplete="off"
          value={draft.tenant}
          onText={(text) => setDraft({ ...draft, tenant: text })}
        />
        <label>
          Role
          <select
            value={draft.role}
            onChange={(event) => setDraft({ ...draft, role: event.currentTarget.value })}
          >
            <option value="user">user</option>
            <option value="admin">admin</option>
          </select>
        </label>
        {limits.map(([name, label]) => (
          <label key={name}>
            {label}
            <LimitField
              limit={name}
              value={draft.limits[name] ?? ''}
              onText={(text) => setDraft({ ...draft, limits: { ...draft.limits, [name]: text } })}
            />
          </label>
        ))}
      </div>
      <div class="buttons">
        <button type="submit" disabled={draft.name.trim() === ''}>
          Make the key
        </button>
      </div>
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
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
    </form>
  )
}
