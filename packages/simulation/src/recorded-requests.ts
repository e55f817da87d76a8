import type { ArrivalRecord, Recording } from '@cllm/core'
import { promptIds, type PromptPart } from './prompt-ids.js'
import type { SimulatedRequest } from './simulate-load.js'

/** A recorded request as it can be served again. */
export interface RecordedPrompt {
  /** What its prompt is made of: prompts that began alike begin with the same parts. */
  readonly parts: readonly PromptPart[]
  readonly promptTokens: number
  readonly answerTokens: number
  /** All else that matters to a scheduler. */
  readonly settings: Pick<
    SimulatedRequest,
    | 'priority'
    | 'deadlineMs'
    | 'timeoutMs'
    | 'tenant'
    | 'session'
    | 'stepGroup'
    | 'cache'
    | 'cancelAfterMs'
  >
}

/**
 * What a recorded request asked for. An unfinished answer has the tokens that it had; a cancelled
 * request is cancelled at the same time after its arrival.
 *
 * @param index - makes what no other prompt begins with its own
 */
export function recordedPrompt(
  arrival: ArrivalRecord,
  index: number,
  blockTokens: number,
): RecordedPrompt {
  const { promptTokens = 0, blocks } = arrival
  const tail = promptTokens - blocks.length * blockTokens
  const parts: PromptPart[] = blocks.map((block) => ({
    key: `block ${block}`,
    tokens: blockTokens,
  }))
  if (tail > 0) parts.push({ key: `tail ${index}`, tokens: tail })
  return {
    parts,
    promptTokens,
    answerTokens: answerTokens(arrival),
    settings: settingsOf(arrival),
  }
}

/**
 * The requests of a recording, the first one at 0. Requests that were refused before their prompt was
 * read are left out.
 */
export function recordedRequests({ arrivals, blockTokens }: Recording): SimulatedRequest[] {
  const taken = arrivals.filter(({ promptTokens = 0 }) => promptTokens > 0)
  const begin = Math.min(...taken.map(({ atMs }) => atMs))
  return taken.map((arrival, index) => {
    const { parts, answerTokens, settings } = recordedPrompt(arrival, index, blockTokens)
    return {
      ...settings,
      id: String(index),
      arrival: arrival.atMs - begin,
      prompt: () => promptIds(parts),
      maxTokens: answerTokens,
    }
  })
}

function answerTokens({ end, tokens, maxTokens = tokens }: ArrivalRecord): number {
  const isCut = end === 'cancelled' || end === 'timeout'
  return Math.max(1, isCut ? maxTokens : tokens)
}

function settingsOf(arrival: ArrivalRecord): RecordedPrompt['settings'] {
  const { priority, deadlineMs, tenant, session, stepGroup, cache, end, endMs } = arrival
  const timeoutMs = arrival.timeoutMs ?? (end === 'timeout' ? endMs : undefined)
  const cancelAfterMs = end === 'cancelled' ? endMs : undefined
  return {
    ...(priority !== undefined && { priority }),
    ...(deadlineMs !== undefined && { deadlineMs }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(tenant !== undefined && { tenant }),
    ...(session !== undefined && { session: String(session) }),
    ...(stepGroup !== undefined && { stepGroup }),
    ...(cache !== undefined && { cache }),
    ...(cancelAfterMs !== undefined && { cancelAfterMs }),
  }
}
