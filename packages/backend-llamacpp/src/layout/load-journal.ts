import type { BatchItem } from '@cllm/core'
import type { Load, LoadRecord } from './load-record.js'

/** The load is written down after this many steps, and at the end. */
const stepsBetween = 1000

/** Writes down what the load of a backend is like, for the next time that its model is loaded. */
export class LoadJournal {
  readonly #record: LoadRecord
  readonly #write: (load: Load) => Promise<void>
  #steps = 0
  #writing = Promise.resolve()

  /** @param write - does not throw */
  constructor(record: LoadRecord, write: (load: Load) => Promise<void>) {
    this.#record = record
    this.#write = write
  }

  /** Notes a step. */
  took(batch: readonly BatchItem[]): void {
    this.#record.took(batch)
    this.#steps++
    if (this.#steps % stepsBetween === 0) this.#save()
  }

  /** Notes that tokens were taken out of a slot. */
  shifted(): void {
    this.#record.shifted()
  }

  /** Writes down the rest. */
  async close(): Promise<void> {
    if (this.#steps > 0) this.#save()
    await this.#writing
  }

  #save(): void {
    const { load } = this.#record
    this.#writing = this.#writing.then(() => this.#write(load))
  }
}
