import type { SequenceView } from '@cllm/core'
import { fewestTokens, type PromptChunk } from '../../kit/choose-chunks.js'
import { cachedTokens } from '../../kit/waiting-heap.js'
import type { Decodes, JointCosts } from './joint-costs.js'

/** Of the time until a first token is late, this share is planned: estimates err, others come between. */
const slackShare = 0.9
/** Sizes that are compared are this far apart. */
const growth = 1.2

/** What a joint step has room for. */
interface JointRoom {
  /** Milliseconds of the step, at most. */
  readonly ms: number
  readonly tokens: number
  readonly decodes: Decodes
  /** Requests that a longer step delays: those that decode, and those that wait for their slots. */
  readonly delayed: number
  /** Prompts that run or may. */
  readonly prompts: number
  /** Milliseconds until a prompt's first token is late; below 0: it is. Infinity: never. */
  readonly slackMs: (request: SequenceView) => number
}

/**
 * The prompts of a step that decodes as well, one after the other, of as many tokens as cost least: a
 * token more delays the requests that decode, and a token less all prompts by a further step. Where the
 * first token of the first prompt would be late by that and need not, it is of more tokens.
 */
export function jointChunks(
  prompts: Iterable<SequenceView>,
  costs: JointCosts,
  room: JointRoom,
): PromptChunk[] {
  const chosen: PromptChunk[] = []
  let left: number | undefined
  for (const request of prompts) {
    const context = cachedTokens(request)
    left ??= stepTokens(request, context, costs, room)
    const tokens = Math.min(request.remainingTokens, left)
    chosen.push({ request, tokens, context })
    left -= tokens
    if (left < 1) break
  }
  return chosen
}

/** At least 1, if there is room for tokens at all. */
function stepTokens(
  request: SequenceView,
  context: number,
  costs: JointCosts,
  { ms, tokens: most, decodes, delayed, prompts, slackMs }: JointRoom,
): number {
  const stepMs = (tokens: number, before: number): number =>
    costs.predictMs(decodes, [{ tokens, context: before }])
  let [low, high] = [Math.min(fewestTokens, most), most]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (stepMs(middle, context) <= ms) low = middle
    else high = middle - 1
  }
  const decodeMs = costs.predictMs(decodes, [])
  // Attention costs the same in chunks of any length, and is left out: it reads nothing.
  const delay = (tokens: number): number => {
    const takes = stepMs(tokens, -tokens / 2)
    return (delayed * (takes - decodeMs) + prompts * takes) / tokens
  }
  // Below this size, a token more costs hardly anything.
  const fitting = [low]
  for (let size = costs.tokensBeside(decodes); size < low; size = Math.ceil(size * growth)) {
    fitting.push(size)
  }
  fitting.sort((one, other) => one - other)
  const best = fitting.reduce((one, size) => (delay(size) <= delay(one) ? size : one))
  const { remainingTokens } = request
  const isInTime = (tokens: number): boolean => {
    const stepLength = Math.min(tokens, remainingTokens)
    const before = context + (remainingTokens - stepLength) / 2
    return (
      Math.ceil(remainingTokens / tokens) * stepMs(stepLength, before) <=
      slackShare * slackMs(request)
    )
  }
  return fitting.find((size) => size >= best && isInTime(size)) ?? best
}
