import TinyQueue from 'tinyqueue'
import { injectable } from 'tsyringe'
import { CllmError } from '../../errors/cllm-error.js'
import type { Sequence } from './sequence.js'
import { isOfBatch } from '../../contracts/engine/generate-request.js'
import type { WaitingView } from '../../contracts/scheduling/scheduler-policy.js'
import type { Backend } from '../../contracts/model/backend.js'

/** The requests with a slot by id, in the order of their admission. */
@injectable()
export class RunningSet extends Map<string, Sequence> {
  /** All of them now. */
  get list(): Sequence[] {
    return [...this.values()]
  }

  /** Whether one of them waits for its next token. */
  get isAnyDecoding(): boolean {
    for (const { state } of this.values()) if (state === 'decoding') return true
    return false
  }
}

/**
 * The requests without a slot: first those that have begun, as they were preempted or another engine lost
 * them, then by arrival. A policy does not see requests that are held back.
 */
@injectable()
export class WaitingQueue implements WaitingView {
  #begun: Part = new Map()
  #queued: Part = new Map()
  readonly #held: Part = new Map()
  #nextTurn = 0
  /** When the last of those that have not begun arrived, of all so far. */
  #latest = -Infinity
  #isSorted = true
  /** Number of requests, with held ones, and the tokens of their prompts. */
  total = 0
  promptTokens = 0

  /** Number of requests, without held ones. */
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
    // One that was tokenized for long, or that another engine lost, came before some that are here.
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

  /** Its place from 1, or undefined where it does not wait. */
  placeOf(id: string): number | undefined {
    const place = [...this.all()].findIndex((sequence) => sequence.id === id)
    return place === -1 ? undefined : place + 1
  }

  remove({ id, promptTokens }: Sequence): void {
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
   * Shows held requests again.
   *
   * @param since - the time by which they have their places; default: when each arrived
   */
  unhold(sequences: Iterable<Sequence>, since?: number): void {
    for (const sequence of sequences) {
      if (!this.#held.delete(sequence.id)) continue
      sequence.queuedAt = since ?? sequence.queuedAt
      const part = hasBegun(sequence) ? this.#begun : this.#queued
      part.set(sequence.id, sequence)
      this.#isSorted = false
    }
  }

  /** All that wait, held ones last. */
  *all(): Iterable<Sequence> {
    yield* this
    yield* this.#held.values()
  }

  *[Symbol.iterator](): Iterator<Sequence> {
    // Sorted when it is read, so that many that join or come back cost no more than one.
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

/** Whether its client waits for the rest of its answer; nobody waits for a line of a batch. */
const hasBegun = (sequence: Sequence): boolean =>
  sequence.state === 'preempted' || (sequence.generatedTokens > 0 && !isOfBatch(sequence))

interface Entry {
  readonly at: number
  readonly sequence: Sequence
}

/** Up to this many entries, ended requests are not cleaned up. */
const smallest = 64

/** The requests with a time limit, the next to expire first. */
export class Expiry {
  #queue = new TinyQueue<Entry>([], sooner)
  #cleanUpAt = smallest

  add(sequence: Sequence, at: number): void {
    this.#queue.push({ at, sequence })
    if (this.#queue.length > this.#cleanUpAt) this.#cleanUp()
  }

  /** When the next one expires, or Infinity. */
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

/** Why a request ends that has taken too long. */
export function timedOut({ arrival }: Pick<Sequence, 'arrival'>, now: number): CllmError {
  const seconds = ((now - arrival) / 1000).toFixed(1)
  const message = `The request exceeded its time limit after ${seconds} s`
  return new CllmError('timeout', message)
}

/**
 * The further samples of requests that ask for several. They have all slots while nobody else wants any, and
 * all but one otherwise; each takes its place at the end of the queue when another sample has ended.
 */
export class SampleLane {
  /** The samples that wait or run, the first of each request, too. */
  readonly all = new Set<Sequence>()
  /** Further samples that policies do not see yet. */
  readonly #held = new Set<Sequence>()

  constructor(
    private readonly backend: Backend,
    private readonly waiting: WaitingQueue,
    private readonly running: RunningSet,
  ) {}

  /** A sample is in the queue; returns whether it is held back. */
  add(sequence: Sequence): boolean {
    this.all.add(sequence)
    if (!isFurther(sequence)) return false
    this.hold(sequence)
    return true
  }

  /** Holds a sample back that waits. */
  hold(sequence: Sequence): void {
    this.#held.add(sequence)
    this.waiting.hold(sequence)
  }

  /** A sample has ended. */
  remove(sequence: Sequence): void {
    this.all.delete(sequence)
    this.#held.delete(sequence)
  }

  /** The sample that gives its slot to a request that waits, as samples have all of them. */
  victim(freeSlots: number): Sequence | undefined {
    if (freeSlots > 0 || !this.#doOthersWait) return undefined
    const { list } = this.running
    return list.length > 1 && list.every(isSample) ? list.findLast(isFurther) : undefined
  }

  /** Ends the wait of the samples whose turn has come; returns them. */
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

  /** Samples that wait like any other request. */
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
