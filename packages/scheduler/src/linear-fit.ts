/** Options of {@link LinearFit}. */
export interface LinearFitOptions {
  /** The coefficients to start from, each above 0. */
  readonly prior: readonly number[]
  /** Share of what is known along a direction that survives each new observation of it. */
  readonly memory: number
  /** An observation counts as at most this many times its prediction. */
  readonly outlier: number
}

/**
 * Learns the coefficients of y ≈ θ·x while running: recursive least squares on relative errors, no
 * coefficient below 0.
 *
 * Only what a new observation speaks about is forgotten (directional forgetting: Cao and Schwartz,
 * "A directional forgetting algorithm based on the decomposition of the information matrix", 2000),
 * so a long run of like observations does not wash out what is known of others. A value far above
 * its prediction (a busy machine) moves the estimate a little at a time; one below it is believed.
 */
export class LinearFit {
  readonly #coefficients: number[]
  readonly #information: number[][]
  readonly #options: LinearFitOptions

  constructor(options: LinearFitOptions) {
    this.#options = options
    this.#coefficients = [...options.prior]
    // The prior weighs a tenth of an observation that each term alone explains.
    this.#information = options.prior.map((value, row) =>
      options.prior.map((_, column) => (row === column ? 0.1 / value ** 2 : 0)),
    )
  }

  /** The coefficients, in the order of the prior. */
  get coefficients(): readonly number[] {
    return this.#coefficients
  }

  predict(x: readonly number[]): number {
    return dot(this.#coefficients, x)
  }

  /** Takes in that `x` gave `y`. A `y` that is not above 0 teaches nothing. */
  observe(x: readonly number[], y: number): void {
    const predicted = this.predict(x)
    const value = predicted > 0 ? Math.min(y, predicted * this.#options.outlier) : y
    if (!(value > 0) || !Number.isFinite(value)) return
    const scaled = x.map((entry) => entry / value)
    this.#forget(scaled)
    this.#fit(scaled)
    for (const [row, entries] of this.#information.entries()) {
      for (const column of entries.keys()) {
        entries[column] = at(entries, column) + at(scaled, row) * at(scaled, column)
      }
    }
  }

  #forget(x: readonly number[]): void {
    const known = this.#information.map((entries) => dot(entries, x))
    const total = dot(known, x)
    if (total <= 0) return
    const share = (1 - this.#options.memory) / total
    for (const [row, entries] of this.#information.entries()) {
      for (const column of entries.keys()) {
        entries[column] = at(entries, column) - share * at(known, row) * at(known, column)
      }
    }
  }

  /** Minimises the distance to what is known plus the new relative error, one θ after the other. */
  #fit(x: readonly number[]): void {
    const before = [...this.#coefficients]
    const coefficients = this.#coefficients
    for (let sweep = 0; sweep < 30; sweep++) {
      for (const [index, entries] of this.#information.entries()) {
        const moved = coefficients.map((value, other) => value - at(before, other))
        const slope = dot(entries, moved) - at(x, index) * (1 - dot(coefficients, x))
        const curvature = at(entries, index) + at(x, index) ** 2
        coefficients[index] = Math.max(0, at(coefficients, index) - slope / curvature)
      }
    }
  }
}

function dot(left: readonly number[], right: readonly number[]): number {
  let sum = 0
  for (const [index, value] of left.entries()) sum += value * at(right, index)
  return sum
}

function at(list: readonly number[], index: number): number {
  return list[index] ?? 0
}
