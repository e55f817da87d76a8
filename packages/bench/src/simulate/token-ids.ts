import { promptIds } from '@cllm/simulation'
import type { WorkItem } from '../workload/work-item.js'

/**
 * Token ids that stand for an item's prompt: equal where two prompts have the same text, and as good
 * as never equal elsewhere. A prompt that is a text is taken as a whole.
 *
 * @param lap - counts how often a dataset has begun anew: its prompts are others each time
 */
export function tokenIds(item: WorkItem, lap = 0): number[] {
  const { prompt, inputTokens } = item
  const segments =
    typeof prompt === 'string' ? [{ key: `text ${prompt}`, tokens: inputTokens }] : prompt
  if (lap === 0) return promptIds(segments)
  return promptIds(segments.map(({ key, tokens }) => ({ key: `${lap} ${key}`, tokens })))
}
