import { promptIds, type PromptPart, type RecordedPrompt } from '@cllm/simulation'
import { CllmError, defined } from '@cllm/core'

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

/** Whether it is a call of a program, whose turns have pauses. Its client names the session, as agents do. */
export const isCall = ({ next, pauseMs = next?.pauseMs }: WorkItem): boolean =>
  pauseMs !== undefined

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

/** A dataset's items without what follows each: of programs the first requests alone. */
export const firstRequests = (dataset: Dataset): Dataset => ({
  ...dataset,
  item(index) {
    const { next: _, ...first } = dataset.item(index)
    return first
  },
})

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

/** Characters of a token, as long as nobody has counted: about that of English text. */
export const charactersPerToken = 4

/** About how many tokens an English text has: four characters each, but from one per text. */
export const guessTokens = (text: string): number =>
  Math.max(1, Math.round(text.length / charactersPerToken))

/** How a trace of a large machine becomes a load for a small one. */
export interface FitOptions {
  /** Factor on the time between requests; default 1, 0.5: twice as fast. */
  readonly timeScale?: number
  /** Factor on the lengths of prompts and answers; default 1. */
  readonly lengthScale?: number
  /** The longest prompt, in tokens; longer ones keep their beginning. */
  readonly maxInput?: number
  /** The longest answer, in tokens. */
  readonly maxOutput?: number
}

/** No model takes more; far longer ones would end the process, whose memory they do not fit. */
const mostTokens = 10_000_000

/**
 * The same requests, scaled and cut. What shares a prefix still does.
 *
 * @throws `invalid_dataset` at an item that is still far too long
 */
export function fitDataset(dataset: Dataset, options: FitOptions): Dataset {
  const fit = (item: WorkItem, index: number): WorkItem => {
    const fitted = fitItem(item, options)
    const { inputTokens, outputTokens } = fitted
    if (Math.max(inputTokens, outputTokens) > mostTokens) {
      const message = `request ${index} of ${dataset.name}: expected a prompt and an answer of at most ${mostTokens} tokens, got ${inputTokens} and ${outputTokens}: see --max-input and --max-output`
      throw new CllmError('invalid_dataset', message)
    }
    return item.next === undefined ? fitted : { ...fitted, next: fit(item.next, index) }
  }
  return { ...dataset, item: (index) => fit(dataset.item(index), index) }
}

function fitItem(item: WorkItem, options: FitOptions): WorkItem {
  const { timeScale = 1, lengthScale = 1, maxInput = Infinity, maxOutput = Infinity } = options
  const outputTokens = Math.min(maxOutput, scaled(item.outputTokens, lengthScale))
  const time = timesOf(item, timeScale)
  if (typeof item.prompt === 'string') {
    // A text is cut and never made longer.
    const inputTokens = Math.min(maxInput, item.inputTokens, scaled(item.inputTokens, lengthScale))
    const isCut = inputTokens < item.inputTokens
    const prompt = isCut ? item.prompt.slice(0, inputTokens * charactersPerToken) : item.prompt
    return { ...item, ...time, prompt, inputTokens, outputTokens }
  }
  let left = maxInput
  const prompt = item.prompt.flatMap(({ key, tokens }): PromptPart[] => {
    const part = Math.min(left, scaled(tokens, lengthScale))
    left -= part
    return part > 0 ? [{ key, tokens: part }] : []
  })
  const inputTokens = prompt.reduce((sum, { tokens }) => sum + tokens, 0)
  return { ...item, ...time, prompt, inputTokens, outputTokens }
}

/** When it arrives or follows, and after how long its client leaves. */
function timesOf({ atMs, pauseMs, request }: WorkItem, timeScale: number): Partial<WorkItem> {
  const scaledMs = (ms: number | undefined) => ms && ms * timeScale
  const cancelAfterMs = scaledMs(request?.cancelAfterMs)
  return defined({
    atMs: scaledMs(atMs),
    pauseMs: scaledMs(pauseMs),
    request: request && { ...request, ...defined({ cancelAfterMs }) },
  })
}

function scaled(tokens: number, factor: number): number {
  if (factor === 1) return tokens
  return Math.max(1, Math.round(tokens * factor))
}
