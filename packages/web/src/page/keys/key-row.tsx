import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { Input } from '../parts/form.js'
import { type KeyTerms, type LimitName, limits, withoutLimit } from './key-terms.js'

/** A key as the server lists it. */
export interface Key extends KeyTerms {
  /** Whether this page asks with it. */
  readonly asks: boolean
}

/** Limits as the server takes them; null: none of its own. */
export type NewLimits = Readonly<Record<LimitName, number | null>>

type Draft = Readonly<Record<LimitName, string>>

const each = <T,>(make: (limit: LimitName) => T): Readonly<Record<LimitName, T>> =>
  Object.fromEntries(limits.map(([limit]) => [limit, make(limit)])) as Record<LimitName, T>

/** A key with its limits, which can be changed, and a button that revokes it. */
export function KeyRow({
  of: key,
  onRevoke,
  onLimit,
}: {
  readonly of: Key
  readonly onRevoke: () => void
  /** Resolves with whether the limits hold. */
  readonly onLimit: (limits: NewLimits) => Promise<boolean>
}): JSX.Element {
  const [draft, setDraft] = useState<Draft>()
  const { name, tenant, role } = key
  const save = async (): Promise<void> => {
    if (draft === undefined) return
    const limits = each((limit) => (draft[limit] === '' ? null : Number(draft[limit])))
    if (await onLimit(limits)) setDraft(undefined)
  }
  return (
    <tr>
      <th scope="row">{name}</th>
      <td data-label="tenant">{tenant}</td>
      <td data-label="role">{role}</td>
      {limits.map(([limit, label]) => (
        <td class="number" key={limit} data-label={label.toLowerCase()}>
          {draft === undefined ? (
            (key[limit]?.toLocaleString('en-US') ?? withoutLimit(limit))
          ) : (
            <Input
              type="number"
              min="1"
              placeholder={withoutLimit(limit)}
              aria-label={`${label} of ${name}`}
              value={draft[limit]}
              onText={(text) => setDraft({ ...draft, [limit]: text })}
            />
          )}
        </td>
      ))}
      <td>
        {draft === undefined ? (
          <>
            <button
              class="quiet"
              aria-label={`Change the limits of ${name}`}
              onClick={() => setDraft(each((limit) => String(key[limit] ?? '')))}
            >
              Limits
            </button>
            <Revoke of={key} onRevoke={onRevoke} />
          </>
        ) : (
          <>
            <button onClick={() => void save()}>Save</button>
            <button class="quiet" onClick={() => setDraft(undefined)}>
              Cancel
            </button>
          </>
        )}
      </td>
    </tr>
  )
}

/** Asks once more before it revokes; not the key that this page asks with. */
function Revoke({
  of: { name, asks },
  onRevoke,
}: {
  readonly of: Key
  readonly onRevoke: () => void
}): JSX.Element {
  const [isAsked, setAsked] = useState(false)
  if (asks) return <span class="dim">this page's</span>
  if (!isAsked) {
    return (
      <button class="quiet" aria-label={`Revoke ${name}`} onClick={() => setAsked(true)}>
        Revoke
      </button>
    )
  }
  return (
    <>
      <button class="danger" onClick={onRevoke}>
        Revoke {name} for good
      </button>
      <button class="quiet" onClick={() => setAsked(false)}>
        Keep it
      </button>
    </>
  )
}
