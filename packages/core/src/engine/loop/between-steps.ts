import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/services.js'
import type { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'

/**
 * The work of a feature between the engine's steps, added with {@link BetweenSteps.add}. The loop knows features by
 * nothing else.
 */
export interface LoopWork {
  /** Whether {@link settle} has something to do; asked in each turn of the loop. Default: never. */
  readonly isDue?: boolean
  /** Whether it has work in progress that a draining engine waits for. Default: never. */
  readonly isBusy?: boolean
  /** Does the work that needs the backend to itself, before the next step is planned. */
  settle?(): Promise<void>
  /** Called before a planned step, which waits for the promise. */
  beforeStep?(): Promise<void> | undefined
  /** Called before a step, or other work that needs the backend to itself: computes nothing more until `resume`. */
  pause?(): Promise<void> | undefined
  /** That step or work has ended. */
  resume?(): void
  /**
   * Called while the engine has nothing to compute: does work ahead that is due. Resolves to the time of the next call
   * in milliseconds of the clock; undefined: after the next event.
   */
  onIdle?(): Promise<number | undefined>
  /** The engine was closed or has failed: rejects waiting calls with this error. */
  close?(error: CllmError): void
  /**
   * The loop has ended, and the backend is disposed of next: rejects calls that still wait, and resolves when nothing
   * uses the backend any more.
   */
  onClose?(error: CllmError): Promise<void>
}

/** Runs the work of features between two steps, and sleeps while there is none. */
@injectable()
export class BetweenSteps {
  #works: readonly LoopWork[] = []
  /** Whether a step or other exclusive work is running or about to start. */
  #isAlone = false
  #closed: CllmError | undefined
  #isNotified = false
  #wake: (() => void) | undefined
  #cancelAlarm: (() => void) | undefined

  constructor(@inject(tokens.CLOCK) private readonly clock: Clock) {}

  /** Adds a feature's work, once. Throws the error with which the engine was closed. */
  add(work: LoopWork): void {
    if (this.#closed !== undefined) throw this.#closed
    if (this.#works.includes(work)) return
    this.#works = [...this.#works, work]
    if (this.#isAlone) void work.pause?.()
  }

  /** Whether some feature has work for `settle`. */
  get isDue(): boolean {
    for (const work of this.#works) if (work.isDue === true) return true
    return false
  }

  /** Whether some feature has work in progress that a draining engine waits for. */
  get isBusy(): boolean {
    return this.#works.some((work) => work.isBusy === true)
  }

  /** Does the due work of all features. */
  async settle(): Promise<void> {
    for (const work of this.#works) if (work.isDue === true) await work.settle?.()
  }

  /** Prepares for a planned step, which waits for the promise. */
  beforeStep(): Promise<unknown> | undefined {
    let ready: Promise<unknown> | undefined
    for (const work of this.#works) {
      if (work.beforeStep === undefined) continue
      ready = ready === undefined ? work.beforeStep() : ready.then(() => work.beforeStep?.())
    }
    const paused = ready === undefined ? this.#pause() : ready.then(() => this.#pause())
    // There will be no step after which the features would go on.
    return paused?.catch((error: unknown) => {
      this.#resume()
      throw error
    })
  }

  /** Runs a step, or other work that needs the backend to itself. A step is run right after {@link beforeStep}. */
  async alone<Of extends readonly unknown[], Result>(
    run: (...of: Of) => Promise<Result>,
    ...of: Of
  ): Promise<Result> {
    try {
      const paused = this.#pause()
      if (paused !== undefined) await paused
      return await run(...of)
    } finally {
      this.#resume()
    }
  }

  #resume(): void {
    this.#isAlone = false
    for (const work of this.#works) work.resume?.()
  }

  #pause(): Promise<unknown> | undefined {
    this.#isAlone = true
    let paused: Promise<unknown> | undefined
    for (const work of this.#works) {
      const wait = work.pause?.()
      if (wait !== undefined) paused = paused === undefined ? wait : Promise.all([paused, wait])
    }
    return paused
  }

  /** Does work ahead; resolves to the time when more is due, in milliseconds of the clock, or Infinity. */
  async onIdle(): Promise<number> {
    let next = Infinity
    for (const work of this.#works) next = Math.min(next, (await work.onIdle?.()) ?? Infinity)
    return next
  }

  /** Rejects waiting calls with this error, and takes no more work. */
  close(error: CllmError): void {
    this.#closed ??= error
    for (const work of this.#works) work.close?.(error)
  }

  /** Rejects calls that still wait; resolves when no feature uses the backend any more. */
  async onClose(error: CllmError): Promise<void> {
    for (const work of this.#works) await work.onClose?.(error)
  }

  /** Wakes the loop, as there is something new. */
  notify(): void {
    this.#isNotified = true
    this.#wake?.()
  }

  /** Resolves at the next notification (at once when there was one since the last sleep) or `until`. */
  async sleep(until: number): Promise<void> {
    if (!this.#isNotified) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        if (until === Infinity) return
        // Requests depend on this timer: a program that awaits them must not end before it.
        this.#cancelAlarm = this.clock.at(until, resolve, { keepsAlive: true })
      })
      this.#cancelAlarm?.()
      this.#cancelAlarm = undefined
    }
    this.#wake = undefined
    this.#isNotified = false
  }
}
