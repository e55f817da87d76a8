import type { SequenceView } from '@cllm/core'
import { Anticipation } from '../anticipation.js'
import type { Batching } from '../batching.js'
import { chooseChunks } from '../choose-chunks.js'
import { CostModel } from '../cost-model.js'

/** Options of {@link adaptive}. */
export interface AdaptiveOptions {
  /**
   * Milliseconds between two tokens of a decoding sequence, at most. Default `auto`: eight times what
   * decoding alone takes now, more when many wait and few decode, within 50 and 600 ms.
   */
  readonly targetStepMs?: number | 'auto'
}

/** Decoding gets at least this share of the time. */
const decodeShare = 1 / 8
/** A decode step waits at most this share of its own time for those who are due. */
const waitShare = 1 / 5
const shortestTargetMs = 50
const longestTargetMs = 600
/** With nobody to stall, a step only has to end soon enough for those that come and go. */
const idleTargetMs = 1000

/**
 * Spends at most `targetStepMs` on prompts between two tokens of the sequences that decode, by costs
 * learned from the steps that ran.
 *
 * A step that ends prompts does not decode: their first tokens need not wait for the next tokens of
 * the others, which come no later for it. When the time is used up, everyone decodes. A prompt that
 * does not fit is cut, and decoding goes along with each chunk. Where decoding alone takes longer
 * than the target, prompts still make progress with every other step.
 */
export function adaptive({ targetStepMs = 'auto' }: AdaptiveOptions = {}): Batching {
  const costs = new CostModel()
  const anticipation = new Anticipation()
  /** When the first step began that left out those that decode, since their last token. */
  let leftOutSince: number | undefined

  return {
    name: 'adaptive',
    options: { targetStepMs },
    plan(state, next) {
      const { now, running, limits } = state
      const decoding = running.filter((request) => request.remainingTokens === 1)
      const prefilling = running.filter((request) => request.remainingTokens > 1)
      const slots = Math.max(0, Math.min(state.freeSlots, limits.batchSize - running.length))
      const prompts = prefilling.length + Math.min(state.waiting.size, slots)
      const decodeMs = costs.decodeMs(decoding)
      if (decoding.length === 0) leftOutSince = undefined
      if (decoding.length > 0 && leftOutSince === undefined && state.waiting.size < slots) {
        const wakeAt = anticipation.waitUntil(now, decodeMs * waitShare)
        if (wakeAt !== undefined) return { admit: [], run: [], wakeAt }
      }

      const targetMs =
        targetStepMs === 'auto' ? automaticTarget(decodeMs, decoding.length, prompts) : targetStepMs
      const chunks = chooseChunks(inTurn(prefilling, next, slots), costs, {
        ms: targetMs - decodeMs - (now - (leftOutSince ?? now)),
        tokens: limits.batchSize - decoding.length,
        mustProgress: leftOutSince === undefined,
        waiting: decoding.length + prompts,
      })
      const leavesOut = decoding.length > 0 && chunks.some((chunk) => !chunk.isCut)
      leftOutSince = leavesOut ? (leftOutSince ?? now) : undefined
      const decoded = leavesOut ? [] : decoding.slice(0, limits.batchSize)
      return {
        admit: chunks.filter((chunk) => isWaiting(chunk.request)).map((chunk) => chunk.request.id),
        run: [
          ...chunks.map(({ request, tokens }) => ({ id: request.id, tokens })),
          ...decoded.map(({ id }) => ({ id, tokens: 1 })),
        ],
      }
    },
    observe(event) {
      if (event.type === 'step') costs.observe(event)
      if (event.type === 'queued') anticipation.arrived(event.now)
      if (event.type === 'finished' && event.request.state === 'done') anticipation.ended(event.now)
    },
  }
}

function automaticTarget(decodeMs: number, decoding: number, prompts: number): number {
  if (decoding === 0) return idleTargetMs
  const urgency = Math.sqrt(Math.max(1, prompts / decoding))
  const wanted = (decodeMs / decodeShare) * urgency
  return Math.max(shortestTargetMs, Math.min(wanted, longestTargetMs), 2 * decodeMs)
}

/** The prompts that may be computed now, those with a slot first. */
function* inTurn(
  prefilling: readonly SequenceView[],
  next: Iterable<SequenceView>,
  slots: number,
): Iterable<SequenceView> {
  yield* prefilling
  if (slots === 0) return
  let left = slots
  for (const request of next) {
    yield request
    left -= 1
    if (left === 0) return
  }
}

function isWaiting({ state }: SequenceView): boolean {
  return state === 'queued' || state === 'preempted'
}
