import TinyQueue from 'tinyqueue'
import { injectable } from 'tsyringe'
import { CllmError } from '../../errors/cllm-error.js'
import type { Sequence } from './sequence.js'
import { isOfBatch } from '../../contracts/engine/generate-request.js'
import type { WaitingView } from '../../contracts/scheduling/scheduler-policy.js'

/** The requests with a slot, by admission and by id. */
@injectable()
export class RunningSet {
  /** By admission. The same array for good, so that views of it stay true. */
  readonly list: Sequence[] = []
  readonly #byId = new Map<string, Sequence>()

  get size(): number {
    return this.list.length
  }

  /** Whether one of them waits for its next token. */
  get isAnyDecoding(): boolean {
    return this.list.some(({ state }) => state === 'decoding')
  }

  get(id: string): Sequence | undefined {
    return this.#byId.get(id)
  }

  has(id: string): boolean {
    return this.#byId.has(id)
  }

  add(sequence: Sequence): void {
    this.list.push(sequence)
    this.#byId.set(sequence.id, sequence)
  }

  remove(sequence: Sequence): void {
    if (!this.#byId.delete(sequence.id)) return
    const index = this.list.indexOf(sequence)
    // -1 would take out the last one.
    if (index !== -1) this.list.splice(index, 1)
  }
}

/**
 * The requests without a slot: first those that have begun, as they were preempted or another engine lost
 * them, then by arrival. A policy does not see requests that are held back.
 */
@injectable()
export class WaitingQueue implements WaitingView {
  #begun = new Map<string, Sequence>()
  #queued = new Map<string, Sequence>()
  readonly #held = new Map<string, Sequence>()
  /** The order in which requests joined, so that held ones get their places back. */
  readonly #turns = new WeakMap<Sequence, number>()
  #nextTurn = 0
  /** When those that did not join the queue at their arrival did so. */
  readonly #since = new WeakMap<Sequence, number>()
  /** When the last of those that have not begun arrived, of all so far. */
  #latest = -Infinity
  #isSorted = true
  /** Prompt tokens of all waiting requests. */
  promptTokens = 0

  /** Number of requests, without held ones. */
  get size(): number {
    return this.#begun.size + this.#queued.size
  }

  /** Number of requests, with held ones. */
  get total(): number {
    return this.size + this.#held.size
  }

  add(sequence: Sequence): void {
    const part = hasBegun(sequence) ? this.#begun : this.#queued
    this.#turns.set(sequence, ++this.#nextTurn)
    this.promptTokens += sequence.promptTokens
    part.set(sequence.id, sequence)
    // One that was tokenized for long, or that another engine lost, came before some that are here.
    if (part === this.#begun) return
    if (sequence.arrival < this.#latest) this.#isSorted = false
    else this.#latest = sequence.arrival
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
    let place = 0
    for (const sequence of this.all()) {
      place++
      if (sequence.id === id) return place
    }
    return undefined
  }

  remove(sequence: Sequence): void {
    const { id } = sequence
    if (!this.#queued.delete(id) && !this.#begun.delete(id) && !this.#held.delete(id)) return
    this.promptTokens -= sequence.promptTokens
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
    const back = [...sequences].filter(({ id }) => this.#held.delete(id))
    for (const sequence of back) {
      if (since !== undefined) this.#since.set(sequence, since)
      const part = hasBegun(sequence) ? this.#begun : this.#queued
      part.set(sequence.id, sequence)
      this.#isSorted = false
    }
  }

  /** Done when it is read, so that many that join or come back cost no more than one. */
  #sort(): void {
    if (this.#isSorted) return
    this.#isSorted = true
    const byTurn = (a: Sequence, b: Sequence): number => this.#turnOf(a) - this.#turnOf(b)
    this.#begun = sorted(this.#begun, byTurn)
    const sinceOf = (one: Sequence): number => this.#since.get(one) ?? one.arrival
    this.#queued = sorted(this.#queued, (a, b) => sinceOf(a) - sinceOf(b) || byTurn(a, b))
  }

  #turnOf(sequence: Sequence): number {
    return this.#turns.get(sequence) ?? 0
  }

  /** All that wait, held ones last. */
  *all(): Iterable<Sequence> {
    yield* this
    yield* this.#held.values()
  }

  *[Symbol.iterator](): Iterator<Sequence> {
    this.#sort()
    yield* this.#begun.values()
    yield* this.#queued.values()
  }
}

function sorted(
  part: ReadonlyMap<string, Sequence>,
  compare: (a: Sequence, b: Sequence) => number,
): Map<string, Sequence> {
  const all = [...part.values()].toSorted(compare)
  return new Map(all.map((sequence) => [sequence.id, sequence]))
}

/** Whether its client waits for the rest of its answer; nobody waits for a line of a batch. */
function hasBegun(sequence: Sequence): boolean {
  return sequence.state === 'preempted' || (sequence.generatedTokens > 0 && !isOfBatch(sequence))
}

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

  add(sequence: Sequence): void {
    const at = sequence.request.expires
    if (at === undefined) return
    this.#queue.push({ at, sequence })
    if (this.#queue.length > this.#cleanUpAt) this.#cleanUp()
  }

  /** When the next one expires, or undefined. */
  next(): number | undefined {
    for (let entry = this.#queue.peek(); entry !== undefined; entry = this.#queue.peek()) {
      if (entry.sequence.isActive) return entry.at
      this.#queue.pop()
    }
    return undefined
  }

  /** Removes and yields timed-out requests with their errors. */
  *due(now: number): Iterable<readonly [Sequence, CllmError]> {
    for (let at = this.next(); at !== undefined && at <= now; at = this.next()) {
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

function timedOut({ arrival }: Sequence, now: number): CllmError {
  const seconds = ((now - arrival) / 1000).toFixed(1)
  const message = `The request exceeded its time limit after ${seconds} s`
  return new CllmError('timeout', message)
}
