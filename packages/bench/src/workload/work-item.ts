import { promptIds, type PromptPart, type RecordedPrompt } from '@cllm/simulation'

/**
 * A request of a load. A prompt is a text, or parts that are turned into text or token ids when
 * needed, so that the same item works for real and simulated servers.
 */
export interface WorkItem {
  readonly prompt: string | readonly PromptPart[]
  /** Tokens of the prompt: as asked for, or guessed from the text. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** When a trace sent it: milliseconds after its first request. */
  readonly atMs?: number
  /** Further data from a recording; used only by simulations. */
  readonly request?: RecordedPrompt['request']
  /** What the same client says after the answer; without `pauseMs` only closed loops of real requests have it. */
  readonly next?: WorkItem
  /** Of a follow-up: how long after the answer it comes, in milliseconds, in every loop. */
  readonly pauseMs?: number
  /** The tool that its answer calls, whose result `next` brings. */
  readonly calls?: string
  /** How soon its client says that the next one comes, in milliseconds; 0: none does. */
  readonly retainMs?: number
}

/** The source of a load's requests. */
export interface Dataset {
  /** Its name in reports. */
  readonly name: string
  /** The number of different items; undefined if unlimited. */
  readonly size?: number
  /** The tools that its items say are called. */
  readonly tools?: readonly string[]
  /** True when its items have times and can be replayed. */
  readonly timed: boolean
  /** The item at an index from 0; beyond `size`, it wraps around. */
  item(index: number): WorkItem
}

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
