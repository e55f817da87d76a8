import { z } from 'zod'

/** Options of {@link LinearFit}. */
export interface LinearFitOptions {
  /** The coefficients to start from. */
  readonly prior: readonly number[]
  /** How far each coefficient may be off, above 0; default: by its own size. */
  readonly spread?: readonly number[]
  /**
   * A name for each coefficient that groups them by the kind of work; default: one group. The first observation of a
   * kind sets the scale of its coefficients.
   */
  readonly kinds?: readonly string[]
  /** The share of the information along a direction that is kept at each new observation of it; 1: all. */
  readonly memory: number
  /** A lone observation counts as at most this many times its prediction. */
  readonly outlier: number
}

/** Outliers are believed when they are more than this share of recent observations. */
const surprisingShare = 0.2
/** The weight of the prior, as a number of observations of a single term. */
const priorWeight = 0.03
/** The weight of recalled coefficients, in the same unit: the machine may have become faster since. */
const recalledWeight = 0.3
/** The least spread of a recalled coefficient, as a share of the prior. */
const leastSpread = 0.1
const sweeps = 30
const mostRecalled = 1e9

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
  /** The coefficients, in the order of the prior. */
  readonly coefficients: readonly number[]
  readonly #own: number[]
  /** The information matrix, symmetric, row by row. */
  readonly #information: Float64Array
  readonly #kinds: readonly string[]
  /** Kinds without an observation so far. */
  readonly #fresh: Set<string>
  #surprises = 0
  #isFirst = true
  // Buffers that are reused, as `observe` is called at every step.
  readonly #active: number[] = []
  readonly #scaled: Float64Array
  readonly #known: Float64Array
  readonly #pull: Float64Array

  constructor(private readonly options: LinearFitOptions) {
    const { prior, spread = prior, kinds = prior.map(() => '') } = options
    const size = prior.length
    this.coefficients = this.#own = [...prior]
    this.#kinds = kinds
    this.#fresh = new Set(kinds)
    this.#information = new Float64Array(size ** 2)
    for (const [index, value] of spread.entries()) {
      this.#information[index * (size + 1)] = priorWeight / value ** 2
    }
    this.#scaled = new Float64Array(size)
    this.#known = new Float64Array(size)
    this.#pull = new Float64Array(size)
  }

  /** Whether there were observations of every kind. */
  get hasLearned(): boolean {
    return this.#fresh.size === 0
  }

  /** The coefficients as JSON; undefined until there were observations of every kind. */
  learned(): readonly number[] | undefined {
    return this.hasLearned ? [...this.#own] : undefined
  }

  /**
   * Starts from the coefficients that another fit of the same terms has learned.
   * @throws for values that are no such coefficients
   */
  recall(learned: unknown): void {
    if (learned === undefined) return
    const { prior } = this.options
    const given = z.array(z.number().min(0).max(mostRecalled)).length(prior.length).parse(learned)
    const scale = sumOf(given) / sumOf(prior)
    if (scale < 1 / mostRecalled) throw new RangeError('expected coefficients above 0')
    for (const [index, value] of given.entries()) {
      const spread = Math.max(value, leastSpread * scale * prior[index]!)
      this.#own[index] = value
      this.#information[index * (prior.length + 1)] = recalledWeight / spread ** 2
    }
    this.#fresh.clear()
  }

  /** The predicted y of `x`. */
  predict(x: readonly number[]): number {
    let sum = 0
    for (let index = 0; index < x.length; index++) sum += this.#own[index]! * x[index]!
    return sum
  }

  /** Learns that `x` gave `y`; a `y` that is not finite and above 0 is ignored. */
  observe(x: readonly number[], y: number): void {
    if (!(y > 0) || !Number.isFinite(y)) return
    if (this.#fresh.size > 0) this.#rescale(x, y)
    const most = this.predict(x) * this.options.outlier
    const isSurprise = y > most && most > 0
    this.#surprises += (Number(isSurprise) - this.#surprises) / 8
    const believed = isSurprise && this.#surprises < surprisingShare ? most : y
    // The coefficients that this observation can change: its own terms, and those coupled with them in the matrix.
    const active = this.#active
    active.length = 0
    for (let index = 0; index < x.length; index++) {
      this.#scaled[index] = x[index]! / believed
      if (this.#scaled[index] !== 0) active.push(index)
    }
    const own = active.length
    // grows while it is read
    for (const index of active) {
      for (let other = 0; other < x.length; other++) {
        const isKnown = this.#information[index * x.length + other] !== 0
        if (isKnown && !active.includes(other)) active.push(other)
      }
    }
    if (active.length > own) active.sort((one, other) => one - other)
    // Of what is known along the direction of the observation a share is lost.
    let total = 0
    for (const row of active) {
      let sum = 0
      for (const column of active) {
        sum += this.#information[row * x.length + column]! * this.#scaled[column]!
      }
      this.#known[row] = sum
      total += sum * this.#scaled[row]!
    }
    if (total > 0) this.#add(this.#known, (this.options.memory - 1) / total)
    this.#fit()
    this.#add(this.#scaled, 1)
  }

  /**
   * The first observation shows the speed of the machine, which scales every coefficient; the first
   * one of another kind alone, the scale of that kind. Beside kinds that are known, what is left for a
   * new one is too small a difference to tell its scale.
   */
  #rescale(x: readonly number[], y: number): void {
    const factor = y / this.predict(x)
    if (!Number.isFinite(factor)) return
    const kinds = new Set<string>()
    let isNew = true
    for (const [index, kind] of this.#kinds.entries()) {
      if (x[index] === 0) continue
      kinds.add(kind)
      isNew &&= this.#fresh.has(kind)
    }
    for (const [index, kind] of this.#kinds.entries()) {
      if (!isNew || !(this.#isFirst || kinds.has(kind))) continue
      this.#own[index]! *= factor
      this.#information[index * (x.length + 1)]! /= factor ** 2
    }
    this.#isFirst = false
    for (const kind of kinds) this.#fresh.delete(kind)
  }

  /** Adds the product of a vector with itself to what is known. */
  #add(vector: Float64Array, factor: number): void {
    for (const row of this.#active) {
      const scale = factor * vector[row]!
      if (scale === 0) continue
      for (const column of this.#active) {
        this.#information[row * vector.length + column]! += scale * vector[column]!
      }
    }
  }

  /** Minimises the weighted distance from the old estimate plus the new relative error, one θ at a time. */
  #fit(): void {
    const coefficients = this.#own
    const information = this.#information
    const active = this.#active
    const x = this.#scaled
    const pull = this.#pull.fill(0)
    let predicted = 0
    for (const index of active) predicted += coefficients[index]! * x[index]!
    let error = 1 - predicted
    let isSettled = false
    for (let sweep = 0; sweep < sweeps && !isSettled; sweep++) {
      isSettled = true
      for (const index of active) {
        const row = index * x.length
        const entry = x[index]!
        const old = coefficients[index]!
        const slope = pull[index]! - entry * error
        const found = Math.max(0, old - slope / (information[row + index]! + entry ** 2))
        if (found === old) continue
        isSettled = false
        coefficients[index] = found
        error -= entry * (found - old)
        for (const other of active) pull[other]! += information[row + other]! * (found - old)
      }
    }
  }
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0)

/** Decisions in a row for which it seemed to pay, until it is believed to. */
const believed = 4

/** How many decisions {@link TrialPace} lets pass between trials. */
export interface TrialIntervals {
  /** Decisions until the first trial. */
  readonly first: number
  /** Each interval is so many times the one before … */
  readonly factor: number
  /** … and at most so long. */
  readonly longest: number
}

/**
 * Says when to try what seems not to pay: what it costs shows only where it is done, and an estimate that is
 * never tried again never changes. Ever more rarely, while nothing comes of it.
 */
export class TrialPace {
  #between: number
  #left: number
  #paying = 0

  constructor(private readonly intervals: TrialIntervals) {
    this.#between = this.#left = intervals.first
  }

  /** A decision against it; returns whether it is to be tried all the same. */
  isDue(): boolean {
    this.#paying = 0
    if (--this.#left > 0) return false
    const { factor, longest } = this.intervals
    this.#left = this.#between = Math.min(longest, factor * this.#between)
    return true
  }

  /** The trial could not be made yet: the next decision is to try it again. */
  retry(): void {
    this.#left = 1
  }

  /** A decision for it, as it seems to pay. */
  onPaying(): void {
    if (++this.#paying >= believed) this.#between = this.#left = this.intervals.first
  }
}
