import type { SequenceView } from '@cllm/core'
import type { Batching } from '../batching.js'
import { type Chunk, CostModel } from '../cost-model.js'
import { StepBuilder } from '../step-builder.js'

/** Options of {@link adaptive}. */
export interface AdaptiveOptions {
  /**
   * Milliseconds between two tokens of a decoding sequence, at most. Default `auto`: eight times what
   * decoding alone takes now, more when many wait and few decode, within 50 and 500 ms.
   */
  readonly targetStepMs?: number | 'auto'
}

/** Decoding gets at least this share of the time. */
const decodeShare = 1 / 8
const shortestTargetMs = 50
const longestTargetMs = 500
/** With nobody to stall, a step only has to end soon enough for those that come and go. */
const LINGER = Number(globalThis.process.env['LINGER'] ?? 0)
const idleTargetMs = 1000
/** A prompt makes at least this progress when it is its turn. */
const fewestTokens = 16
/** A chunk may be this much longer than what fits when that saves another one. */
const stretch = 1.25

/**
 * Spends at most `targetStepMs` on prompts between two tokens of the sequences that decode, by costs
 * learned from the steps that ran.
 *
 * - Prompts are computed whole, one after the other, where they fit: the first to come is the first
 *   to finish. They share a step when that costs them less than it saves all that wait.
 * - A step that ends prompts does not decode: their first tokens need not wait for the next tokens of
 *   the others, which come no later for it. When the time is used up, everyone decodes.
 * - A prompt that does not fit is cut into even chunks, and decoding goes along with each.
 */
export function adaptive({ targetStepMs = 'auto' }: AdaptiveOptions = {}): Batching {
  const costs = new CostModel()
  /** When the first step began that left out those that decode, since their last token. */
  let leftOutSince: number | undefined

  let finished = 0, lingerUntil = 0
  return {
    name: 'adaptive',
    options: { targetStepMs },
    plan(state, next) {
      if (LINGER>0 && finished > 0 && state.freeSlots>0) { if (state.now < lingerUntil) return { admit: [], run: [], wakeAt: lingerUntil }; finished = 0 }
      const step = new StepBuilder(state)
      const decoding = state.running.filter((request) => request.remainingTokens === 1)
      const prefilling = state.running.filter((request) => request.remainingTokens > 1)
      if (decoding.length === 0) leftOutSince = undefined
      const decodeMs = costs.decodeMs(decoding)
      const prompts = prefilling.length + Math.min(state.waiting.size, state.freeSlots)
      const targetMs =
        targetStepMs === 'auto' ? automaticTarget(decodeMs, decoding.length, prompts) : targetStepMs
      const roomMs = targetMs - decodeMs - (state.now - (leftOutSince ?? state.now))

      const chunks: Chunk[] = []
      let spentMs = 0
      let isCut = false
      for (const { request, isNew } of inTurn(prefilling, next, step)) {
        const remaining = request.remainingTokens
        const context = request.promptTokens + request.generatedTokens - remaining
        const limit = step.tokensLeft - decoding.length
        if (limit < 1) break
        let tokens = remaining
        if (chunks.length === 0) {
          const mayWait = leftOutSince !== undefined
          const fitting = Math.max(costs.prefillTokens(roomMs, context), mayWait ? 0 : fewestTokens)
          isCut = remaining > Math.min(fitting * stretch, limit)
          if (isCut && mayWait) break
          if (isCut) tokens = evenChunk(remaining, Math.min(fitting, limit))
          spentMs = costs.prefillMs([{ tokens, context }])
        } else {
          const chunk = { tokens, context }
          const togetherMs = costs.prefillMs([...chunks, chunk])
          const savedMs = spentMs + costs.prefillMs([chunk]) - togetherMs
          const delayMs = togetherMs - spentMs
          const fits = tokens <= limit && togetherMs <= roomMs
          if (!fits || savedMs * (decoding.length + prompts) < 3 * delayMs * chunks.length) break
          spentMs = togetherMs
        }
        chunks.push({ tokens, context })
        if (isNew) step.admit(request, tokens)
        else step.run(request, tokens)
        if (isCut) break
      }

      const decodes = isCut || chunks.length === 0
      if (decodes) for (const request of decoding) step.run(request, 1)
      leftOutSince = decodes ? undefined : (leftOutSince ?? state.now)
      return step.build()
    },
    observe(event) {
      if (event.type === 'finished') { finished++; lingerUntil = event.now + LINGER }
      if (event.type === 'queued' && finished > 0) finished--
      if (event.type === 'step') costs.observe(event)
    },
  }
}

function automaticTarget(decodeMs: number, decoding: number, prompts: number): number {
  if (decoding === 0) return idleTargetMs
  const urgency = Math.sqrt(Math.max(1, prompts / decoding))
  const wanted = (decodeMs / decodeShare) * urgency
  return Math.max(shortestTargetMs, Math.min(wanted, longestTargetMs), 2 * decodeMs)
}

/** So that the last chunk of a prompt is as long as the others. */
function evenChunk(remaining: number, fitting: number): number {
  return Math.ceil(remaining / Math.ceil(remaining / fitting))
}

/** The prompts that may be computed now, those with a slot first. */
function* inTurn(
  prefilling: readonly SequenceView[],
  next: Iterable<SequenceView>,
  step: StepBuilder,
): Iterable<{ request: SequenceView; isNew: boolean }> {
  for (const request of prefilling) yield { request, isNew: false }
  if (!step.canAdmit) return
  for (const request of next) {
    yield { request, isNew: true }
    if (!step.canAdmit) return
  }
}
