import type { WaitingView } from '../contracts/scheduler-policy.js'
import type { Sequence } from './sequence.js'

/** The requests without a slot: preempted ones first, then by arrival. Every change is O(1). */
export class WaitingQueue implements WaitingView {
  readonly #preempted = new Map<string, Sequence>()
  readonly #queued = new Map<string, Sequence>()

  get size(): number {
    return this.#preempted.size + this.#queued.size
  }

  add(sequence: Sequence): void {
    const part = sequence.state === 'preempted' ? this.#preempted : this.#queued
    part.set(sequence.id, sequence)
  }

  get(id: string): Sequence | undefined {
    return this.#queued.get(id) ?? this.#preempted.get(id)
  }

  remove(sequence: Sequence): void {
    if (!this.#queued.delete(sequence.id)) this.#preempted.delete(sequence.id)
  }

  *[Symbol.iterator](): Iterator<Sequence> {
    yield* this.#preempted.values()
    yield* this.#queued.values()
  }
}
