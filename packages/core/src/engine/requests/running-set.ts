import { injectable } from 'tsyringe'
import type { Sequence } from './sequence.js'

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
