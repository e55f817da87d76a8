import { performance } from 'node:perf_hooks'
import {
  type Backend,
  type BackendLimits,
  type BatchItem,
  defaultSampling,
  type Sampler,
} from '@cllm/core'
import { median, sum } from 'simple-statistics'
import type { Share } from '@cllm/simulation'

/** A step and how long it took. */
export interface MeasuredStep extends PlannedStep {
  /** The median, in milliseconds. */
  readonly durationMs: number
}

/** How steps are measured. */
export interface MeasureOptions {
  /** How often each step is measured; default: as often as 40 seconds allow, 3 to 50 times. */
  readonly repeats: number | undefined
  readonly signal: AbortSignal
  /** Called after each measured step, with the total number once it is known. */
  readonly onStep: (total: number | undefined) => void
}

const usualMs = 40_000
const fewest = 3
const most = 50

const sampling = { ...defaultSampling, temperature: 0.7, topK: 40, topP: 0.9, seed: 1 }

/** Runs steps on a backend whose slots are otherwise unused; empties them afterwards. */
export class StepMeter {
  readonly #held: number[]
  readonly #samplers: Sampler[] = []

  constructor(private readonly backend: Backend) {
    this.#held = Array.from({ length: backend.limits.slots }, () => 0)
  }

  /** Measures the steps in several rounds, so that a slow spell does not affect one step only. */
  async measure(plan: readonly PlannedStep[], options: MeasureOptions): Promise<MeasuredStep[]> {
    const times = plan.map(() => [] as number[])
    let { repeats } = options
    const began = performance.now()
    for (let repeat = 0; repeat < (repeats ?? 1); repeat++) {
      for (const [index, step] of plan.entries()) {
        options.signal.throwIfAborted()
        times[index]?.push(await this.#time(step))
        options.onStep(repeats && repeats * plan.length)
      }
      repeats ??= Math.min(most, Math.max(fewest, Math.ceil(usualMs / (performance.now() - began))))
    }
    return plan.map((step, index) => ({ ...step, durationMs: median(times[index] ?? []) }))
  }

  /** Milliseconds to copy this many tokens from slot 0 to slot 1, with the step after the copy. */
  async copyMs(tokens: number, repeats: number): Promise<number> {
    const shares = [{ slot: 1, tokens: 1, context: tokens }]
    await this.#bring([{ slot: 0, context: tokens }])
    const times: number[] = []
    for (let repeat = 0; repeat < repeats; repeat++) {
      this.backend.release(1)
      const began = performance.now()
      this.#held[1] = await this.backend.copyPrefix(0, 1, tokens)
      const copied = performance.now() - began
      // llama.cpp defers part of the copy to the next step, but not to the step after it.
      const [first, second] = [await this.#time({ shares }), await this.#time({ shares })]
      times.push(Math.max(0, copied + first - second))
    }
    return median(times)
  }

  /** Gives all slots and samplers back. */
  empty(): void {
    for (const slot of this.#held.keys()) {
      this.backend.release(slot)
      this.#held[slot] = 0
    }
    for (const sampler of this.#samplers.splice(0)) sampler.dispose()
  }

  async #time({ shares }: Pick<PlannedStep, 'shares'>): Promise<number> {
    await this.#bring(shares)
    const batch = shares.map(({ slot, tokens, context }) => this.#item(slot, context, tokens, true))
    const began = performance.now()
    await this.backend.step(batch)
    const duration = performance.now() - began
    for (const { slot, tokens, context } of shares) this.#held[slot] = context + tokens
    for (const sampler of this.#samplers.splice(0)) sampler.dispose()
    return duration
  }

  /** Brings slots to a length: a longer one is cut, a shorter one gets a copy, or is computed. */
  async #bring(wanted: readonly { readonly slot: number; readonly context: number }[]) {
    const copied: BatchItem[] = []
    for (const { slot, context } of wanted) {
      if (this.#length(slot) > context) this.#held[slot] = this.backend.truncate(slot, context)
      const longest = this.#held.indexOf(Math.max(...this.#held))
      if (this.#length(longest) >= context && this.#length(slot) < context) {
        this.#held[slot] = await this.backend.copyPrefix(longest, slot, context)
        if (this.#length(slot) === context) copied.push(this.#item(slot, context, 1, false))
      }
      await this.#compute(slot, context)
    }
    if (copied.length === 0) return
    // The deferred work of a copy must not count for the measured step.
    await this.backend.step(copied)
    for (const { slot, position } of copied) {
      this.#held[slot] = this.backend.truncate(slot, position)
      await this.#compute(slot, position)
    }
  }

  async #compute(slot: number, length: number): Promise<void> {
    while (this.#length(slot) < length) {
      const position = this.#length(slot)
      const tokens = Math.min(this.backend.limits.batchSize, length - position)
      await this.backend.step([this.#item(slot, position, tokens, false)])
      this.#held[slot] = position + tokens
    }
  }

  #length(slot: number): number {
    return this.#held[slot] ?? 0
  }

  #item(slot: number, position: number, count: number, samples: boolean): BatchItem {
    const tokens = Array.from({ length: count }, (_, index) => this.#token(position + index))
    if (!samples) return { slot, position, tokens, outputs: [] }
    const before = Array.from({ length: position }, (_, index) => this.#token(index))
    const sampler = this.backend.createSampler(sampling, [...before, ...tokens])
    this.#samplers.push(sampler)
    return { slot, position, tokens, outputs: [position + count - 1], sampler }
  }

  /** All slots hold the same text, so that one can be copied for another. */
  #token(position: number): number {
    const { vocabularySize } = this.backend.tokenizer
    const mixed = Math.imul(position + 1, 0x9e3779b1) >>> 8
    // Special tokens are mostly at the ends of a vocabulary.
    return Math.floor(vocabularySize / 8) + (mixed % Math.ceil(vocabularySize / 2))
  }
}

/** A step to measure: what its sequences compute, by slot, and what the slots held before. */
export interface PlannedStep {
  readonly kind: 'decode' | 'prefill' | 'mixed'
  readonly shares: readonly Share[]
}

/** The longest context that is measured. A context's cost is taken for linear: longer ones would only take longer to fill. */
export const longContext = 1024

/**
 * The steps that tell a machine's costs apart: few and many sequences, short and long contexts, one and
 * several chunks, all in slots that follow each other. Mixed ones and several lengths, which the backend may fill up,
 * are not fitted: they check the fit. The longest contexts come first, since a slot is shortened for nothing.
 */
export function planSteps({ slots, contextSize, batchSize }: BackendLimits): PlannedStep[] {
  const room = Math.max(0, contextSize - 64) / 2
  const counts = [1, 2, 4, 8, 16, 32].filter((count) => count <= slots)
  const several = counts.filter((count) => count > 1)
  const fewAndMany = [...new Set([...several.slice(0, 1), ...several.slice(-1)])]
  const longest = Math.min(longContext, Math.floor(room))
  const at = (context: number): PlannedStep[] => {
    const sizes = [16, ...(context === 0 ? [48] : []), 64, 128].filter(
      (size) => size <= Math.min(batchSize, room),
    )
    return [
      ...counts.map((count) => step('decode', equal(count, 1, context + 8))),
      ...sizes.map((size) => step('prefill', equal(1, size, context))),
      ...fewAndMany.flatMap((count) =>
        [16, 64]
          .filter((size) => sizes.includes(size) && size + count <= batchSize)
          .map((size) =>
            step('mixed', [...equal(count, 1, 40).slice(1), ...equal(1, size, context)]),
          ),
      ),
    ]
  }
  const groups = [[256], [64, 64], [32, 32, 32, 32], [32, 64], [16, 48, 96]]
    .filter((group) => group.length <= slots && sum(group) <= Math.min(batchSize, room))
    .map((group) => step(new Set(group).size > 1 ? 'mixed' : 'prefill', shares(group, 0)))
  return [longest, Math.floor(longest / 2), 0].flatMap(at).concat(groups)
}

const step = (kind: PlannedStep['kind'], all: readonly Share[]): PlannedStep => ({
  kind,
  shares: all,
})

const shares = (tokens: readonly number[], context: number): Share[] =>
  tokens.map((count, slot) => ({ slot, tokens: count, context }))

const equal = (count: number, tokens: number, context: number) =>
  shares(Array<number>(count).fill(tokens), context)
