import type { SchedulerState, SequenceView, Step, SchedulerEvent } from '@cllm/core'
import { StepCostModel, TrialPace, defineBatching, isOfBatch, workOf } from '@cllm/core'
import { z } from 'zod'
import {
  type Decodes,
  type PromptChunk,
  chooseChunks,
  jointChunks,
  JointCosts,
} from './prompt-chunks.js'
import { limitsOf, sloOption, positive } from '../../kit/options.js'

/** Without a latency limit, decoding gets at least this share of the time while prompts are computed. */
const decodeShare = 2 / 9
/** The share of an ITL limit that is planned, as chunks may be a quarter longer and estimates are inexact. */
const limitShare = 0.8
/** The longest step while no request decodes: it only delays arrivals and cancels. */
const idleTargetMs = 1000
/** The longest step while only the batch lane is computed: a client that arrives has to wait for it. */
const batchTargetMs = 100
/** The longest wait of a decode step for requests that are expected, as a share of the step. */
const waitShare = 1 / 5
/** Decodes and prompts share a step if that saves at least this share of the decode. */
const worthJoining = 1 / 6
/** The pace, in decisions, of trials of a shared step although it seems worse. */
const trialPace = { first: 1, factor: 2, longest: 16 }

/** The saved costs; each part is checked by the fit that recalls it. */
const learnedCosts = z.object({ steps: z.unknown(), joint: z.unknown() }).partial()

/**
 * Spends a limited time on prompts between two tokens of the decoding requests, by costs learned from earlier steps: the
 * time that the ITL limits leave or, without limits, a multiple of a decode. If decoding alone exceeds the limit, prompts
 * still make progress before every other step.
 *
 * If one step that decodes and computes prompts is cheaper than two, as on a GPU, it does both. Otherwise a step does one
 * of the two: a first token then does not wait for the next tokens of other requests, which are not delayed by it, and
 * the costs of both are learned separately.
 */
export const adaptive = defineBatching({
  name: 'adaptive',
  doc: 'Prompts beside decodes where the machine does both at once, else one or the other, by costs learned while running and the limits to keep. For everything; the default.',
  options: z.object({
    ...sloOption,
    targetStepMs: z
      .literal('auto')
      .or(positive)
      .default('auto')
      .describe(
        'Most milliseconds between two tokens of a decoding request; auto: 0.8 of the `itl` limit, or without one four times a decode step with all running and admissible requests.',
      ),
    alignChunks: z
      .boolean()
      .default(true)
      .describe("Whether parts of prompts are multiples of the attention's tile, 64 on CPUs."),
  }),
  create({ slo, targetStepMs, alignChunks }) {
    const costs = new StepCostModel()
    const jointCosts = new JointCosts(costs)
    const jointTrials = new TrialPace(trialPace)
    const anticipation = new Anticipation()
    const limits = limitsOf(slo)
    /** By step group: when the first step without its decoding requests began, since their last token. */
    const leftOut = new Map<string | undefined, number>()

    /** The target in milliseconds for the time between two tokens of these requests. */
    const targetOf = (decoding: readonly SequenceView[], prompts: number): number => {
      if (targetStepMs !== 'auto') return targetStepMs
      if (decoding.length === 0) return idleTargetMs
      const least = Math.min(...decoding.map((request) => limits(request).itl ?? Infinity))
      if (least < Infinity) return limitShare * least
      const contexts = decoding.map(({ computedTokens }) => computedTokens)
      return (
        costs.decodeMs([...contexts, ...Array.from({ length: prompts }, () => 0)]) / decodeShare
      )
    }

    const slackOf = (request: SequenceView, now: number): number => {
      const { ttft = Infinity } = request.generatedTokens === 0 ? limits(request) : {}
      return request.arrival + ttft - now
    }

    /** The number of prompt tokens that may share a step with decodes, if that saves enough or a trial is due; else 0. */
    const tokensBeside = (decodes: Decodes, room: number): number => {
      if (jointCosts.savedMs(decodes) > worthJoining * decodes.ms) return room
      return jointTrials.isDue() ? Math.min(room, jointCosts.tokensBeside(decodes)) : 0
    }

    return {
      plan(state, next) {
        const { now, running } = state
        const { batchSize, chunkMultiple = 1 } = state.limits
        const decoding: SequenceView[] = []
        const prefilling: SequenceView[] = []
        const contexts: number[] = []
        for (const request of running) {
          const { remainingTokens, computedTokens } = request
          if (remainingTokens > 1) prefilling.push(request)
          if (remainingTokens !== 1) continue
          decoding.push(request)
          contexts.push(computedTokens)
        }
        const group = running[0]?.stepGroup
        const slots = Math.max(0, Math.min(state.freeSlots, batchSize - running.length))
        const prompts = prefilling.length + Math.min(state.waiting.size, slots)
        const decodeMs = costs.decodeMs(contexts)
        if (decoding.length === 0) leftOut.delete(group)
        const leftOutSince = leftOut.get(group)
        const mayLeaveOut = leftOutSince === undefined
        // Forgets groups that have ended.
        if (state.delayed === undefined && leftOut.size > 1) leftOut.clear()
        if (decoding.length > 0 && mayLeaveOut && state.waiting.size < slots) {
          const wakeAt = anticipation.waitUntil(now, decodeMs * waitShare)
          if (wakeAt !== undefined) return { admit: [], run: [], wakeAt }
        }
        // Most steps: there are no prompts to compute.
        if (prompts === 0) {
          leftOut.delete(group)
          return stepOf(state, [], decoding.slice(0, batchSize))
        }

        const waiting = next[Symbol.iterator]()
        // Prompts in progress come before those of waiting requests.
        const first = prefilling.length > 0 ? undefined : waiting.next().value
        const inOrder =
          first === undefined
            ? inTurn(prefilling, waiting, slots)
            : inTurn([first], waiting, slots - 1)
        const isForBatches = running.every(isOfBatch) && (first === undefined || isOfBatch(first))
        const others = state.delayed?.filter(({ remainingTokens }) => remainingTokens === 1) ?? []
        const targetMs = targetOf([...decoding, ...others], prompts)
        const stepMs = Math.min(targetMs, isForBatches ? batchTargetMs : Infinity)
        // Decodes and prompts in one step …
        const roomBeside = chunkMultiple > 1 ? 0 : batchSize - decoding.length
        if (decoding.length > 0 && roomBeside > 0 && mayLeaveOut) {
          const decodes = { count: decoding.length, ms: decodeMs }
          const tokens = tokensBeside(decodes, roomBeside)
          if (tokens > 0) {
            const delayed = decoding.length + Math.max(0, state.waiting.size - slots)
            const slackMs = (request: SequenceView): number => slackOf(request, now)
            const room = { ms: stepMs, tokens, decodes, delayed, prompts, slackMs }
            return stepOf(state, jointChunks(inOrder, jointCosts, room), decoding)
          }
        }
        // … or prompts alone, if the target leaves time for them before the next decode; otherwise decodes alone.
        const chunks = chooseChunks(inOrder, costs, {
          ms: stepMs - decodeMs - (now - (leftOutSince ?? now)),
          tokens: batchSize,
          multiple: alignChunks ? chunkMultiple : 1,
          mustProgress: mayLeaveOut,
          waiting: decoding.length + prompts,
        })
        if (chunks.length === 0) {
          leftOut.delete(group)
          return stepOf(state, [], decoding.slice(0, batchSize))
        }
        if (decoding.length > 0 && mayLeaveOut) leftOut.set(group, now)
        return stepOf(state, chunks, [])
      },
      observe(event) {
        if (event.type === 'step') {
          const work = workOf(event.parts)
          const { decoding, chunks } = work
          const isJoint = decoding.length > 0 && chunks.length > 0
          if (!isJoint) costs.onWork(work, event.durationMs)
          else {
            const decodes = { count: decoding.length, ms: costs.decodeMs(decoding) }
            jointCosts.observe(decodes, chunks, event.durationMs)
          }
        }
        anticipation.observe(event)
      },
      learned: () => ({ steps: costs.learned(), joint: jointCosts.fit.learned() }),
      recall(learned) {
        const { steps, joint } = learnedCosts.parse(learned)
        costs.recall(steps)
        jointCosts.fit.recall(joint)
      },
    }
  },
})

function stepOf(
  { waiting }: Pick<SchedulerState, 'waiting'>,
  chunks: readonly PromptChunk[],
  decoding: readonly SequenceView[],
): Step {
  const admit: string[] = []
  const run: { readonly id: string; readonly tokens: number }[] = []
  for (const { id } of decoding) run.push({ id, tokens: 1 })
  for (const { request, tokens } of chunks) {
    if (waiting.has(request.id)) admit.push(request.id)
    run.push({ id: request.id, tokens })
  }
  return { admit, run }
}

/** The prompts that can be computed now: first those in `read`, then waiting ones as long as there are slots. */
function* inTurn(
  read: readonly SequenceView[],
  waiting: Iterator<SequenceView>,
  slots: number,
): Iterable<SequenceView> {
  yield* read
  for (let left = slots; left > 0; left--) {
    const { value, done } = waiting.next()
    if (done === true) return
    yield value
  }
}

/** A follower is only waited for if more than this share of ended requests had one. */
const worthWaiting = 0.5
/** The weight of each ended request in that share. */
const weight = 1 / 8
/** The initial share. High, so that waiting is tried: without waiting, clients find busy cores and return later. */
const shareAtFirst = 0.75

/**
 * Anticipates the next request of a client whose last one has just ended. Clients that send one request after the other
 * return within milliseconds, just too late for the next step: they would lose a step, with a slot empty meanwhile. If
 * recent clients returned, a step waits for them a moment (anticipatory scheduling: Iyer and Druschel, SOSP '01).
 */
class Anticipation {
  /** The ends of requests whose followers are still expected, the oldest first. */
  #due: number[] = []
  #share = shareAtFirst
  #patienceMs = 0

  /** Learns from requests that are done, and from those that arrive. */
  observe(event: SchedulerEvent): void {
    if (event.type === 'finished' && event.request.state === 'done') this.#due.push(event.now)
    if (event.type !== 'queued') return
    this.#giveUp(event.now)
    if (this.#due.shift() !== undefined) this.#share += weight * (1 - this.#share)
  }

  /**
   * Until when to wait for the expected requests, or undefined if it is not worth it.
   *
   * @param patienceMs - how long after the end of a request its follower is waited for
   */
  waitUntil(now: number, patienceMs: number): number | undefined {
    this.#patienceMs = patienceMs
    this.#giveUp(now)
    const last = this.#due.at(-1)
    return last === undefined || this.#share < worthWaiting ? undefined : last + patienceMs
  }

  #giveUp(now: number): void {
    let late = 0
    while (late < this.#due.length && this.#due[late]! + this.#patienceMs <= now) late++
    if (late === 0) return
    this.#share *= (1 - weight) ** late
    this.#due.splice(0, late)
  }
}
