/** Options of {@link LinearFit}. */
export interface LinearFitOptions {
  /** The coefficients to start from. */
  readonly prior: readonly number[]
  /** How far they may be off, each above 0; default: as much as they are. */
  readonly spread?: readonly number[]
  /**
   * The kind of what each coefficient is the cost of; default: all the same. The first observation of a
   * kind shows its scale.
   */
  readonly kinds?: readonly string[]
  /** Share of the information along a direction that survives each new observation of it. */
  readonly memory: number
  /** A lone observation counts as at most this many times its prediction. */
  readonly outlier: number
}

/** When more than this share of recent observations is far above the prediction, they are believed. */
const surprisingShare = 0.2
/** The weight of the prior, in observations that a term alone explains. */
const priorWeight = 0.03
const sweeps = 30

/**
 * Learns the coefficients of y ≈ θ·x while running: recursive least squares on relative errors, no
 * coefficient below 0.
 *
 * Only the direction of a new observation is forgotten (directional forgetting: Cao and Schwartz,
 * "A directional forgetting algorithm based on the decomposition of the information matrix", 2000),
 * so a long run of similar observations does not erase the information about others. A lone value far
 * above its prediction (a busy machine) moves the estimate only a little.
 */
export class LinearFit {
  readonly #options: LinearFitOptions
  readonly #coefficients: number[]
  readonly #information: number[][]
  #surprises = 0
  #isFirst = true
  readonly #fresh: Set<string>
  /** Kept from call to call, as this is called at every step. */
  readonly #active: number[] = []

  constructor(options: LinearFitOptions) {
    this.#options = options
    this.#coefficients = [...options.prior]
    this.#fresh = new Set(options.prior.map((_, index) => this.#kindOf(index)))
    const { prior, spread = prior } = options
    this.#information = spread.map((value, row) =>
      prior.map((_, column) => (row === column ? priorWeight / value ** 2 : 0)),
    )
  }

  /** The coefficients, in the order of the prior. */
  get coefficients(): readonly number[] {
    return this.#coefficients
  }

  /** The predicted y of `x`. */
  predict(x: readonly number[]): number {
    return dot(this.#coefficients, x)
  }

  /** Learns that `x` gave `y`; a `y` that is not finite and above 0 is ignored. */
  observe(x: readonly number[], y: number): void {
    if (!(y > 0) || !Number.isFinite(y)) return
    if (this.#fresh.size > 0) this.#rescale(x, y)
    const value = this.#believable(y, this.predict(x))
    const scaled = x.map((entry) => entry / value)
    this.#forget(scaled)
    this.#fit(scaled)
    this.#add(scaled, scaled, 1)
  }

  #kindOf(index: number): string {
    return this.#options.kinds?.[index] ?? ''
  }

  /**
   * The first observation shows the speed of the machine, which scales every coefficient; the first
   * one of another kind alone, the scale of that kind. Beside kinds that are known, what is left for a
   * new one is too small a difference to tell its scale.
   */
  #rescale(x: readonly number[], y: number): void {
    const factor = y / this.predict(x)
    if (!Number.isFinite(factor)) return
    const isFirst = this.#isFirst
    const kinds = new Set(x.flatMap((entry, index) => (entry === 0 ? [] : [this.#kindOf(index)])))
    const isNew = [...kinds].every((kind) => this.#fresh.has(kind))
    for (const [row, entries] of this.#information.entries()) {
      if (!isNew || !(isFirst || kinds.has(this.#kindOf(row)))) continue
      this.#coefficients[row] = at(this.#coefficients, row) * factor
      entries[row] = at(entries, row) / factor ** 2
    }
    this.#isFirst = false
    for (const kind of kinds) this.#fresh.delete(kind)
  }

  #believable(y: number, predicted: number): number {
    const most = predicted * this.#options.outlier
    const isSurprise = y > most && most > 0
    this.#surprises += (Number(isSurprise) - this.#surprises) / 8
    return isSurprise && this.#surprises < surprisingShare ? most : y
  }

  #forget(x: readonly number[]): void {
    const known = this.#information.map((entries) => dot(entries, x))
    const total = dot(known, x)
    if (total > 0) this.#add(known, known, (this.#options.memory - 1) / total)
  }

  #add(left: readonly number[], right: readonly number[], factor: number): void {
    for (let row = 0; row < left.length; row++) {
      const scale = factor * left[row]!
      if (scale === 0) continue
      const entries = this.#information[row]!
      for (let column = 0; column < entries.length; column++) {
        entries[column]! += scale * right[column]!
      }
    }
  }

  /** Minimises the weighted distance from the old estimate plus the new relative error, one θ at a time. */
  #fit(x: readonly number[]): void {
    const coefficients = this.#coefficients
    const information = this.#information
    const active = this.#reachedFrom(x)
    const pull = x.map(() => 0)
    let error = 1 - this.predict(x)
    let isSettled = false
    for (let sweep = 0; sweep < sweeps && !isSettled; sweep++) {
      isSettled = true
      for (const index of active) {
        const row = information[index]!
        const entry = x[index]!
        const old = coefficients[index]!
        const slope = pull[index]! - entry * error
        const found = Math.max(0, old - slope / (row[index]! + entry ** 2))
        if (found === old) continue
        isSettled = false
        coefficients[index] = found
        error -= entry * (found - old)
        for (const other of active) pull[other]! += row[other]! * (found - old)
      }
    }
  }

  /** The coefficients that an observation of `x` can change: its own, and those known only together with them. */
  #reachedFrom(x: readonly number[]): number[] {
    const active = this.#active
    active.length = 0
    for (let index = 0; index < x.length; index++) if (x[index] !== 0) active.push(index)
    const own = active.length
    // grows while it is read
    for (const index of active) {
      const row = this.#information[index]!
      for (let other = 0; other < row.length; other++) {
        if (row[other] !== 0 && !active.includes(other)) active.push(other)
      }
    }
    return active.length === own ? active : active.sort((one, other) => one - other)
  }
}

function dot(left: readonly number[], right: readonly number[]): number {
  let sum = 0
  for (let index = 0; index < left.length; index++) sum += left[index]! * right[index]!
  return sum
}

function at(list: readonly number[], index: number): number {
  return list[index] ?? 0
}
