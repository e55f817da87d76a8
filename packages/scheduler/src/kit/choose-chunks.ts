import type { Chunk, SequenceView, StepCostModel } from '@cllm/core'

/** What a step computes of a prompt. */
export interface PromptChunk extends Chunk {
  readonly request: SequenceView
}

/** What a step has room for. */
interface Room {
  /** Milliseconds for prompts. */
  readonly ms: number
  readonly tokens: number
  /** Chunks of a multiple of this many tokens are computed fastest. */
  readonly multiple: number
  /** Whether a prompt makes progress though it does not fit. */
  readonly mustProgress: boolean
  /** Requests that a shorter step would serve sooner, including the requests in the step. */
  readonly waiting: number
}

/** The smallest chunk of a prompt that is not its end. */
export const fewestTokens = 16
/** A chunk may be this much longer than what fits when that saves another one. */
const stretch = 1.25

/**
 * What a step computes of the prompts that are next.
 *
 * Prompts are computed whole, one after the other, so that the first to come is the first to finish.
 * Prompts share a step when the time that this saves for all waiting requests is more than the delay
 * of the prompts in it. A prompt that does not fit is cut, alone in its step.
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
 * Chunks are of one length, or of whole multiples where these are faster. What is left over comes
 * first, where attention has the least to read: 63 tokens behind 1,280 take over three times as long
 * as 64 on a CPU.
 */
function firstChunk(remaining: number, fitting: number, multiple: number): number {
  if (multiple === 1 || fitting < multiple) {
    return Math.ceil(remaining / Math.ceil(remaining / fitting))
  }
  const chunk = Math.floor(fitting / multiple) * multiple
  return remaining - (Math.ceil(remaining / chunk) - 1) * chunk
}
