import type * as FastCheck from 'fast-check'
import type {
  ArrivalView,
  BackendLimits,
  DraftView,
  Program,
  RequestState,
  SequenceView,
} from '@cllm/core'

/** A request of a simulated load. */
export interface WorkloadRequest
  extends ArrivalView, Pick<SequenceView, 'id' | 'promptTokens' | 'maxTokens' | 'stepGroup'> {
  /** Of the prompt, found in a slot; less than `promptTokens`. */
  readonly cachedTokens: number
  /** Tokens drawn until it ends by itself, at most `maxTokens`. */
  readonly outputTokens: number
  /** When its client leaves, if it has not ended by then. */
  readonly cancelAt: number | undefined
}

/** A load and the machine that serves it. */
export interface Workload {
  readonly limits: BackendLimits
  /** By arrival. */
  readonly requests: readonly WorkloadRequest[]
  readonly msPerStep: number
  readonly msPerToken: number
  /** The tested policy takes over from a plain one after this many plans. */
  readonly takesOverAfter: number
}

/** Random loads, from a single request to bursts over one slot. */
export function workloadArbitrary(fc: typeof FastCheck): FastCheck.Arbitrary<Workload> {
  const request = fc.record({
    gapMs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 1, max: 300 })),
    promptTokens: fc.integer({ min: 1, max: 60 }),
    cachedShare: fc.constantFrom(0, 0, 0.5, 0.99),
    outputTokens: fc.integer({ min: 1, max: 10 }),
    unusedTokens: fc.nat({ max: 20 }),
    priority: fc.oneof({ weight: 4, arbitrary: fc.integer({ min: -2, max: 2 }) }, fc.constant(20)),
    deadlineMs: fc.option(fc.nat({ max: 1000 }), { nil: undefined }),
    tenant: fc.constantFrom('a', 'b', 'c'),
    session: fc.constantFrom(undefined, undefined, 's', 't'),
    stepGroup: fc.constantFrom(undefined, undefined, undefined, 'adapter'),
    cancelMs: fc.option(fc.nat({ max: 500 }), { nil: undefined, freq: 5 }),
  })
  // Many requests at once, none of which gives up: enough to overtake one by more than any bound.
  const patient = request.map((one): typeof one => ({
    ...one,
    gapMs: 0,
    cancelMs: undefined,
    unusedTokens: 0,
  }))
  const crowd = fc.noShrink(fc.array(patient, { minLength: 40, maxLength: 60 }))
  const workload = fc.record({
    slots: fc.integer({ min: 1, max: 6 }),
    batchSize: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 9, max: 128 })),
    msPerStep: fc.integer({ min: 1, max: 50 }),
    msPerToken: fc.nat({ max: 5 }),
    takesOverAfter: fc.constantFrom(0, 0, 3),
    requests: fc.oneof(
      { weight: 7, arbitrary: fc.array(request, { minLength: 1, maxLength: 16 }) },
      { weight: 1, arbitrary: crowd },
    ),
  })
  return workload.map(({ slots, batchSize, requests, ...rest }) => {
    let arrival = 0
    // As small as can be: bounds of overtaking grow with it, and must be within reach of the load.
    const contextSize = Math.max(
      ...requests.map((one) => one.promptTokens + one.outputTokens + one.unusedTokens),
    )
    return {
      ...rest,
      limits: { slots, batchSize, contextSize },
      requests: requests.map(({ gapMs, cachedShare, unusedTokens, ...request }, index) => {
        arrival += gapMs
        const { promptTokens, outputTokens, deadlineMs, cancelMs } = request
        return {
          ...request,
          id: `request-${index}`,
          arrival,
          cachedTokens: Math.floor(cachedShare * promptTokens),
          maxTokens: outputTokens + unusedTokens,
          deadline: deadlineMs === undefined ? undefined : arrival + deadlineMs,
          cancelAt: cancelMs === undefined ? undefined : arrival + cancelMs,
        }
      }),
    }
  })
}

const guess: DraftView = Object.freeze({ tokens: 2, acceptance: 0.5 })

/**
 * A request in a simulation. It is frozen: a policy that writes to it gets a TypeError. Its fields
 * are its own, as fast to read as in the engine's requests.
 */
export class SimulatedRequest implements SequenceView {
  readonly id!: string
  readonly arrival!: number
  readonly priority!: number
  readonly deadline!: number | undefined
  readonly tenant!: string
  readonly session!: string | undefined
  readonly stepGroup!: string | undefined
  readonly promptTokens!: number
  readonly maxTokens!: number
  #state: RequestState = 'queued'
  #generated = 0
  #computed = 0
  #preemptions = 0

  readonly #cached: number
  readonly #output: number

  constructor(
    { cachedTokens, outputTokens, ...shown }: WorkloadRequest,
    readonly program?: Program | undefined,
  ) {
    Object.assign(this, shown)
    this.#cached = cachedTokens
    this.#output = outputTokens
    Object.freeze(this)
  }

  get state(): RequestState {
    return this.#state
  }
  get generatedTokens(): number {
    return this.#generated
  }
  get computedTokens(): number {
    return this.#computed
  }
  get preemptions(): number {
    return this.#preemptions
  }
  get isWaiting(): boolean {
    return this.#state === 'queued' || this.#state === 'preempted'
  }
  get draft(): DraftView | undefined {
    // Now and then, as where the engine guesses.
    return this.#state === 'decoding' && this.#generated % 3 === 1 ? guess : undefined
  }
  get remainingTokens(): number {
    const done = this.isWaiting ? this.#cached : this.#computed
    return this.promptTokens + this.#generated - done
  }

  admit(): void {
    this.#state = 'prefilling'
    this.#computed = this.#cached
  }

  preempt(): void {
    this.#state = 'preempted'
    this.#computed = 0
    this.#preemptions++
  }

  /** Computes tokens and, with the last of them, draws the next one. Returns whether that ends it. */
  compute(tokens: number): boolean {
    this.#computed += tokens
    if (this.remainingTokens > 0) return false
    this.#state = 'decoding'
    this.#generated++
    return this.#generated === this.#output
  }

  end(state: 'done' | 'cancelled' | 'failed'): void {
    this.#state = state
    this.#computed = 0
  }
}
