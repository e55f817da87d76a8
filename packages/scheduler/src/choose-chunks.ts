import type { SequenceView } from '@cllm/core'
import type { Chunk, CostModel } from './cost-model.js'

/** What a step computes of a prompt. */
export interface PromptChunk extends Chunk {
  readonly request: SequenceView
  /** Whether it is shorter than what the prompt has left. */
  readonly isCut: boolean
}

/** What a step has room for. */
export interface Room {
  /** Milliseconds. */
  readonly ms: number
  readonly tokens: number
  /** Whether a prompt makes progress though it does not fit. */
  readonly mustProgress: boolean
  /** Requests that a shorter step would serve sooner, those in it included. */
  readonly waiting: number
}

/** A prompt makes at least this progress when it has to make some. */
const fewestTokens = 16
/** A chunk may be this much longer than what fits when that saves another one. */
const stretch = 1.25

/**
 * What a step computes of the prompts that are next.
 *
 * Prompts are computed whole, one after the other, so that the first to come is the first to finish.
 * More than one share a step when the time that this saves all that wait is more than the delay of
 * those it is shared with. A prompt that does not fit is cut into even chunks, alone in its step.
 */
export function chooseChunks(
  prompts: Iterable<SequenceView>,
  costs: CostModel,
  room: Room,
): PromptChunk[] {
  const chosen: PromptChunk[] = []
  let spentMs = 0
  let tokensLeft = room.tokens
  for (const request of prompts) {
    if (tokensLeft < 1) break
    const remaining = request.remainingTokens
    const context = request.promptTokens + request.generatedTokens - remaining
    const whole = { request, tokens: remaining, context, isCut: false }
    if (chosen.length === 0) {
      const fewest = room.mustProgress ? fewestTokens : 0
      const fitting = Math.max(fewest, costs.prefillTokens(room.ms, context))
      if (remaining > Math.min(fitting * stretch, tokensLeft)) {
        const tokens = evenChunk(remaining, Math.min(fitting, tokensLeft))
        return room.mustProgress ? [{ ...whole, tokens, isCut: true }] : []
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

/** So that the last chunk of a prompt is as long as the others. */
function evenChunk(remaining: number, fitting: number): number {
  return Math.ceil(remaining / Math.ceil(remaining / fitting))
}
