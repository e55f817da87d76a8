import type { JSX } from 'preact'
import { Field, Select, TextArea } from '../parts/form.js'
import { ownNames, policyNames } from './policy-names.js'

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
          <Select
            label={`Policy ${index + 1}`}
            value={policy}
            options={[...policyNames, ...ownNames]}
            onChoose={(chosen) => change(index, { policy: chosen })}
          />
          <Field
            label={`Options of policy ${index + 1}`}
            placeholder="{}"
            spellcheck={false}
            value={options}
            onText={(text) => change(index, { options: text })}
          />
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
        <TextArea
          label="The order own: a request's rank, the lowest first"
          value={ownOrder}
          onText={setOwnOrder}
        />
      )}
    </section>
  )
}
