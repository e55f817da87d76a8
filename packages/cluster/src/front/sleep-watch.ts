import type { Clock } from '@cllm/core'

/** What a process knows of the times for which it did not run. */
export interface Sleep {
  /** Milliseconds of them so far. Deadlines that it set before are later by what came since. */
  readonly sleptMs: number
  /** Whether what came meanwhile is not read yet: what it knows of others is old. */
  readonly isCatchingUp: boolean
}

/** A process that is never stopped, or does not care. */
export const sleepless: Sleep = Object.freeze({ sleptMs: 0, isCatchingUp: false })

/** What a {@link SleepWatch} is made of. */
export interface SleepWatchParts {
  readonly clock: Clock
  /** What is no stop but a busy process, in milliseconds; the process catches up for as long at most. */
  readonly leastMs: number
  /** Sends an envelope with this number to the own mailbox, behind all that came meanwhile. */
  readonly send: (echo: number) => void
  /** It was stopped for so long. */
  readonly onWake: (sleptMs: number) => void
  readonly onCaughtUp: () => void
}

/** Milliseconds between two looks at the clock. */
const lookMs = 500

/**
 * Notices that this process was stopped (SIGSTOP, a suspended machine), as its own timer goes off far too late.
 * From then on it catches up, until an envelope that it has sent itself comes back.
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

  /** An envelope to itself came back: with the last one, all that came before is read. */
  hear(echo: number): void {
    if (echo === this.#echo) this.#caughtUp()
  }

  /** Whoever asks after a stop may be ahead of the timer. */
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
