import type { Clock } from '@cllm/core'

/** The clock of one process of a simulation: while that is stopped, none of its timers goes off. */
export class StoppableClock implements Clock {
  #late: (() => void)[] | undefined

  constructor(private readonly clock: Clock) {}

  now(): number {
    return this.clock.now()
  }

  wall(): number {
    return this.clock.wall()
  }

  at(at: number, callback: () => void): () => void {
    let isCancelled = false
    const run = (): void => {
      if (isCancelled) return
      if (this.#late === undefined) callback()
      else this.#late.push(run)
    }
    const cancel = this.clock.at(at, run)
    return () => {
      isCancelled = true
      cancel()
    }
  }

  /** From now on its timers wait. */
  stop(): void {
    this.#late ??= []
  }

  /** Goes on: what was due meanwhile goes off now. */
  goOn(): void {
    const late = this.#late ?? []
    this.#late = undefined
    for (const run of late) run()
  }
}
