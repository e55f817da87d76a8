import { injectable } from 'tsyringe'
import { batchPriority } from '../../contracts/engine/generate-request.js'
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

  /** Shows held requests again, at their places. */
  unhold(sequences: Iterable<Sequence>): void {
    const back = [...sequences].filter(({ id }) => this.#held.delete(id))
    if (back.length === 0) return
    this.#begun = this.#with(this.#begun, back.filter(hasBegun))
    this.#queued = this.#with(
      this.#queued,
      back.filter((sequence) => !hasBegun(sequence)),
    )
  }

  #with(part: Map<string, Sequence>, back: readonly Sequence[]): Map<string, Sequence> {
    if (back.length === 0) return part
    const all = [...part.values(), ...back].toSorted((a, b) => this.#turnOf(a) - this.#turnOf(b))
    return new Map(all.map((sequence) => [sequence.id, sequence]))
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
    yield* this.#begun.values()
    yield* this.#queued.values()
  }
}

/** Whether its client waits for the rest of its answer; nobody waits for a line of a batch. */
function hasBegun({ state, generatedTokens, priority }: Sequence): boolean {
  return state === 'preempted' || (generatedTokens > 0 && priority > batchPriority)
}
