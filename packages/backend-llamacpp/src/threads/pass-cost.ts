/** Weight of a pass in the moving average, when it is as expected and when it is not. */
const usual = 1 / 8
const sudden = 1 / 2
/** Passes that differ by more than this from the average show that something has changed. */
const change = 0.3

/** What passes of each size cost on a number of threads: moving averages in milliseconds. */
export class PassCost {
  readonly #costs = new Map<number, number>()

  /** Undefined for a size that was not seen on so many threads. */
  of(threads: number, size: number): number | undefined {
    return this.#costs.get(key(threads, size))
  }

  learn(threads: number, size: number, ms: number): void {
    const known = this.of(threads, size)
    if (known === undefined) {
      this.#costs.set(key(threads, size), ms)
      return
    }
    const weight = Math.abs(ms / known - 1) > change ? sudden : usual
    this.#costs.set(key(threads, size), known + weight * (ms - known))
  }
}

/** Sizes above 64 tokens are taken together by half powers of two. */
function key(threads: number, size: number): number {
  const bucket = size <= 64 ? size : 64 + Math.ceil(2 * Math.log2(size / 64))
  return 128 * threads + bucket
}
