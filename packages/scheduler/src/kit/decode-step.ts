import type { BackendLimits, PlannedRun, SequenceView } from '@cllm/core'
import { chooseDrafts, type StepCostModel } from '@cllm/core/portable'

/** A step of the next token of each request, with as many drafts as pay by the costs so far. */
export function decodeStep(
  decoding: readonly SequenceView[],
  costs: StepCostModel,
  limits: BackendLimits,
): PlannedRun[] {
  const chosen = chooseDrafts(decoding, costs, limits)
  return decoding.map(({ id }, index) => {
    const drafts = chosen[index] ?? 0
    return drafts === 0 ? { id, tokens: 1 } : { id, tokens: 1, drafts }
  })
}
