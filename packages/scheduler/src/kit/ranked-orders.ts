import TinyQueue from 'tinyqueue'
import type { SchedulerEvent, SequenceView, Order, SchedulerState, WaitingView } from '@cllm/core'
import { entryOf } from '@cllm/core'

/**
 * A clock that counts computed tokens: it runs as fast as the machine, stops while nothing is computed, and is the same
 * in every repetition.
 */
export class TokenClock {
  #now = 0
  readonly #cameAt = new WeakMap<SequenceView, number>()

  /** Tokens computed so far, of all requests. */
  get now(): number {
    return this.#now
  }

  /** The time at which a request arrived, or was first seen. */
  cameAt(request: SequenceView): number {
    return entryOf(this.#cameAt, request, () => this.#now)
  }

  /** Tokens computed since a request arrived. */
  age(request: SequenceView): number {
    return this.#now - this.cameAt(request)
  }

  /** Counts the tokens of a step. */
  observe(event: SchedulerEvent): void {
    if (event.type === 'step') for (const { tokens } of event.parts) this.#now += tokens
    else this.cameAt(event.request)
  }
}

interface Entry {
  readonly request: SequenceView
  readonly rank: number
  /** Breaks ties: the order of arrival. */
  readonly turn: number
  /** A request that was preempted since has another entry. */
  readonly preemptions: number
}

/** Entries of requests that have left are dropped when they are met, or all at once beyond this many. */
const spareEntries = 64

/**
 * An order by a rank that stays the same while a request waits: the lowest first, equals by arrival.
 * Events keep the heap current, so finding the first request takes O(log n).
 */
export class WaitingHeap implements Order {
  #heap = new TinyQueue<Entry>([], compare)
  /** Entries taken from the heap in this or the last plan; requests that still wait go back. */
  #taken: Entry[] = []
  #turns = 0

  /** @param rank - read once, when a request begins to wait */
  constructor(private readonly rank: (request: SequenceView) => number) {}

  /** The waiting requests in order, found one by one. */
  *next({ waiting }: Pick<SchedulerState, 'waiting'>): Iterable<SequenceView> {
    this.#tidy(waiting.size)
    for (let entry = this.#heap.pop(); entry !== undefined; entry = this.#heap.pop()) {
      if (!isCurrent(entry)) continue
      this.#taken.push(entry)
      if (waiting.has(entry.request.id)) yield entry.request
    }
  }

  /** Takes in a request that begins to wait. */
  observe(event: SchedulerEvent): void {
    if (event.type !== 'queued' && event.type !== 'preempted') return
    const { request } = event
    const { preemptions } = request
    this.#heap.push({ request, rank: this.rank(request), turn: this.#turns++, preemptions })
  }

  #tidy(waiting: number): void {
    for (const entry of this.#taken) this.#heap.push(entry)
    this.#taken = []
    if (this.#heap.length <= 2 * waiting + spareEntries) return
    this.#heap = new TinyQueue(this.#heap.data.filter(isCurrent), compare)
  }
}

const compare = (one: Entry, other: Entry): number => one.rank - other.rank || one.turn - other.turn

const isCurrent = ({ request, preemptions }: Entry): boolean =>
  isWaiting(request) && request.preemptions === preemptions

/** Whether a request has no slot. */
export function isWaiting({ state }: SequenceView): boolean {
  return state === 'queued' || state === 'preempted'
}

/** Whether a waiting request is among those in front of the queue, which are in no order. */
function hasBegun({ state, generatedTokens }: SequenceView): boolean {
  return state === 'preempted' || generatedTokens > 0
}

/** The request that arrived first. The queue has requests that have begun in front, in no order. */
export function longestWaiting(waiting: WaitingView): SequenceView | undefined {
  let first: SequenceView | undefined
  for (const request of waiting) {
    if (isWaiting(request) && request.arrival < (first?.arrival ?? Infinity)) first = request
    if (!hasBegun(request)) break
  }
  return first
}

/** The cached tokens of a waiting request. Looked up at each call. */
export function cachedTokens(request: SequenceView): number {
  return request.promptTokens + request.generatedTokens - request.remainingTokens
}

/** A waiting request and its work. */
export interface Work {
  readonly request: SequenceView
  /** Tokens that are not cached. */
  tokens: number
  /** When it arrived, on the token clock. */
  readonly cameAt: number
}

/** The number of waiting requests whose cached tokens each ranking looks up again, as slots change. */
const lookUps = 128
/** The first requests are found by searching for the lowest rank; beyond this number the rest is sorted. */
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

/** The indexes of the values, the lowest value first. Overwrites the values. */
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
