import type { Engine, RequestEvent } from '@cllm/core'
import { LoadMeter, type PlacedRequest, type WorkerReport } from '@cllm/scheduler'

/** What a machine of a simulation tells. */
export interface MachineListener {
  /** An event for a request on it. */
  readonly onEvent: (id: string, event: RequestEvent) => void
  /** Its report changed. */
  readonly onReport?: (report: WorkerReport) => void
}

/** An engine of a simulation, with the meter that a worker has. */
export class SimulatedMachine {
  readonly #meter: LoadMeter
  #isDead = false

  constructor(
    readonly id: string,
    readonly engine: Engine,
    slots: number,
    private readonly now: () => number,
    private readonly listener: MachineListener,
  ) {
    this.#meter = new LoadMeter(slots)
    engine.observe({
      onEvents: (events) => {
        for (const { id: request, event } of events) this.#take(request, event)
      },
    })
  }

  get report(): WorkerReport {
    return this.#meter.report(this.now())
  }

  /** A front placed a request here; the engine gets it next. */
  onPlaced(request: PlacedRequest, front: string, placement: number): void {
    this.#meter.onPlaced(request, front, placement, this.now())
    this.listener.onReport?.(this.#meter.report(this.now()))
  }

  /** It is gone: nothing is heard of it any more. Resolves when the step is over that is running. */
  async die(): Promise<void> {
    this.#isDead = true
    await this.engine.close()
  }

  #take(id: string, event: RequestEvent): void {
    if (this.#isDead) return
    const { onReport, onEvent } = this.listener
    if (onReport !== undefined && this.#meter.onEvent(id, event, this.now())) {
      onReport(this.#meter.report(this.now()))
    }
    onEvent(id, event)
  }
}
