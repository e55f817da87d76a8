import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import type { Clock } from '@cllm/core'

/** A call during which no other may be made. */
export type LongCall = 'step' | 'copyPrefix' | 'save' | 'restore'

/** The calls of a fake backend that take time, one after the other. */
export class LongCalls {
  busy: LongCall | undefined
  /** Whether the one under way was to end, or the last one. */
  isInterrupted = false
  #end = () => {}

  /** @param clock - what times are waited on; without it each call takes a turn of the event loop */
  constructor(private readonly clock: Clock | undefined) {}

  async during<T>(call: LongCall, milliseconds: number, work: () => T): Promise<T> {
    this.busy = call
    this.isInterrupted = false
    try {
      const { clock } = this
      if (clock === undefined || milliseconds <= 0) await turnOfTheEventLoop()
      else await this.#pause(clock, milliseconds)
      return work()
    } finally {
      this.busy = undefined
    }
  }

  /** Lets the one under way do its work in the next turn of the event loop. */
  interrupt(): void {
    this.isInterrupted = true
    this.#end()
  }

  async #pause(clock: Clock, milliseconds: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = clock.at(clock.now() + milliseconds, resolve)
      this.#end = () => {
        cancel()
        resolve()
      }
    })
  }
}
