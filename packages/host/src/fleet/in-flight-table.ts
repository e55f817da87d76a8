import { type Random, type GenerateRequest, CllmError } from '@cllm/core'
import type { InFlightRequest } from './in-flight-request.js'

/** The requests in flight over one or several engines, by arrival. */
export class InFlightTable<Entry extends InFlightRequest> {
  readonly #requests = new Map<string, Entry>()

  get size(): number {
    return this.#requests.size
  }

  /** The request of this id. */
  get(id: string): Entry | undefined {
    return this.#requests.get(id)
  }

  /** By arrival, as they are now. */
  all(): Entry[] {
    return [...this.#requests.values()]
  }

  /** By arrival. */
  [Symbol.iterator](): Iterator<Entry> {
    return this.#requests.values()
  }

  /** Takes in a request that is not in the table. */
  add(entry: Entry): void {
    this.#requests.set(entry.id, entry)
  }

  /** Takes out a request that has ended; false: it is not in the table. */
  remove(entry: Entry): boolean {
    return this.#requests.delete(entry.id)
  }

  /** Throws `duplicate_request` while a request with this id is under way. */
  ensureFree(id: string): void {
    if (!this.#requests.has(id)) return
    throw new CllmError('duplicate_request', `A request with the id "${id}" is under way`)
  }
}

/** The request with a seed: each engine would choose another one. */
export function withSeed(request: GenerateRequest, random: Random): GenerateRequest {
  const { sampling } = request
  return { ...request, sampling: { ...sampling, seed: sampling?.seed ?? random.uint32() } }
}
