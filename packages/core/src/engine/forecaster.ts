import type { Forecast } from '../contracts/engine-client.js'
import { AnswerLengths } from '../learn/answer-lengths.js'
import type { KvCosts } from './kv-costs.js'
import { QueueOutlook, type Work } from './queue-outlook.js'
import type { StepPart } from './run-step.js'
import type { Sequence } from './sequence.js'

/** For so many milliseconds newcomers only join what was worked out before. */
const freshMs = 20
/** Share of what is known of steps that survives each one. */
const memory = 0.98

/** Whom a forecast is made for. */
export interface ForecastScene {
  readonly waiting: { readonly total: number; everyone(): Iterable<Sequence> }
  readonly running: { readonly list: readonly Sequence[] }
  readonly slots: { readonly costs: KvCosts; readonly freeCount: number }
}

/**
 * Predicts when a request that comes now will have its first token, from the work ahead of it: the
 * tokens of prompts that are to be computed, the answers that are to be written before a slot is
 * free, and what steps were seen to cost. It takes requests to be served in the order of their arrival.
 *
 * The idea of refusing early by a predicted time to first token is Mooncake's (Qin et al., "Mooncake:
 * A KVCache-centric Disaggregated Architecture for LLM Serving", 2024).
 */
export class Forecaster {
  readonly #answers = new AnswerLengths()
  /** What steps took over what they should have, with all that the loop does beside them. */
  #seenMs = 1
  #plannedMs = 1
  /** Of prompts, and in how many parts of steps they were computed. */
  #promptTokens = 512
  #promptParts = 1
  #outlook: QueueOutlook | undefined

  constructor(
    private readonly scene: ForecastScene,
    private readonly limits: { readonly slots: number; readonly contextSize: number },
  ) {}

  /** What a request that comes now is to expect. */
  forecast(sequence: Sequence, now: number): Forecast {
    const { waiting, slots } = this.scene
    const outlook = this.#look(now)
    const queueMs = Math.max(0, outlook.turnOf(Infinity) - now)
    const work = { tokens: sequence.remainingTokens, steps: this.#parts(sequence.remainingTokens) }
    return {
      position: Math.max(0, waiting.total - slots.freeCount + 1),
      queueMs,
      firstTokenMs: queueMs + outlook.firstTokenMs(work),
    }
  }

  /** Milliseconds until the waiting request at this place, from 0, is admitted. */
  turnMs(place: number, now: number): number {
    return Math.max(0, this.#look(now).turnOf(place) - now)
  }

  /** A request joined the queue. */
  joined(sequence: Sequence): void {
    this.#outlook?.add(this.#workOf(sequence))
  }

  /** One left it. */
  left(): void {
    this.#outlook?.left()
  }

  /** A turn of the loop with a step took so long. */
  stepped(parts: readonly StepPart[], durationMs: number): void {
    const { costs } = this.scene.slots
    let decodes = 0
    let tokens = 0
    for (const part of parts) {
      if (part.isDecode) decodes++
      else tokens += part.tokens
    }
    this.#seenMs = memory * this.#seenMs + durationMs
    this.#plannedMs = memory * this.#plannedMs + costs.stepMs(decodes) + costs.prefillMs(tokens)
    if (tokens === 0) return
    this.#promptTokens = memory * this.#promptTokens + tokens
    this.#promptParts = memory * this.#promptParts + parts.length - decodes
  }

  /** A request is over; `isWhole` unless something cut its answer. */
  ended({ generatedTokens }: Sequence, isWhole: boolean): void {
    this.#answers.ended(generatedTokens, isWhole)
  }

  #look(now: number): QueueOutlook {
    const known = this.#outlook
    if (known !== undefined && now - known.madeAt < freshMs) return known
    const { waiting, running, slots } = this.scene
    const { costs } = slots
    const slowness = this.#seenMs / Math.max(1, this.#plannedMs)
    const busy = Math.min(this.limits.slots, running.list.length + waiting.total + 1)
    const outlook = new QueueOutlook(
      now,
      this.limits.slots,
      running.list.map((sequence) => this.#workOf(sequence)),
      { stepMs: slowness * costs.stepMs(busy), tokenMs: slowness * costs.prefillMs(1) },
    )
    for (const sequence of waiting.everyone()) outlook.add(this.#workOf(sequence))
    this.#outlook = outlook
    return outlook
  }

  /** What is left of a request's work. Of those that wait, slots will have a share already. */
  #workOf(sequence: Sequence): Work {
    const { isWaiting, maxTokens, generatedTokens, promptTokens } = sequence
    const most = Math.min(maxTokens, this.limits.contextSize + 1 - promptTokens) - generatedTokens
    const steps = this.#answers.expected(Math.max(1, most))
    if (sequence.state === 'decoding') return { tokens: 0, steps }
    const left = sequence.tokens.length - sequence.computedTokens
    const tokens = isWaiting ? left * (1 - this.scene.slots.costs.reuseShare) : left
    return { tokens, steps: steps + this.#parts(tokens) - 1 }
  }

  /** In how many steps so many tokens of a prompt are computed. */
  #parts(tokens: number): number {
    return Math.max(1, (tokens * this.#promptParts) / this.#promptTokens)
  }
}
