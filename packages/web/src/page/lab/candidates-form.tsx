import type { PolicySetting } from '@cllm/core'
import { X } from 'lucide'
import { Quiet, TextArea } from '../parts/form.js'
import { IconButton } from '../parts/icon.js'
import { halves, PolicyFields } from '../policy/policy-fields.js'

/** Two policies for a first try. */
export const usualCandidates: readonly PolicySetting[] = [
  { policy: 'adaptive+fcfs', options: {} },
  { policy: 'adaptive+sjf', options: {} },
]

const most = 4

/** The built-in policies, and every batching with the user's own order. */
const available = halves.batchings.flatMap((batching) =>
  [...halves.orders, 'own'].map((order) => `${batching}+${order}`),
)

interface CandidatesFormProps {
  readonly drafts: readonly PolicySetting[]
  /** The code of the user's own order. */
  readonly ownOrder: string
  readonly setOwnOrder: (code: string) => void
  readonly onChange: (drafts: readonly PolicySetting[]) => void
}

/** The policies to compare. */
export function CandidatesForm({ drafts, onChange, ownOrder, setOwnOrder }: CandidatesFormProps) {
  return (
    <section class="card" aria-label="Policies">
      <h2>Policies</h2>
      {drafts.map((draft, index) => (
        <div class="candidate" key={index} role="group" aria-label={`Policy ${index + 1}`}>
          <PolicyFields
            draft={draft}
            available={available}
            of={`policy ${index + 1}`}
            onChange={(next) => onChange(drafts.with(index, next))}
          />
          {drafts.length > 1 && (
            <IconButton
              icon={X}
              name={`Remove policy ${index + 1}`}
              onPress={() => onChange(drafts.filter((_, other) => other !== index))}
            />
          )}
        </div>
      ))}
      {drafts.length < most && (
        <Quiet onClick={() => onChange([...drafts, { policy: 'chunked+fcfs', options: {} }])}>
          Add policy
        </Quiet>
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
