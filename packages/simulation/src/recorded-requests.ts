import { type ArrivalRecord, defined, type Recording } from '@cllm/core'
import { promptIds, type PromptPart } from './prompt-ids.js'
import type { SimulatedRequest } from './simulate-load.js'

/** A recorded request as it can be served again. */
export interface RecordedPrompt {
  /** What its prompt is made of: prompts that began alike begin with the same parts. */
  readonly prompt: readonly PromptPart[]
  readonly inputTokens: number
  /** Of an unfinished answer the tokens that it had. */
  readonly outputTokens: number
  /** When it came, in milliseconds after the first one. */
  readonly atMs: number
  /** All else that matters to a scheduler. A cancelled one is cancelled at the same time after its arrival. */
  readonly request: Omit<SimulatedRequest, 'id' | 'arrival' | 'prompt' | 'maxTokens'>
}

/**
 * What the requests of a recording asked for. Requests that were refused before their prompt was read are
 * left out.
 */
export function recordedPrompts({ arrivals, blockTokens }: Recording): RecordedPrompt[] {
  const taken = arrivals.filter(({ promptTokens = 0 }) => promptTokens > 0)
  const begin = Math.min(...taken.map(({ atMs }) => atMs))
  return taken.map((arrival, index) => {
    const { promptTokens = 0, blocks, atMs } = arrival
    const prompt = blocks.map((block) => ({ key: `block ${block}`, tokens: blockTokens }))
    const tail = promptTokens - blocks.length * blockTokens
    // No other prompt begins with what is no whole block.
    if (tail > 0) prompt.push({ key: `tail ${index}`, tokens: tail })
    return {
      prompt,
      inputTokens: promptTokens,
      outputTokens: answerTokens(arrival),
      atMs: atMs - begin,
      request: settingsOf(arrival),
    }
  })
}

/** The same for a simulation. */
export function recordedRequests(recording: Recording): SimulatedRequest[] {
  return recordedPrompts(recording).map((recorded, index) => ({
    ...recorded.request,
    id: String(index),
    arrival: recorded.atMs,
    prompt: () => promptIds(recorded.prompt),
    maxTokens: recorded.outputTokens,
  }))
}

function answerTokens({ end, tokens, maxTokens = tokens }: ArrivalRecord): number {
  const isCut = end === 'cancelled' || end === 'timeout'
  return Math.max(1, isCut ? maxTokens : tokens)
}

function settingsOf(arrival: ArrivalRecord): RecordedPrompt['request'] {
  const { priority, deadlineMs, tenant, session, stepGroup, cache, end, endMs } = arrival
  return defined({
    priority,
    deadlineMs,
    timeoutMs: arrival.timeoutMs ?? (end === 'timeout' ? endMs : undefined),
    tenant,
    session: session === undefined ? undefined : String(session),
    stepGroup,
    cache,
    cancelAfterMs: end === 'cancelled' ? endMs : undefined,
  })
}
