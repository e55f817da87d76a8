import type { Distribution, StepStatistics } from '../contracts/engine-statistics.js'
import type { StepRecord } from '../contracts/recording.js'

const stepMsBounds = [1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2500, 10_000]
/** Those of vLLM's `iteration_tokens_total`. */
const tokenBounds = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384]
const sequenceBounds = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256]

/** What steps were made of and how long they took. */
export class StepCounters {
  #prefillTokens = 0
  #decodeTokens = 0
  readonly #stepMs = new Tally(stepMsBounds)
  readonly #stepTokens = new Tally(tokenBounds)
  readonly #stepSequences = new Tally(sequenceBounds)

  count({ ms, decode, chunks }: StepRecord): void {
    let prefill = 0
    for (const [tokens] of chunks) prefill += tokens
    this.#prefillTokens += prefill
    this.#decodeTokens += decode
    this.#stepMs.add(ms)
    this.#stepTokens.add(prefill + decode)
    this.#stepSequences.add(chunks.length + decode)
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
