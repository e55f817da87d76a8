import { defined } from '@cllm/core'
import type { PromptPart } from '@cllm/simulation'
import { charactersPerToken } from './prompt-text.js'
import type { Dataset, WorkItem } from './work-item.js'

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

/** The same requests, scaled and cut. What shares a prefix still does. */
export function fitDataset(dataset: Dataset, options: FitOptions): Dataset {
  return { ...dataset, item: (index) => fitTurns(dataset.item(index), options) }
}

function fitTurns(item: WorkItem, options: FitOptions): WorkItem {
  const fitted = fitItem(item, options)
  return item.next === undefined ? fitted : { ...fitted, next: fitTurns(item.next, options) }
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
