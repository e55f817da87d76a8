import TinyQueue from 'tinyqueue'
import type { Sequence } from './sequence.js'

interface Entry {
  readonly at: number
  readonly sequence: Sequence
}

/** The requests with a time limit, the next to expire first. */
export class Expiry {
  readonly #queue = new TinyQueue<Entry>([], (a, b) => a.at - b.at)

  add(sequence: Sequence): void {
    const at = sequence.request.expires
    if (at !== undefined) this.#queue.push({ at, sequence })
  }

  /** When the next one expires, or undefined. */
  next(): number | undefined {
    for (let entry = this.#queue.peek(); entry !== undefined; entry = this.#queue.peek()) {
      if (entry.sequence.isActive) return entry.at
      this.#queue.pop()
    }
    return undefined
  }

  /** Takes out those whose time has come. */
  *due(now: number): Iterable<Sequence> {
    for (let at = this.next(); at !== undefined && at <= now; at = this.next()) {
      const entry = this.#queue.pop()
      if (entry !== undefined) yield entry.sequence
    }
  }
}
