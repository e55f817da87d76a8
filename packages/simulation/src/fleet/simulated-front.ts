import type { Clock, Placement, RouterPolicy } from '@cllm/core'
import { type RequestToPlace, type WorkerReport, WorkerTable } from '@cllm/scheduler'

/** A request at a front, and who is told where it goes. */
export interface Unplaced {
  readonly request: RequestToPlace
  /** Whether it still wants a place. */
  readonly isOpen: () => boolean
  readonly onPlaced: (worker: string, placement: number) => void
  readonly onRefused: (reason: string) => void
}

/** A front of a simulation: its router, and what it knows of the machines. */
export class SimulatedFront {
  readonly #table: WorkerTable
  readonly #held = new Map<Unplaced, () => void>()

  constructor(
    readonly name: string,
    private readonly router: RouterPolicy,
    private readonly clock: Clock,
  ) {
    this.#table = new WorkerTable(name)
  }

  /** A report reached this front. */
  onReport(worker: string, report: WorkerReport): void {
    this.#table.set(worker, report, this.clock.now())
    for (const [held, cancel] of this.#held) {
      cancel()
      this.#held.delete(held)
      this.place(held)
    }
  }

  /** A machine takes no new requests any more. */
  onDrain(worker: string): void {
    this.#table.setEligible(worker, false)
  }

  /** A machine is gone. */
  onGone(worker: string): void {
    this.#table.delete(worker)
  }

  place(unplaced: Unplaced): void {
    const { request, isOpen, onPlaced, onRefused } = unplaced
    if (!isOpen()) return
    const now = this.clock.now()
    const views = this.#table.views(request, now)
    const placement: Placement =
      views.length === 0 ? { holdMs: 1000 } : this.router.place(request, views, now)
    if ('worker' in placement) {
      onPlaced(placement.worker, this.#table.place(placement.worker, request, now))
    } else if ('refuse' in placement) onRefused(placement.refuse)
    else {
      const again = () => {
        this.#held.delete(unplaced)
        this.place(unplaced)
      }
      this.#held.set(unplaced, this.clock.at(now + placement.holdMs, again))
    }
  }
}
