import type { PlacedRequest } from './placed-request.js'

const lastEnded = 1000

/** What is kept of a request that has ended: not its prompt, which may be long. */
export type EndedRequest = Readonly<Pick<PlacedRequest, 'id' | 'worker' | 'placement' | 'moves'>>

/** The requests of a front: those under way, by their ids and by their placements, and the last that ended. */
export class PlacedRequests extends Map<string, PlacedRequest> {
  /** By their placements. */
  readonly #placed = new Map<number, PlacedRequest>()
  readonly #ended = new Map<string, EndedRequest>()

  /** Those under way on a worker. */
  on(worker: string): PlacedRequest[] {
    return [...this.values()].filter((placed) => placed.worker === worker)
  }

  /** One that is under way, or one of the last that ended. */
  find(id: string): EndedRequest | undefined {
    return this.get(id) ?? this.#ended.get(id)
  }

  /** The one that a worker means. What an earlier worker still says is not heard. */
  heard(worker: string, placement: number): PlacedRequest | undefined {
    const placed = this.#placed.get(placement)
    return placed?.worker === worker ? placed : undefined
  }

  /** It goes to a worker, by a placement that no other request has or had. */
  place(placed: PlacedRequest, worker: string, placement: number): void {
    placed.worker = worker
    placed.placement = placement
    this.#placed.set(placement, placed)
  }

  /** It is on no worker any more. */
  release(placed: PlacedRequest): void {
    if (placed.placement !== undefined) this.#placed.delete(placed.placement)
    placed.worker = undefined
    placed.placement = undefined
  }

  /** It has ended, and is remembered for a while. */
  remove({ id, worker, placement, moves }: PlacedRequest): void {
    if (placement !== undefined) this.#placed.delete(placement)
    if (!this.delete(id)) return
    this.#ended.set(id, { id, worker, placement, moves })
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > lastEnded && oldest !== undefined) this.#ended.delete(oldest)
  }
}
