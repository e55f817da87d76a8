import { ownNames, policyNames } from './policy-names.js'
import type { JSX } from 'preact'

/** A policy to try, as it is typed. */
export interface CandidateDraft {
  readonly policy: string
  /** JSON. */
  readonly options: string
}

/** Two policies for a first try. */
export const usualCandidates: readonly CandidateDraft[] = [
  { policy: 'adaptive+fcfs', options: '' },
  { policy: 'adaptive+sjf', options: '' },
]

const most = 4

/** The policies to compare. */
export function CandidatesForm({
  drafts,
  onChange,
  ownOrder,
  setOwnOrder,
}: {
  readonly drafts: readonly CandidateDraft[]
  /** The code of the order `own`. */
  readonly ownOrder: string
  readonly setOwnOrder: (code: string) => void
  readonly onChange: (drafts: readonly CandidateDraft[]) => void
}): JSX.Element {
  const change = (at: number, part: Partial<CandidateDraft>): void =>
    onChange(drafts.map((draft, index) => (index === at ? { ...draft, ...part } : draft)))
  return (
    <section class="card" aria-label="Policies">
      <h2>Policies</h2>
      {drafts.map(({ policy, options }, index) => (
        <div class="fields" key={index}>
          <label>
            Policy {index + 1}
            <select
              value={policy}
              onChange={(event) => change(index, { policy: event.currentTarget.value })}
            >
              {[...policyNames, ...ownNames].map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
          </label>
          <label>
            Options of policy {index + 1}
            <input
              placeholder="{}"
              spellcheck={false}
              value={options}
              onInput={(event) => change(index, { options: event.currentTarget.value })}
            />
          </label>
          {drafts.length > 1 && (
            <button
              type="button"
              class="quiet end"
              aria-label={`Remove policy ${index + 1}`}
              onClick={() => onChange(drafts.filter((_, other) => other !== index))}
            >
              Remove
            </button>
          )}
        </div>
      ))}
      {drafts.length < most && (
        <button
          type="button"
          class="quiet"
          onClick={() => onChange([...drafts, { policy: 'chunked+fcfs', options: '' }])}
        >
          One more
        </button>
      )}
      {drafts.some(({ policy }) => policy.endsWith('+own')) && (
        <label>
          The order own: a request's rank, the lowest first
          <textarea
            rows={2}
            spellcheck={false}
            value={ownOrder}
            onInput={(event) => setOwnOrder(event.currentTarget.value)}
          />
        </label>
      )}
    </section>
  )
}
