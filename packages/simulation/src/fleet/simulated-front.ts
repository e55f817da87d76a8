import type { Clock, RouterPolicy } from '@cllm/core'
import { leastHoldMs, type RequestToPlace, type WorkerReport, WorkerTable } from '@cllm/scheduler'

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
  /** Those that wait for a machine; what the router holds has a timer. */
  readonly #waiting = new Set<Unplaced>()

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
    // Those that go on waiting are put back.
    const waiting = [...this.#waiting]
    this.#waiting.clear()
    for (const unplaced of waiting) this.place(unplaced)
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
    if (views.length === 0) return void this.#waiting.add(unplaced)
    const placement = this.router.place(request, views, now)
    if ('worker' in placement) {
      onPlaced(placement.worker, this.#table.place(placement.worker, request, now))
    } else if ('refuse' in placement) onRefused(placement.refuse)
    else this.clock.at(now + Math.max(leastHoldMs, placement.holdMs), () => this.place(unplaced))
  }
}
