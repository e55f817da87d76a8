import type { WaitingView } from '../contracts/scheduler-policy.js'
import type { Sequence } from './sequence.js'

/**
 * The requests without a slot: preempted ones first, then by arrival. Those that are held back are
 * among them for the engine, but not for a policy.
 */
export class WaitingQueue implements WaitingView {
  readonly #preempted = new Map<string, Sequence>()
  #queued = new Map<string, Sequence>()
  readonly #held = new Map<string, Sequence>()
  #turns = 0
  /** Of all that wait. */
  promptTokens = 0

  /** Without those that are held back. */
  get size(): number {
    return this.#preempted.size + this.#queued.size
  }

  /** With those that are held back. */
  get total(): number {
    return this.size + this.#held.size
  }

  add(sequence: Sequence): void {
    const part = sequence.state === 'preempted' ? this.#preempted : this.#queued
    sequence.turn = ++this.#turns
    this.promptTokens += sequence.promptTokens
    part.set(sequence.id, sequence)
  }

  /** Whether it waits and is not held back. */
  has(id: string): boolean {
    return this.#queued.has(id) || this.#preempted.has(id)
  }

  get(id: string): Sequence | undefined {
    return this.#queued.get(id) ?? this.#preempted.get(id) ?? this.#held.get(id)
  }

  /** Its place from 1, or undefined where it does not wait. */
  placeOf(id: string): number | undefined {
    let place = 0
    for (const sequence of this.everyone()) {
      place++
      if (sequence.id === id) return place
    }
    return undefined
  }

  remove(sequence: Sequence): void {
    const { id } = sequence
    if (!this.#queued.delete(id) && !this.#preempted.delete(id) && !this.#held.delete(id)) return
    this.promptTokens -= sequence.promptTokens
  }

  /** Hides a queued request from the policy. */
  hold(sequence: Sequence): void {
    if (this.#queued.delete(sequence.id)) this.#held.set(sequence.id, sequence)
  }

  /** Shows held requests again, at their places by arrival. */
  unhold(sequences: Iterable<Sequence>): void {
    const back = [...sequences].filter(({ id }) => this.#held.delete(id))
    if (back.length === 0) return
    const all = [...this.#queued.values(), ...back].toSorted((a, b) => a.turn - b.turn)
    this.#queued = new Map(all.map((sequence) => [sequence.id, sequence]))
  }

  /** All that wait, held ones last. */
  *everyone(): Iterable<Sequence> {
    yield* this
    yield* this.#held.values()
  }

  *[Symbol.iterator](): Iterator<Sequence> {
    yield* this.#preempted.values()
    yield* this.#queued.values()
  }
}
