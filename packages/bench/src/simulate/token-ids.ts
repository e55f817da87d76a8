import { promptIds } from '@cllm/simulation'
import type { PromptSegment, WorkItem } from '../workload/work-item.js'

/**
 * Token ids that stand for an item's prompt: equal where two prompts have the same text, and as good
 * as never equal elsewhere.
 *
 * @param lap - counts how often a dataset has begun anew: its prompts are others each time
 */
export function tokenIds(item: WorkItem, lap = 0): number[] {
  const segments = segmentsOf(item)
  if (lap === 0) return promptIds(segments)
  return promptIds(segments.map(({ key, tokens }) => ({ key: key && `${lap} ${key}`, tokens })))
}

/** The parts of an item's prompt. One that is a text is taken as a whole. */
export const segmentsOf = ({ prompt, inputTokens }: WorkItem): readonly PromptSegment[] =>
  typeof prompt === 'string' ? [{ key: `text ${prompt}`, tokens: inputTokens }] : prompt
