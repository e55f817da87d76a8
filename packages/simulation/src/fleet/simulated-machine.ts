import type { Engine, Placement, RequestEvent, Clock, RouterPolicy } from '@cllm/core'
import { askRouter, CllmError, messageOf } from '@cllm/core'
import {
  LoadMeter,
  type PlacedRequest,
  type WorkerReport,
  leastHoldMs,
  type RequestToPlace,
  WorkerTable,
} from '@cllm/scheduler'

/** An engine of a simulation, with the meter that a worker has. */
export class SimulatedMachine {
  readonly #meter: LoadMeter
  #isDead = false

  constructor(
    readonly id: string,
    readonly engine: Engine,
    slots: number,
    private readonly now: () => number,
    /** An event for a request on it. */
    private readonly onEvent: (id: string, event: RequestEvent) => void,
    /** Its report changed. */
    private readonly onReport?: (report: WorkerReport) => void,
  ) {
    this.#meter = new LoadMeter(slots)
    engine.observe({
      onEvents: (events) => {
        for (const { id: request, event } of events) this.#take(request, event)
      },
    })
  }

  get isDead(): boolean {
    return this.#isDead
  }

  get report(): WorkerReport {
    return this.#meter.report(this.now())
  }

  /** A front placed a request here; the engine gets it next. */
  onPlaced(request: PlacedRequest, front: string, placement: number): void {
    this.#meter.onPlaced(request, front, placement, this.now())
    this.onReport?.(this.report)
  }

  /** It is gone: nothing is heard of it any more. Resolves when the step is over that is running. */
  async die(): Promise<void> {
    this.#isDead = true
    await this.engine.close()
  }

  #take(id: string, event: RequestEvent): void {
    if (this.#isDead) return
    const { onReport } = this
    if (onReport && this.#meter.onEvent(id, event, this.now())) onReport(this.report)
    this.onEvent(id, event)
  }
}

/** A request at a front, and who is told where it goes. */
export interface Unplaced {
  readonly request: RequestToPlace
  /** Whether it still wants a place. */
  readonly isOpen: () => boolean
  readonly onPlaced: (worker: string, placement: number) => void
  readonly onRefused: (reason: string) => void
  /** When the router held it first. */
  heldSince?: number
}

/** Milliseconds that a router may hold a request while no machine has one. */
const idlePatienceMs = 600_000

/** A front of a simulation: its router, and what it knows of the machines. */
export class SimulatedFront {
  readonly #table: WorkerTable
  /** Those that wait for what machines report; what the router holds for a time has a timer. */
  readonly #waiting = new Set<Unplaced>()
  /** When a machine had a request last, as far as this front was told. */
  #busyAt = 0

  constructor(
    readonly name: string,
    private readonly router: RouterPolicy,
    private readonly clock: Clock,
  ) {
    this.#table = new WorkerTable(name)
  }

  /** A report reached this front. */
  onReport(worker: string, report: WorkerReport): void {
    const now = this.clock.now()
    this.#table.set(worker, report, now)
    this.#busyAt = now
    // By timers: the engine that reports would take what a router throws for an observer's defect, and go on.
    for (const unplaced of this.#waiting) this.clock.at(now, () => this.place(unplaced))
    this.#waiting.clear()
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
    let placement: Placement
    try {
      placement = askRouter(this.router, request, views, now)
    } catch (cause) {
      const message = `The router failed: ${messageOf(cause)}`
      throw new CllmError('policy_failed', message, { cause })
    }
    if ('worker' in placement) {
      onPlaced(placement.worker, this.#table.place(placement.worker, request, now))
    } else if ('refuse' in placement) onRefused(placement.refuse)
    else if (placement.holdMs === Infinity) this.#waiting.add(unplaced)
    else {
      // Nothing but the time changes any more: a router that goes on so would never let the simulation end.
      const isIdle = views.every(({ open }) => open === 0)
      unplaced.heldSince ??= now
      if (isIdle && now - Math.max(unplaced.heldSince, this.#busyAt) > idlePatienceMs) {
        const message = `The router failed: it holds request "${request.id}", though no machine has had one for ${idlePatienceMs / 60_000} minutes`
        throw new CllmError('policy_failed', message)
      }
      this.clock.at(now + Math.max(leastHoldMs, placement.holdMs), () => this.place(unplaced))
    }
  }
}
