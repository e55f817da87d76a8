import type { SequenceView } from '@cllm/core'
import { defineBatching, StepCostModel } from '@cllm/core/portable'
import { z } from 'zod'
import { Anticipation } from '../kit/anticipation.js'
import { chooseChunks } from '../kit/choose-chunks.js'
import { decodeStep } from '../kit/decode-step.js'

/** Decoding gets at least this share of the time beside prompts that are computed whole … */
const decodeShare = 1 / 6
/** … and this beside one that is cut, which would hold it up again and again. */
const decodeShareBesideCut = 1 / 5
/** A decode step waits at most this share of its own time for requests that are due. */
const waitShare = 1 / 5
const shortestTargetMs = 50
const longestTargetMs = 600
/** Without decoding requests to stall, a step only has to end soon enough for arrivals and cancels. */
const idleTargetMs = 1000

/**
 * Spends at most `targetStepMs` on prompts between two tokens of the sequences that decode, by costs
 * learned from the steps that ran. Where decoding alone takes longer, prompts still make progress
 * before every other step.
 *
 * A step computes prompts or decodes, never both. A first token then need not wait for the next
 * tokens of the others, which come no later for it, and costs are learned apart.
 */
export const adaptive = defineBatching({
  name: 'adaptive',
  doc: 'Prompts or a token for every request, never both, by costs learned while running. For everything; the default.',
  options: z.object({
    targetStepMs: z
      .literal('auto')
      .or(z.number().positive())
      .default('auto')
      .describe(
        'Milliseconds between two tokens of a request that decodes, at most; auto: six times what decoding alone takes now (five times beside a prompt that has to be cut), more when many wait and few decode, within 50 and 600.',
      ),
  }),
  create({ targetStepMs }) {
    const costs = new StepCostModel()
    const anticipation = new Anticipation()
    /** When the first step began that left out the requests that decode, since their last token. */
    let leftOutSince: number | undefined

    return {
      plan(state, next) {
        const { now, running, limits } = state
        const decoding = running.filter((request) => request.remainingTokens === 1)
        const prefilling = running.filter((request) => request.remainingTokens > 1)
        const slots = Math.max(0, Math.min(state.freeSlots, limits.batchSize - running.length))
        const prompts = prefilling.length + Math.min(state.waiting.size, slots)
        const decodeMs = costs.decodeMs(decoding.map(({ computedTokens }) => computedTokens))
        if (decoding.length === 0) leftOutSince = undefined
        if (decoding.length > 0 && leftOutSince === undefined && state.waiting.size < slots) {
          const wakeAt = anticipation.waitUntil(now, decodeMs * waitShare)
          if (wakeAt !== undefined) return { admit: [], run: [], wakeAt }
        }

        const target = (share: number): number =>
          targetStepMs === 'auto'
            ? automaticTarget(decodeMs / share, decodeMs, decoding.length, prompts)
            : targetStepMs
        const usedMs = decodeMs + (now - (leftOutSince ?? now))
        const chunks = chooseChunks(inTurn(prefilling, next, slots), costs, {
          ms: target(decodeShare) - usedMs,
          cutMs: target(decodeShareBesideCut) - usedMs,
          tokens: limits.batchSize,
          multiple: limits.chunkMultiple ?? 1,
          mustProgress: leftOutSince === undefined,
          waiting: decoding.length + prompts,
        })
        if (chunks.length === 0) {
          leftOutSince = undefined
          return { admit: [], run: decodeStep(decoding.slice(0, limits.batchSize), costs, limits) }
        }
        if (decoding.length > 0) leftOutSince ??= now
        return {
          admit: chunks
            .filter(({ request }) => isWaiting(request))
            .map(({ request }) => request.id),
          run: chunks.map(({ request, tokens }) => ({ id: request.id, tokens })),
        }
      },
      observe(event) {
        if (event.type === 'step') costs.onStep(event.parts, event.durationMs)
        if (event.type === 'queued') anticipation.arrived(event.now)
        if (event.type === 'finished' && event.request.state === 'done')
          anticipation.ended(event.now)
      },
    }
  },
})

function automaticTarget(
  fairMs: number,
  decodeMs: number,
  decoding: number,
  prompts: number,
): number {
  if (decoding === 0) return idleTargetMs
  const urgency = Math.max(1, prompts / decoding)
  return Math.max(shortestTargetMs, Math.min(fairMs * urgency, longestTargetMs), 2 * decodeMs)
}

/** The prompts that may be computed now: first the prompts of running requests. */
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
