import type { Clock } from '@cllm/core'

/** The times for which this process was suspended. */
export interface Sleep {
  /** Milliseconds of suspension so far; deadlines are extended by those that have been added since they were set. */
  readonly sleptMs: number
  /** Whether messages from the time of a suspension are unread, so that its knowledge of others is out of date. */
  readonly isCatchingUp: boolean
}

/** A process that is never suspended, or need not notice. */
export const sleepless: Sleep = Object.freeze({ sleptMs: 0, isCatchingUp: false })

/** The parts of a {@link SleepWatch}. */
export interface SleepWatchParts {
  readonly clock: Clock
  /** Milliseconds from which a late timer means a suspension and not a busy process; also the most for catching up. */
  readonly leastMs: number
  /** Sends an envelope with this number to the process's own mailbox, behind the unread ones. */
  readonly send: (echo: number) => void
  /** Called after a suspension of this many milliseconds. */
  readonly onWake: (sleptMs: number) => void
  readonly onCaughtUp: () => void
}

/** The interval at which the clock is checked, in milliseconds. */
const lookMs = 500

/**
 * Notices that this process was suspended (SIGSTOP, a sleeping machine) by a timer that fires far too late. From
 * then on the process catches up, until an envelope that it has sent to itself arrives.
 */
export class SleepWatch implements Sleep {
  #sleptMs = 0
  #due = Infinity
  #cancel: () => void = () => {}
  #echo = 0
  #isCatchingUp = false
  #cancelCatchingUp: () => void = () => {}

  constructor(private readonly parts: SleepWatchParts) {}

  get sleptMs(): number {
    this.#look()
    return this.#sleptMs
  }

  get isCatchingUp(): boolean {
    this.#look()
    return this.#isCatchingUp
  }

  start(): void {
    const { clock } = this.parts
    this.#due = clock.now() + lookMs
    this.#cancel = clock.at(this.#due, () => {
      this.#look()
      this.start()
    })
  }

  close(): void {
    this.#cancel()
    this.#cancelCatchingUp()
  }

  /** Takes an envelope to itself: with the last one, all earlier messages have been read. */
  hear(echo: number): void {
    if (echo === this.#echo) this.#caughtUp()
  }

  /** Checks the clock; also called by readers, which may run before the timer after a suspension. */
  #look(): void {
    const { clock, leastMs, send, onWake } = this.parts
    const now = clock.now()
    const late = now - this.#due
    if (late < leastMs) return
    this.#sleptMs += late
    this.#due = now + lookMs
    this.#isCatchingUp = true
    this.#cancelCatchingUp()
    this.#cancelCatchingUp = clock.at(now + leastMs, () => this.#caughtUp())
    onWake(late)
    send(++this.#echo)
  }

  #caughtUp(): void {
    if (!this.#isCatchingUp) return
    this.#isCatchingUp = false
    this.#cancelCatchingUp()
    this.parts.onCaughtUp()
  }
}
