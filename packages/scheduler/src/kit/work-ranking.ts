import type { Order, SchedulerEvent, SchedulerState, SequenceView } from '@cllm/core'
import { TokenClock } from './token-clock.js'

/** A waiting request and the work that it needs. */
export interface Work {
  readonly request: SequenceView
  /** Tokens that no slot holds. */
  tokens: number
  /** When it arrived, on the token clock. */
  readonly cameAt: number
}

/** Slots change, so each ranking looks up this many waiting requests again. */
const lookUps = 128
/** The first ones are searched one by one, more of them are sorted. */
const searches = 32

/**
 * An order by a rank that changes while a request waits, computed from its uncached tokens and its
 * waiting time: the lowest first, equals by arrival. All requests are ranked when the first one is
 * read. Cached tokens are looked up again for 128 requests per ranking, in turn.
 */
export class WorkRanking implements Order {
  readonly #work = new Map<SequenceView, Work>()
  readonly #clock = new TokenClock()
  #rankings = 0

  /** @param rank - of a request, given the time on the token clock */
  constructor(private readonly rank: (work: Work, now: number) => number) {}

  /** The waiting requests in their order. */
  *next({ waiting }: Pick<SchedulerState, 'waiting'>): Iterable<SequenceView> {
    const all = [...this.#work.values()]
    this.#lookUp(all)
    const ranks = Float64Array.from(all, (work) => this.rank(work, this.#clock.now))
    for (const index of lowestFirst(ranks)) {
      const request = all[index]?.request
      if (request !== undefined && waiting.has(request.id)) yield request
    }
  }

  /** Adds a request that begins to wait and removes one that no longer waits. */
  observe(event: SchedulerEvent): void {
    this.#clock.observe(event)
    if (event.type === 'step') return
    const { request, type } = event
    if (type === 'queued' || type === 'preempted') {
      const cameAt = this.#clock.cameAt(request)
      this.#work.set(request, { request, tokens: request.remainingTokens, cameAt })
    } else {
      this.#work.delete(request)
    }
  }

  #lookUp(all: readonly Work[]): void {
    const parts = Math.max(1, Math.ceil(all.length / lookUps))
    for (let index = this.#rankings++ % parts; index < all.length; index += parts) {
      const work = all[index]
      if (work !== undefined) work.tokens = work.request.remainingTokens
    }
  }
}

/** The places of the values, the lowest first. Overwrites the values. */
function* lowestFirst(values: Float64Array): Iterable<number> {
  for (let search = 0; search < searches; search++) {
    let lowest = -1
    let value = Infinity
    for (let index = 0; index < values.length; index++) {
      const other = values[index] ?? Infinity
      if (other >= value) continue
      lowest = index
      value = other
    }
    if (lowest < 0) return
    values[lowest] = Infinity
    yield lowest
  }
  const rest = Array.from(values.keys()).filter((index) => values[index] !== Infinity)
  yield* rest.sort((one, other) => (values[one] ?? 0) - (values[other] ?? 0))
}
