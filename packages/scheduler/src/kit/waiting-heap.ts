import TinyQueue from 'tinyqueue'
import type { Order, SchedulerEvent, SchedulerState, SequenceView } from '@cllm/core'

interface Entry {
  readonly request: SequenceView
  readonly rank: number
  /** Breaks ties: the order of arrival. */
  readonly turn: number
  /** A request that was preempted since has another entry. */
  readonly preemptions: number
}

/** Entries of requests that left are dropped when they are met, or when they are this many more. */
const spareEntries = 64

/**
 * An order by a rank that stays the same while a request waits: the lowest first, equals by arrival.
 * Events keep the heap current, so finding the first request takes O(log n).
 */
export class WaitingHeap implements Order {
  #heap = new TinyQueue<Entry>([], compare)
  /** Yielded in this or the last plan; requests that still wait go back to the heap. */
  #taken: Entry[] = []
  #turns = 0

  /** @param rank - read once, when a request begins to wait */
  constructor(private readonly rank: (request: SequenceView) => number) {}

  /** The waiting requests in their order, found one by one. */
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

/** Whether a waiting request may stand in front of those that are in order of arrival. */
export function hasBegun({ state, generatedTokens }: SequenceView): boolean {
  return state === 'preempted' || generatedTokens > 0
}

/** Tokens of a waiting request that a slot holds. Looked up at each call. */
export function cachedTokens(request: SequenceView): number {
  return request.promptTokens + request.generatedTokens - request.remainingTokens
}
