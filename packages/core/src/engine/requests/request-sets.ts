import TinyQueue from 'tinyqueue'
import { injectable } from 'tsyringe'
import { CllmError } from '../../errors/cllm-error.js'
import type { Sequence } from './sequence.js'
import { isOfBatch } from '../../contracts/engine/generate-request.js'
import type { WaitingView } from '../../contracts/scheduling/scheduler-policy.js'
import type { Backend } from '../../contracts/model/backend.js'

/** The requests with a slot, by id and in the order of admission. */
@injectable()
export class RunningSet extends Map<string, Sequence> {
  /** All of them now. */
  get list(): Sequence[] {
    return [...this.values()]
  }

  /** Whether some request decodes. */
  get isAnyDecoding(): boolean {
    for (const { state } of this.values()) if (state === 'decoding') return true
    return false
  }
}

/**
 * The requests without a slot: first those that have begun (preempted ones, and those taken over from another engine),
 * then the others by arrival. Policies do not see requests that are held back.
 */
@injectable()
export class WaitingQueue implements WaitingView {
  #begun: Part = new Map()
  #queued: Part = new Map()
  readonly #held: Part = new Map()
  /** Those held back until an image or sound is encoded: there is nothing else to compute of them. */
  readonly encoding = new Set<Sequence>()
  #nextTurn = 0
  /** The latest time so far by which a request is queued. */
  #latest = -Infinity
  #isSorted = true
  /** Number of requests, including those held back. */
  total = 0
  /** Prompt tokens of all these requests. */
  promptTokens = 0

  /** Number of requests, without those held back. */
  get size(): number {
    return this.#begun.size + this.#queued.size
  }

  add(sequence: Sequence): void {
    const { id, arrival } = sequence
    sequence.turn = ++this.#nextTurn
    this.total++
    this.promptTokens += sequence.promptTokens
    if (hasBegun(sequence)) {
      this.#begun.set(id, sequence)
      return
    }
    this.#queued.set(id, sequence)
    // Requests that took long to tokenize, or come from another engine, arrived before some that are here.
    if (arrival < this.#latest) this.#isSorted = false
    else this.#latest = arrival
  }

  /** Whether it waits and is not held back. */
  has(id: string): boolean {
    return this.#queued.has(id) || this.#begun.has(id)
  }

  get(id: string): Sequence | undefined {
    return this.#queued.get(id) ?? this.#begun.get(id) ?? this.#held.get(id)
  }

  /** The place of a request in the queue, from 1; undefined: it does not wait. */
  placeOf(id: string): number | undefined {
    const place = [...this.all()].findIndex((sequence) => sequence.id === id)
    return place === -1 ? undefined : place + 1
  }

  remove(sequence: Sequence): void {
    const { id, promptTokens } = sequence
    this.encoding.delete(sequence)
    if (!this.#queued.delete(id) && !this.#begun.delete(id) && !this.#held.delete(id)) return
    this.total--
    this.promptTokens -= promptTokens
  }

  /** Hides a request from the policy. */
  hold(sequence: Sequence): void {
    const { id } = sequence
    if (this.#queued.delete(id) || this.#begun.delete(id)) this.#held.set(id, sequence)
  }

  /**
   * Shows held requests to policies again.
   *
   * @param since - the time by which they are queued; default: their arrival
   */
  unhold(sequences: Iterable<Sequence>, since?: number): void {
    for (const sequence of sequences) {
      if (!this.#held.delete(sequence.id)) continue
      sequence.queuedAt = since ?? sequence.queuedAt
      this.#latest = Math.max(this.#latest, sequence.queuedAt)
      const part = hasBegun(sequence) ? this.#begun : this.#queued
      part.set(sequence.id, sequence)
      this.#isSorted = false
    }
  }

  /** All waiting requests, those held back last. */
  *all(): Iterable<Sequence> {
    yield* this
    yield* this.#held.values()
  }

  *[Symbol.iterator](): Iterator<Sequence> {
    // Sorted only when it is read, so that many changes cost no more than one.
    if (!this.#isSorted) {
      this.#begun = sorted(this.#begun, (a, b) => a.turn - b.turn)
      this.#queued = sorted(this.#queued, (a, b) => a.queuedAt - b.queuedAt || a.turn - b.turn)
      this.#isSorted = true
    }
    yield* this.#begun.values()
    yield* this.#queued.values()
  }
}

type Part = Map<string, Sequence>

function sorted(part: Part, compare: (a: Sequence, b: Sequence) => number): Part {
  const all = [...part.values()].toSorted(compare)
  return new Map(all.map((sequence) => [sequence.id, sequence]))
}

/** Whether a client has part of its answer and waits for the rest; no client waits for the batch lane. */
const hasBegun = (sequence: Sequence): boolean =>
  sequence.state === 'preempted' || (sequence.generatedTokens > 0 && !isOfBatch(sequence))

interface Entry {
  readonly at: number
  readonly sequence: Sequence
}

/** Entries of ended requests are only cleaned up beyond this number. */
const smallest = 64

/** The requests with a time limit; the next to expire comes first. */
export class Expiry {
  #queue = new TinyQueue<Entry>([], sooner)
  #cleanUpAt = smallest

  add(sequence: Sequence, at: number): void {
    this.#queue.push({ at, sequence })
    if (this.#queue.length > this.#cleanUpAt) this.#cleanUp()
  }

  /** When the next request expires, or Infinity. */
  next(): number {
    for (let entry = this.#queue.peek(); entry !== undefined; entry = this.#queue.peek()) {
      if (entry.sequence.isActive) return entry.at
      this.#queue.pop()
    }
    return Infinity
  }

  /** Removes and yields timed-out requests with their errors. */
  *due(now: number): Iterable<readonly [Sequence, CllmError]> {
    while (this.next() <= now) {
      const sequence = this.#queue.pop()?.sequence
      if (sequence !== undefined) yield [sequence, timedOut(sequence, now)]
    }
  }

  /** Drops requests that ended long before their limit; amortized O(1) for each. */
  #cleanUp(): void {
    const active = this.#queue.data.filter((entry) => entry.sequence.isActive)
    this.#queue = new TinyQueue(active, sooner)
    this.#cleanUpAt = Math.max(smallest, 2 * active.length)
  }
}

const sooner = (a: Entry, b: Entry): number => a.at - b.at

/** The error of a request that has exceeded its time limit. */
export function timedOut({ arrival }: Pick<Sequence, 'arrival'>, now: number): CllmError {
  const seconds = ((now - arrival) / 1000).toFixed(1)
  const message = `The request exceeded its time limit after ${seconds} s`
  return new CllmError('timeout', message)
}

/**
 * Holds back the further samples of calls that ask for several (`n`). Samples may take all slots while no other request
 * wants one, and all but one otherwise. Each joins the end of the queue when another sample has ended.
 */
export class SampleLane {
  /** All samples that wait or run, including the first of each call. */
  readonly all = new Set<Sequence>()
  /** Further samples that are held back from policies. */
  readonly #held = new Set<Sequence>()

  constructor(
    private readonly backend: Backend,
    private readonly waiting: WaitingQueue,
    private readonly running: RunningSet,
  ) {}

  /** A sample has joined the queue; returns whether it is held back. */
  add(sequence: Sequence): boolean {
    this.all.add(sequence)
    if (!isFurther(sequence)) return false
    this.hold(sequence)
    return true
  }

  /** Holds a waiting sample back. */
  hold(sequence: Sequence): void {
    this.#held.add(sequence)
    this.waiting.hold(sequence)
  }

  /** A sample has ended. */
  remove(sequence: Sequence): void {
    this.all.delete(sequence)
    this.#held.delete(sequence)
  }

  /** The sample to preempt for a waiting request, if samples have all slots. */
  victim(freeSlots: number): Sequence | undefined {
    if (freeSlots > 0 || !this.#doOthersWait) return undefined
    const { list } = this.running
    return list.length > 1 && list.every(isSample) ? list.findLast(isFurther) : undefined
  }

  /** Shows the samples whose turn has come to policies; returns them. */
  release(now: number): readonly Sequence[] {
    if (this.#held.size === 0) return []
    const { slots } = this.backend.limits
    const running = this.running.list.filter(isSample).length
    const isAlone = running === this.running.size && !this.#doOthersWait
    const limit = isAlone ? slots : Math.max(1, slots - 1)
    const room = limit - running - this.#shown.length
    const released = [...this.#held].slice(0, Math.max(0, room))
    for (const sequence of released) this.#held.delete(sequence)
    this.waiting.unhold(released, now)
    return released
  }

  /** Waiting samples that are not held back. */
  get #shown(): Sequence[] {
    return [...this.all].filter((one) => one.isWaiting && !this.#held.has(one))
  }

  get #doOthersWait(): boolean {
    const own = this.#shown.filter((one) => isFurther(one) && this.waiting.has(one.id)).length
    return this.waiting.size > own
  }
}

const isSample = ({ request }: Sequence): boolean => request.sample !== undefined

const isFurther = ({ request }: Sequence): boolean => (request.sample ?? 0) > 0
