import { performance } from 'node:perf_hooks'
import { defaultSampling, type Backend, type BatchItem, type Sampler } from '@cllm/core'
import { quantile } from 'simple-statistics'
import type { PlannedStep } from './step-plan.js'

/** A step and how long it took. */
export interface MeasuredStep extends PlannedStep {
  /** The lower quartile, in milliseconds: others on the machine only make a step longer. */
  readonly durationMs: number
}

/** How steps are measured. */
export interface MeasureOptions {
  /** How often each step is measured. */
  readonly repeats: number
  readonly signal: AbortSignal
  /** Told after each measured step. */
  readonly onStep: () => void
}

const sampling = { ...defaultSampling, temperature: 0.7, topK: 40, topP: 0.9, seed: 1 }

/** Runs steps on a backend whose slots nobody else uses; afterwards they are empty. */
export class StepMeter {
  readonly #held: number[]
  readonly #samplers: Sampler[] = []

  constructor(private readonly backend: Backend) {
    this.#held = Array.from({ length: backend.limits.slots }, () => 0)
  }

  /** Measures each step several times, in turns, so that a slow spell does not meet one of them only. */
  async measure(plan: readonly PlannedStep[], options: MeasureOptions): Promise<MeasuredStep[]> {
    const times = plan.map(() => [] as number[])
    for (let repeat = 0; repeat < options.repeats; repeat++) {
      for (const [index, step] of plan.entries()) {
        options.signal.throwIfAborted()
        times[index]?.push(await this.#time(step))
        options.onStep()
      }
    }
    this.empty()
    return plan.map((step, index) => ({ ...step, durationMs: quick(times[index] ?? []) }))
  }

  /** Milliseconds that copying so many tokens from slot 0 to slot 1 takes. */
  async copyMs(tokens: number, repeats: number): Promise<number> {
    await this.#fill(0, tokens)
    const times: number[] = []
    for (let repeat = 0; repeat < repeats; repeat++) {
      this.backend.release(1)
      const began = performance.now()
      await this.backend.copyPrefix(0, 1, tokens)
      times.push(performance.now() - began)
    }
    this.#held[1] = tokens
    this.empty()
    return quick(times)
  }

  /** Gives all slots and samplers back. */
  empty(): void {
    for (const slot of this.#held.keys()) {
      this.backend.release(slot)
      this.#held[slot] = 0
    }
    for (const sampler of this.#samplers.splice(0)) sampler.dispose()
  }

  async #time({ shares }: PlannedStep): Promise<number> {
    for (const { slot, context } of shares) await this.#fill(slot, context)
    const batch = shares.map(({ slot, tokens, context }) => this.#item(slot, context, tokens, true))
    const began = performance.now()
    await this.backend.step(batch)
    const duration = performance.now() - began
    for (const { slot, tokens, context } of shares) this.#held[slot] = context + tokens
    for (const sampler of this.#samplers.splice(0)) sampler.dispose()
    return duration
  }

  /** Brings a slot to a length. */
  async #fill(slot: number, length: number): Promise<void> {
    const { backend } = this
    if ((this.#held[slot] ?? 0) > length) this.#held[slot] = backend.truncate(slot, length)
    while ((this.#held[slot] ?? 0) < length) {
      const position = this.#held[slot] ?? 0
      const tokens = Math.min(backend.limits.batchSize, length - position)
      await backend.step([this.#item(slot, position, tokens, false)])
      this.#held[slot] = position + tokens
    }
  }

  #item(slot: number, position: number, count: number, samples: boolean): BatchItem {
    const tokens = Array.from({ length: count }, (_, index) => this.#token(slot, position + index))
    if (!samples) return { slot, position, tokens, outputs: [] }
    const before = Array.from({ length: position }, (_, index) => this.#token(slot, index))
    const sampler = this.backend.createSampler(sampling, [...before, ...tokens])
    this.#samplers.push(sampler)
    return { slot, position, tokens, outputs: [position + count - 1], sampler }
  }

  #token(slot: number, position: number): number {
    const { vocabularySize } = this.backend.tokenizer
    const mixed = Math.imul((slot + 1) * 65_537 + position, 0x9e3779b1) >>> 8
    // Special tokens are mostly at the ends of a vocabulary.
    return Math.floor(vocabularySize / 8) + (mixed % Math.ceil(vocabularySize / 2))
  }
}

const quick = (times: readonly number[]) => quantile([...times], 0.25)
