import {
  type Chunk,
  lowestWhere,
  LinearFit,
  type SequenceView,
  type StepCostModel,
} from '@cllm/core'
import { cachedTokens } from '../../kit/ranked-orders.js'

/** The part of a prompt that a step computes. */
export interface PromptChunk extends Chunk {
  readonly request: SequenceView
}

/** The room of a step. */
interface Room {
  /** Milliseconds for prompts. */
  readonly ms: number
  readonly tokens: number
  /** Chunks whose length is a multiple of this are computed fastest. */
  readonly multiple: number
  /** Whether a prompt must make progress even if it does not fit. */
  readonly mustProgress: boolean
  /** Requests that a shorter step would serve sooner, including the requests in the step. */
  readonly waiting: number
}

/** The fewest tokens of a chunk that is not the end of its prompt. */
const fewestTokens = 16
/** A chunk may be longer than what fits by this factor, if that saves another chunk. */
const stretch = 1.25

/**
 * Chooses the chunks of the next prompts that a step computes.
 *
 * Prompts are computed whole, one after the other, so that the first to arrive is the first to finish. Several share a
 * step if that saves all waiting requests more time than it delays the prompts in the step. A prompt that does not fit is
 * cut, alone in its step.
 */
export function chooseChunks(
  prompts: Iterable<SequenceView>,
  costs: StepCostModel,
  room: Room,
): PromptChunk[] {
  const chosen: PromptChunk[] = []
  let spentMs = 0
  let tokensLeft = room.tokens
  for (const request of prompts) {
    if (tokensLeft < 1) break
    const remaining = request.remainingTokens
    const context = request.promptTokens + request.generatedTokens - remaining
    const whole = { request, tokens: remaining, context }
    if (chosen.length === 0) {
      const fewest = room.mustProgress ? Math.max(fewestTokens, room.multiple) : 0
      const fitting = Math.max(fewest, costs.prefillTokens(room.ms, context))
      const most = request.state === 'prefilling' ? fitting : stretch * fitting
      if (remaining > Math.min(most, tokensLeft)) {
        if (!room.mustProgress) return []
        const tokens = firstChunk(remaining, Math.min(fitting, tokensLeft), room.multiple)
        return [{ ...whole, tokens }]
      }
      spentMs = costs.prefillMs([whole])
    } else {
      const togetherMs = costs.prefillMs([...chosen, whole])
      const delayMs = togetherMs - spentMs
      const savedMs = costs.prefillMs([whole]) - delayMs
      if (remaining > tokensLeft || togetherMs > room.ms) break
      if (savedMs * room.waiting < delayMs * chosen.length) break
      spentMs = togetherMs
    }
    chosen.push(whole)
    tokensLeft -= remaining
  }
  return chosen
}

/**
 * The length of the next chunk: chunks are equally long, or multiples of `multiple`. The remainder comes first, where
 * attention has the least to read: on a CPU, 63 tokens behind 1,280 take over three times as long as 64.
 */
function firstChunk(remaining: number, fitting: number, multiple: number): number {
  if (multiple === 1 || fitting < multiple) {
    return Math.ceil(remaining / Math.ceil(remaining / fitting))
  }
  const chunk = Math.floor(fitting / multiple) * multiple
  return remaining - (Math.ceil(remaining / chunk) - 1) * chunk
}

/** The share of the time until a first token is late that is planned, as estimates are inexact and others arrive. */
const slackShare = 0.9
/** The ratio of neighbouring sizes that are compared. */
const growth = 1.2

/** The room of a step that decodes, too. */
interface JointRoom {
  /** Milliseconds of the step, at most. */
  readonly ms: number
  readonly tokens: number
  readonly decodes: Decodes
  /** The number of requests that a longer step delays: decoding ones, and those waiting for their slots. */
  readonly delayed: number
  /** The number of prompts that are in progress or could be. */
  readonly prompts: number
  /** Milliseconds until a prompt's first token is late; negative: it is late; Infinity: no limit. */
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
  const within = lowestWhere(
    Math.min(fewestTokens, most),
    most,
    (size) => stepMs(size + 1, context) > ms,
  )
  const decodeMs = costs.predictMs(decodes, [])
  // Attention costs the same in chunks of any length, and is left out: it reads nothing.
  const delay = (tokens: number): number => {
    const takes = stepMs(tokens, -tokens / 2)
    return (delayed * (takes - decodeMs) + prompts * takes) / tokens
  }
  // Below this size, a token more costs hardly anything.
  const fitting = [within]
  for (let size = costs.tokensBeside(decodes); size < within; size = Math.ceil(size * growth)) {
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

/** Sequences that decode in a step. */
export interface Decodes {
  readonly count: number
  /** What decoding them takes alone, in milliseconds. */
  readonly ms: number
}

/**
 * Learns what a step costs that decodes and computes prompts together, from what the two cost apart:
 *
 *     attention of both + longer · (the longer of the two) + shorter · (the shorter one)
 *
 * each without its attention. On a CPU the two add up. A GPU reads its weights as long as it decodes,
 * and computes some prompt tokens meanwhile for nothing, so that `shorter` is as good as 0 (the
 * roofline model: Williams et al., CACM 2009). Starts from costs that add up.
 */
export class JointCosts {
  /** What was learned. */
  readonly fit = new LinearFit({ prior: [1, 1, 1], spread: [0.3, 0.3, 1], memory: 0.9, outlier: 2 })

  /** @param apart - costs of steps that do one of the two */
  constructor(private readonly apart: StepCostModel) {}

  /** Milliseconds of these chunks beside these decodes. */
  predictMs(decodes: Decodes, chunks: readonly Chunk[]): number {
    return this.fit.predict(this.#features(decodes, chunks))
  }

  /** As many prompt tokens as take as long as these decodes, both without attention. */
  tokensBeside(decodes: Decodes): number {
    const each = this.apart.tokensMs(1)
    const spare = this.#weightsMs(decodes) - this.apart.prefillMs([{ tokens: 0, context: 0 }])
    return Math.max(fewestTokens, Math.floor(each > 0 ? spare / each : 0))
  }

  /** Milliseconds that a joint step saves of one that decodes and another one, where it shows best. */
  savedMs(decodes: Decodes): number {
    const chunks = [{ tokens: this.tokensBeside(decodes), context: 0 }]
    return decodes.ms + this.apart.prefillMs(chunks) - this.predictMs(decodes, chunks)
  }

  /** Learns from a step. */
  observe(decodes: Decodes, chunks: readonly Chunk[], durationMs: number): void {
    this.fit.observe(this.#features(decodes, chunks), durationMs)
  }

  /** What decodes take besides attention. */
  #weightsMs({ count, ms }: Decodes): number {
    return Math.min(ms, this.apart.decodeMs(Array.from({ length: count }, () => 0)))
  }

  #features(decodes: Decodes, chunks: readonly Chunk[]): number[] {
    const { apart } = this
    const decodeMs = this.#weightsMs(decodes)
    let attentionMs = decodes.ms - decodeMs
    for (const { tokens, context } of chunks) {
      attentionMs += apart.tokensMs(tokens, context) - apart.tokensMs(1) * tokens
    }
    const promptMs = apart.prefillMs(chunks) + decodes.ms - decodeMs - attentionMs
    return [attentionMs, Math.max(decodeMs, promptMs), Math.min(decodeMs, promptMs)]
  }
}
