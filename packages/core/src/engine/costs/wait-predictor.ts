import { inject, injectable } from 'tsyringe'
import type { Backend } from '../../contracts/model/backend.js'
import type { Forecast } from '../../contracts/engine/generate-events.js'
import type { StepRecord } from '../../contracts/engine/engine-observer.js'
import * as tokens from '../../tokens.js'
import type { WaitPredictor } from '../engine-parts.js'
import { RunningSet, WaitingQueue } from '../requests/request-sets.js'
import type { Sequence } from '../requests/sequence.js'
import { ENGINE_COSTS, type EngineCosts } from './engine-costs.js'
import { workOf } from './pass-costs.js'
import { lowestWhere } from '../../defined.js'

/** A queue model is reused for this many milliseconds: requests only join it, so that an older one would be too long. */
const freshMs = 20
/** The factor by which sums over earlier steps decay with each new step. */
const memory = 0.98

/**
 * Predicts the TTFT of a request that arrives now, from the work ahead of it: the prompt tokens to compute, and the
 * answers to finish until a slot and enough KV cells are free, with the learned costs of steps. It assumes that requests
 * are served in the order of arrival.
 *
 * The idea of refusing early by a predicted time to first token is Mooncake's (Qin et al., "Mooncake:
 * A KVCache-centric Disaggregated Architecture for LLM Serving", 2024).
 */
@injectable()
export class FcfsWaitPredictor implements WaitPredictor {
  readonly #answers = new AnswerLengths()
  /** The measured time of the loop's turns, and the predicted time of their steps. */
  #seenMs = 1
  #plannedMs = 1
  /** The ratio of measured to predicted time. */
  #slowness = 1
  /** The predicted time of prompt chunks, and the number of their tokens. */
  #chunksMs = 0
  #chunkTokens = 0
  /** Computed prompt tokens, and the number of chunks in which they were computed. */
  #promptTokens = 512
  #promptParts = 1
  /** Generated tokens, and the number of decodes that they took: fewer, where drafts are accepted. */
  #answerTokens = 1
  #answerSteps = 1
  #queue: QueueModel | undefined

  constructor(
    @inject(WaitingQueue) private readonly waiting: WaitingQueue,
    @inject(RunningSet) private readonly running: RunningSet,
    @inject(ENGINE_COSTS) private readonly costs: EngineCosts,
    @inject(tokens.BACKEND) private readonly backend: Pick<Backend, 'limits'>,
  ) {}

  /** The forecast for a request that arrives now. */
  forecast(sequence: Sequence, now: number): Forecast {
    const { waiting, running } = this
    const queue = this.#look(now)
    const { remainingTokens } = sequence
    const { kvTokens, slots } = this.backend.limits
    const cells = kvTokens === undefined ? 0 : sequence.tokens.length + this.answerTokens(sequence)
    // Its chunks run alone, or in steps that they share with others.
    const steps = this.#parts(remainingTokens)
    const chunkMs = this.costs.steps.prefillMs([{ tokens: remainingTokens / steps, context: 0 }])
    const promptMs = Math.min(this.#slowness * steps * chunkMs, this.#sharedMs(remainingTokens))
    const { turn, firstTokenMs } = queue.forecast({ promptMs, steps, cells })
    const queueMs = Math.max(0, turn - now)
    // A request that waits for cells queues behind all others, even with free slots.
    const free = cells > 0 && queueMs > 0 ? 0 : slots - running.size
    return {
      position: Math.max(0, waiting.total - free + 1),
      queueMs,
      firstTokenMs: queueMs + firstTokenMs,
    }
  }

  /** Milliseconds until the waiting request at this place, from 0, gets a slot. */
  waitMs(place: number, now: number): number {
    return Math.max(0, this.#look(now).turnOf(place) - now)
  }

  /** How many more tokens a request is expected to generate. */
  answerTokens({ maxTokens, generatedTokens, promptTokens }: Sequence): number {
    const most =
      Math.min(maxTokens, this.backend.limits.contextSize + 1 - promptTokens) - generatedTokens
    return this.#answers.expected(Math.max(1, most))
  }

  onQueued(sequence: Sequence, now: number): void {
    if (now - (this.#queue?.madeAt ?? now) >= freshMs) this.#queue = undefined
    this.#queue?.add(this.#workOf(sequence))
  }

  onAdmitted(): void {
    if (this.#queue !== undefined) this.#queue.gone++
  }

  onFinished(sequence: Sequence): void {
    const isWhole = sequence.state === 'done' && sequence.finish !== 'length'
    this.#answers.onEnded(sequence.generatedTokens, isWhole)
  }

  onTurn(durationMs: number, step: StepRecord | undefined): void {
    if (step === undefined) return
    const { prefillTokens, prefillSequences, decodeSequences, acceptedTokens } = step
    const { steps } = this.costs
    const { decoding, verifying, chunks } = workOf(step.parts)
    const chunksMs = steps.prefillMs(chunks)
    this.#seenMs = memory * this.#seenMs + durationMs
    this.#plannedMs = memory * this.#plannedMs + chunksMs
    this.#plannedMs += steps.decodeMs(decoding, verifying)
    this.#slowness = this.#seenMs / Math.max(1, this.#plannedMs)
    if (decodeSequences > 0) {
      this.#answerSteps = memory * this.#answerSteps + decodeSequences
      this.#answerTokens = memory * this.#answerTokens + decodeSequences + acceptedTokens
    }
    if (prefillTokens === 0) return
    this.#chunksMs = memory * this.#chunksMs + chunksMs
    this.#chunkTokens *= memory
    for (const { tokens } of chunks) this.#chunkTokens += tokens
    this.#promptTokens = memory * this.#promptTokens + prefillTokens
    this.#promptParts = memory * this.#promptParts + prefillSequences
  }

  #look(now: number): QueueModel {
    const known = this.#queue
    if (known !== undefined && now - known.madeAt < freshMs) return known
    const { waiting, running, costs } = this
    const { slots, kvTokens = Infinity } = this.backend.limits
    const work: Work[] = []
    let context = 0
    let cells = 0
    for (const sequence of running.values()) {
      const one = this.#workOf(sequence)
      work.push(one)
      cells += one.cells ?? 0
      context += sequence.computedTokens / running.size
    }
    // How many requests like the running ones fit into the pool.
    const fitting = cells === 0 ? Infinity : Math.max(1, (kvTokens * work.length) / cells)
    const busy = Math.round(Math.min(slots, fitting, work.length + waiting.total + 1))
    const stepMs = costs.steps.decodeMs(Array<number>(busy).fill(context))
    const queue = new QueueModel(now, slots, work, this.#slowness * stepMs, kvTokens)
    for (const sequence of waiting.all()) queue.add(this.#workOf(sequence))
    this.#queue = queue
    return queue
  }

  /** The remaining work of a request, assuming that a share of a waiting prompt is cached. */
  #workOf(sequence: Sequence): Work {
    const answerTokens = this.answerTokens(sequence)
    const steps = (answerTokens * this.#answerSteps) / this.#answerTokens
    const cells =
      this.backend.limits.kvTokens === undefined ? 0 : sequence.tokens.length + answerTokens
    if (sequence.state === 'decoding') return { promptMs: 0, steps, cells }
    const left = sequence.tokens.length - sequence.computedTokens
    const tokens = sequence.isWaiting ? left * (1 - this.costs.reuseShare) : left
    return { promptMs: this.#sharedMs(tokens), steps: steps + this.#parts(tokens) - 1, cells }
  }

  /** Milliseconds that this many prompt tokens add to steps that they share with other requests. */
  #sharedMs(tokens: number): number {
    const { steps } = this.costs
    const tokenMs = this.#chunkTokens === 0 ? steps.tokensMs(1) : this.#chunksMs / this.#chunkTokens
    return this.#slowness * tokens * tokenMs
  }

  /** The expected number of chunks for this many tokens of a prompt. */
  #parts(tokens: number): number {
    return Math.max(1, (tokens * this.#promptParts) / this.#promptTokens)
  }
}

/** The factor by which earlier answers decay with each new one. */
const answerMemory = 0.98

/**
 * Learns the length of answers. Each token is assumed to be the last one with the same probability, so
 * the remaining length does not depend on the tokens so far: the maximum likelihood estimate of an
 * exponential distribution. An answer that was cut (by its limit or a cancel) counts with its tokens
 * and without an end. If all answers reach their limits, the limit is predicted.
 */
export class AnswerLengths {
  // Prior: one end in 256 tokens, with a small weight.
  #ends = 0.25
  #tokens = 64

  /** An answer ended with this many tokens; `isWhole` unless it was cut. */
  onEnded(tokens: number, isWhole: boolean): void {
    this.#ends = answerMemory * this.#ends + (isWhole ? 1 : 0)
    this.#tokens = answerMemory * this.#tokens + tokens
  }

  /** The expected number of further tokens, of which there are at most `limit`. */
  expected(limit: number): number {
    const rate = this.#ends / Math.max(1, this.#tokens)
    return rate * limit < 1e-6 ? limit : -Math.expm1(-rate * limit) / rate
  }
}

/** The predicted work of a request. */
export interface Work {
  /** Milliseconds that its prompt adds to the steps. */
  readonly promptMs: number
  /** Steps for which it keeps a slot. */
  readonly steps: number
  /** KV cells of the pool that it occupies as long; default 0. */
  readonly cells?: number
}

/** A request with a slot: when it ends, in steps from now, and its number of cells. */
interface Busy {
  readonly end: number
  readonly cells: number
}

/**
 * A model of the queue at one point in time: the waiting requests are admitted in order, each as soon as a slot and its
 * KV cells are free. Until then, the prompts ahead lengthen the steps.
 */
export class QueueModel {
  /** Sorted by `end`. */
  readonly #busy: Busy[] = []
  #freeSlots: number
  #freeCells: number
  /** When the last request is admitted, in steps from now. */
  #at = 0
  /** The times at which the waiting requests are admitted, in their order. */
  readonly #turns: number[] = []
  /** The number of requests admitted since the model was made, each from the head of the queue. */
  gone = 0
  /** Milliseconds of all prompts ahead of a new request. */
  #promptMs = 0

  constructor(
    readonly madeAt: number,
    slots: number,
    running: Iterable<Work>,
    /** Milliseconds of a step in which all slots decode. */
    private readonly stepMs: number,
    /** Cells of the pool; default: each slot has its own. */
    cells = Infinity,
  ) {
    this.#freeCells = cells
    for (const { promptMs, steps, cells: own = 0 } of running) {
      this.#take({ end: steps, cells: own })
      this.#promptMs += promptMs
    }
    this.#freeSlots = Math.max(0, slots - this.#busy.length)
  }

  /** A request joins the queue. */
  add({ promptMs, steps, cells = 0 }: Work): void {
    const turn = this.#turn(cells)
    this.#turns.push(turn.time)
    for (const ended of this.#busy.splice(0, turn.ended)) {
      this.#freeCells += ended.cells
      this.#freeSlots++
    }
    this.#at = turn.at
    this.#freeSlots--
    this.#take({ end: turn.at + steps, cells })
    this.#promptMs += promptMs
  }

  /** When the waiting request at this place, from 0, is admitted; beyond the queue: when a new one would be. */
  turnOf(place: number): number {
    return this.#turns[place + this.gone] ?? this.#turn(0).time
  }

  /** When a new request with this work is admitted, and the milliseconds from then to its first token. */
  forecast({ promptMs, steps, cells = 0 }: Work): { turn: number; firstTokenMs: number } {
    const { at, time } = this.#turn(cells)
    const others = at === 0 ? this.#promptMs : 0
    return { turn: time, firstTokenMs: steps * this.stepMs + promptMs + others }
  }

  /**
   * When a request that needs this many cells is admitted, in steps from now (`at`) and by the clock (`time`), and how
   * many running requests have ended by then. A request that is alone always has its cells.
   */
  #turn(cells: number): { at: number; time: number; ended: number } {
    let [at, freeSlots, freeCells] = [this.#at, this.#freeSlots, this.#freeCells]
    let ended = 0
    for (const { end, cells: own } of this.#busy) {
      if (freeSlots > 0 && freeCells >= cells) break
      at = end
      freeSlots++
      freeCells += own
      ended++
    }
    // If a slot is free, no other prompt is ahead.
    const ms = at === 0 ? 0 : at * this.stepMs + this.#promptMs
    return { at, time: this.madeAt + ms, ended }
  }

  #take(one: Busy): void {
    this.#freeCells -= one.cells
    const place = lowestWhere(0, this.#busy.length, (index) => this.#busy[index]!.end > one.end)
    this.#busy.splice(place, 0, one)
  }
}
