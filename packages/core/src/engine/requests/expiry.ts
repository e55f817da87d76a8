import TinyQueue from 'tinyqueue'
import { CllmError } from '../../errors/cllm-error.js'
import type { Sequence } from './sequence.js'

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
