import { type PromptPart, promptIds } from '@cllm/simulation'
import type { WorkItem } from '../workload/work-item.js'

/**
 * Token ids that stand for an item's prompt: equal where two prompts have the same text, and as good
 * as never equal elsewhere.
 *
 * @param lap - counts how often a dataset has begun anew: its prompts are others each time
 */
export function tokenIds(item: WorkItem, lap = 0): number[] {
  const parts = partsOf(item)
  if (lap === 0) return promptIds(parts)
  return promptIds(parts.map(({ key, ...more }) => ({ key: key && `${lap} ${key}`, ...more })))
}

/** The parts of an item's prompt. What its answer calls stands in place of the last token. */
export function partsOf(item: WorkItem): readonly PromptPart[] {
  const { calls } = item
  const parts = segmentsOf(item)
  const last = parts.at(-1)
  if (calls === undefined || last === undefined) return parts
  const call = { key: '', tokens: 1, call: calls }
  return [...parts.slice(0, -1), { ...last, tokens: last.tokens - 1 }, call]
}

/** The same without a call. One that is a text is taken as a whole. */
export const segmentsOf = ({ prompt, inputTokens }: WorkItem): readonly PromptPart[] =>
  typeof prompt === 'string' ? [{ key: `text ${prompt}`, tokens: inputTokens }] : prompt
