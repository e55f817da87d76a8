import { injectable } from 'tsyringe'
import { isOfBatch } from '../../contracts/engine/generate-request.js'
import type { WaitingView } from '../../contracts/scheduling/scheduler-policy.js'
import type { Sequence } from './sequence.js'

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
