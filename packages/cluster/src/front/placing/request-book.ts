import type { PlacedRequest } from './placed-request.js'

const lastEnded = 1000

/** The requests of a front: those under way, by their ids here and on the wire, and the last that ended. */
export class RequestBook {
  readonly #requests = new Map<string, PlacedRequest>()
  readonly #onWire = new Map<string, PlacedRequest>()
  readonly #ended = new Map<string, PlacedRequest>()
  #placements = 0

  /** How many are under way. */
  get size(): number {
    return this.#requests.size
  }

  /** Those under way. */
  get all(): PlacedRequest[] {
    return [...this.#requests.values()]
  }

  /** Those under way on a worker. */
  on(worker: string): PlacedRequest[] {
    return this.all.filter((placed) => placed.worker === worker)
  }

  /** One that is under way. */
  get(id: string): PlacedRequest | undefined {
    return this.#requests.get(id)
  }

  /** One that is under way, or one of the last that ended. */
  find(id: string): PlacedRequest | undefined {
    return this.#requests.get(id) ?? this.#ended.get(id)
  }

  /** The one that a worker means. What an earlier worker still says is not heard. */
  heard(worker: string, wireId: string): PlacedRequest | undefined {
    const placed = this.#onWire.get(wireId)
    return placed?.worker === worker ? placed : undefined
  }

  /** The ids of all requests by those that their workers have. */
  idsByWire(): ReadonlyMap<string, string> {
    const ids = new Map<string, string>()
    for (const { wireIds, id } of [...this.#ended.values(), ...this.#requests.values()]) {
      for (const wireId of wireIds) ids.set(wireId, id)
    }
    return ids
  }

  add(placed: PlacedRequest): void {
    this.#requests.set(placed.id, placed)
  }

  /** It goes to a worker, under an id that it had at no other; returns that. */
  place(placed: PlacedRequest, worker: string): string {
    const wireId = String(++this.#placements)
    placed.worker = worker
    placed.wireId = wireId
    placed.wireIds.push(wireId)
    this.#onWire.set(wireId, placed)
    return wireId
  }

  /** It is on no worker any more. */
  release(placed: PlacedRequest): void {
    if (placed.wireId !== undefined) this.#onWire.delete(placed.wireId)
    placed.worker = undefined
    placed.wireId = undefined
  }

  /** It has ended. */
  end(placed: PlacedRequest): void {
    if (placed.wireId !== undefined) this.#onWire.delete(placed.wireId)
    this.#requests.delete(placed.id)
    this.#ended.set(placed.id, placed)
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > lastEnded && oldest !== undefined) this.#ended.delete(oldest)
  }
}
