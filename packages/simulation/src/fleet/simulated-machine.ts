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

/** An engine of a simulated fleet, with the load meter of a cluster's worker. */
export class SimulatedMachine {
  readonly #meter: LoadMeter
  #isDead = false

  constructor(
    readonly id: string,
    readonly engine: Engine,
    slots: number,
    private readonly now: () => number,
    /** Gets each event of a request on this machine. */
    private readonly onEvent: (id: string, event: RequestEvent) => void,
    /** Gets the machine's report whenever it changed. */
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

  /** Counts a request that a front placed here, just before the engine gets it. */
  onPlaced(request: PlacedRequest, front: string, placement: number): void {
    this.#meter.onPlaced(request, front, placement, this.now())
    this.onReport?.(this.report)
  }

  /** Kills the machine: it sends no more events or reports. Resolves when the running step has ended. */
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

/** A request that a front has to place, and the callbacks for the router's decision. */
export interface Unplaced {
  readonly request: RequestToPlace
  /** Whether the request still waits: its client may have cancelled. */
  readonly isOpen: () => boolean
  readonly onPlaced: (worker: string, placement: number) => void
  readonly onRefused: (reason: string) => void
  /** Time at which the router held the request first, instead of placing it. */
  heldSince?: number
}

/** Milliseconds that a router may hold a request while all machines are idle. */
const idlePatienceMs = 600_000

/** A front of a simulated fleet: its router, and its view of the machines. */
export class SimulatedFront {
  readonly #table: WorkerTable
  /** Requests that wait for a machine's next report. A request held for a time has a timer instead. */
  readonly #waiting = new Set<Unplaced>()
  /** Time of the last report: between reports no machine's load changes. */
  #busyAt = 0

  constructor(
    readonly name: string,
    private readonly router: RouterPolicy,
    private readonly clock: Clock,
  ) {
    this.#table = new WorkerTable(name)
  }

  /** Takes a machine's report. */
  onReport(worker: string, report: WorkerReport): void {
    const now = this.clock.now()
    this.#table.set(worker, report, now)
    this.#busyAt = now
    // In timers: an exception of the router would otherwise be caught by the reporting engine, as its observer's.
    for (const unplaced of this.#waiting) this.clock.at(now, () => this.place(unplaced))
    this.#waiting.clear()
  }

  /** Called when a machine drains: it takes no new requests. */
  onDrain(worker: string): void {
    this.#table.setEligible(worker, false)
  }

  /** Called when the front notices that a machine is dead. */
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
      // On idle machines nothing changes any more: a router that holds on would never let the simulation end.
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
