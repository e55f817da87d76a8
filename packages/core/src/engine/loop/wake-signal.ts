import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/clock.js'
import * as tokens from '../../tokens.js'

/** What an idle loop sleeps on: it wakes on a notification or at a time, and never polls. */
@injectable()
export class WakeSignal {
  #notified = false
  #wake: (() => void) | undefined

  constructor(@inject(tokens.CLOCK) private readonly clock: Clock) {}

  notify(): void {
    this.#notified = true
    this.#wake?.()
  }

  /** Resolves at the next notification (at once when there was one since the last sleep) or `until`. */
  async sleep(until: number | undefined): Promise<void> {
    if (!this.#notified) {
      await new Promise<void>((resolve) => {
        // A time is set while requests wait for it: a program that awaits them must not end before.
        const keepsAlive = true
        const cancel =
          until === undefined ? undefined : this.clock.at(until, resolve, { keepsAlive })
        this.#wake = () => {
          cancel?.()
          resolve()
        }
      })
    }
    this.#wake = undefined
    this.#notified = false
  }
}
