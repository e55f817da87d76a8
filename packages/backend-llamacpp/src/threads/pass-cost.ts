/** Weight of a pass in the moving average, when it is as expected and when it is not. */
const usual = 1 / 8
const sudden = 1 / 2
/** Passes that differ by more than this from the average show that something has changed. */
const change = 0.3

/** What passes of each size cost on a number of threads: moving averages in milliseconds. */
export class PassCost {
  /** Milliseconds a token. */
  readonly #costs = new Map<number, number>()

  /** Undefined for a size that nothing like was seen on this many threads. */
  of(threads: number, size: number): number | undefined {
    const known = this.#costs.get(key(threads, size))
    return known === undefined ? undefined : known * size
  }

  learn(threads: number, size: number, ms: number): void {
    const place = key(threads, size)
    const known = this.#costs.get(place)
    const measured = ms / size
    if (known === undefined) {
      this.#costs.set(place, measured)
      return
    }
    const weight = Math.abs(measured / known - 1) > change ? sudden : usual
    this.#costs.set(place, known + weight * (measured - known))
  }
}

/** Prompts hardly ever have the same length: sizes above 16 are taken together by half powers of two. */
function key(threads: number, size: number): number {
  const bucket = size <= 16 ? size : 16 + Math.round(2 * Math.log2(size / 16))
  return 128 * threads + bucket
}
