import type { Distribution, StepStatistics } from '../../contracts/engine/engine-statistics.js'
import type { StepTotals } from './counters.js'

const stepMsBounds = [1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2500, 10_000]
/** Bounds of vLLM's `iteration_tokens_total`. */
const tokenBounds = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384]
const sequenceBounds = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256]

/** Composition and duration of steps. */
export class StepCounters {
  #prefillTokens = 0
  #decodeTokens = 0
  readonly #stepMs = new Tally(stepMsBounds)
  readonly #stepTokens = new Tally(tokenBounds)
  readonly #stepSequences = new Tally(sequenceBounds)

  count(step: StepTotals): void {
    const { durationMs, prefillTokens, prefillSequences, decodeSequences, draftTokens } = step
    this.#prefillTokens += prefillTokens
    this.#decodeTokens += decodeSequences + draftTokens
    this.#stepMs.add(durationMs)
    this.#stepTokens.add(prefillTokens + decodeSequences + draftTokens)
    this.#stepSequences.add(prefillSequences + decodeSequences)
  }

  snapshot(): StepStatistics {
    return {
      prefillTokens: this.#prefillTokens,
      decodeTokens: this.#decodeTokens,
      stepMs: this.#stepMs.snapshot(),
      stepTokens: this.#stepTokens.snapshot(),
      stepSequences: this.#stepSequences.snapshot(),
    }
  }
}

class Tally {
  readonly #counts: number[]
  #sum = 0

  constructor(private readonly bounds: readonly number[]) {
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  add(value: number): void {
    const found = this.bounds.findIndex((bound) => value <= bound)
    const index = found === -1 ? this.bounds.length : found
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += value
  }

  snapshot(): Distribution {
    return { bounds: this.bounds, counts: [...this.#counts], sum: this.#sum }
  }
}
