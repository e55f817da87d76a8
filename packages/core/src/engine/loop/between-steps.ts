import { inject, injectable } from 'tsyringe'
import type { Clock } from '../../contracts/services.js'
import type { CllmError } from '../../errors/cllm-error.js'
import * as tokens from '../../tokens.js'

/**
 * What a feature does between the engine's steps. With {@link BetweenSteps.add} it takes part; the loop
 * knows it by nothing else.
 */
export interface LoopWork {
  /** Whether {@link settle} has something to do; asked in each turn of the loop. Default: never. */
  readonly isDue?: boolean
  /** Whether something is under way that a draining engine waits for. Default: nothing is. */
  readonly isBusy?: boolean
  /** Does what may only be done while no step is computed, before the next one is planned. */
  settle?(): Promise<void>
  /** A planned step is computed next: it waits for what this returns. */
  beforeStep?(): Promise<void> | undefined
  /** A step, or what else the backend does nothing beside, comes next: computes nothing until `resume`. */
  pause?(): Promise<void> | undefined
  /** It is over. */
  resume?(): void
  /**
   * The engine has nothing to compute: does some work ahead, where its time has come. Resolves to when it
   * is to be called again, milliseconds of the clock; undefined: when something has happened.
   */
  onIdle?(): Promise<number | undefined>
  /** The engine is closed, or has failed: ends what waits with this error. */
  close?(error: CllmError): void
  /**
   * The loop has ended, and the backend is disposed of next: ends what waits with this error, and resolves
   * when nothing needs the backend any more.
   */
  onClose?(error: CllmError): Promise<void>
}

/** What comes between two steps: the work of features, and sleep while there is nothing to do. */
@injectable()
export class BetweenSteps {
  #works: readonly LoopWork[] = []
  /** Whether a step, or what else nothing may be computed beside, is computed or comes next. */
  #isAlone = false
  #closed: CllmError | undefined
  #isNotified = false
  #wake: (() => void) | undefined
  #cancelAlarm: (() => void) | undefined

  constructor(@inject(tokens.CLOCK) private readonly clock: Clock) {}

  /** Adds a feature, unless it takes part already. Throws what the engine was closed with. */
  add(work: LoopWork): void {
    if (this.#closed !== undefined) throw this.#closed
    if (this.#works.includes(work)) return
    this.#works = [...this.#works, work]
    if (this.#isAlone) void work.pause?.()
  }

  /** Whether something may be done now. */
  get isDue(): boolean {
    for (const work of this.#works) if (work.isDue === true) return true
    return false
  }

  /** Whether something is under way that a draining engine waits for. */
  get isBusy(): boolean {
    return this.#works.some((work) => work.isBusy === true)
  }

  /** Does what may be done now. */
  async settle(): Promise<void> {
    for (const work of this.#works) if (work.isDue === true) await work.settle?.()
  }

  /** Makes ready for a planned step, which waits for what this returns. */
  beforeStep(): Promise<unknown> | undefined {
    let ready: Promise<unknown> | undefined
    for (const work of this.#works) {
      if (work.beforeStep === undefined) continue
      ready = ready === undefined ? work.beforeStep() : ready.then(() => work.beforeStep?.())
    }
    return ready === undefined ? this.#pause() : ready.then(() => this.#pause())
  }

  /** Runs a step, or what else nothing may be computed beside: at once after {@link beforeStep}. */
  async alone<Of extends readonly unknown[], Result>(
    run: (...of: Of) => Promise<Result>,
    ...of: Of
  ): Promise<Result> {
    const paused = this.#pause()
    if (paused !== undefined) await paused
    try {
      return await run(...of)
    } finally {
      this.#isAlone = false
      for (const work of this.#works) work.resume?.()
    }
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

  /** Does work ahead; resolves to when there is more, milliseconds of the clock, or Infinity. */
  async onIdle(): Promise<number> {
    let next = Infinity
    for (const work of this.#works) next = Math.min(next, (await work.onIdle?.()) ?? Infinity)
    return next
  }

  /** Ends what waits with this error, and takes nothing more. */
  close(error: CllmError): void {
    this.#closed ??= error
    for (const work of this.#works) work.close?.(error)
  }

  /** Ends what still waits with this error; resolves when no feature needs the backend any more. */
  async onClose(error: CllmError): Promise<void> {
    for (const work of this.#works) await work.onClose?.(error)
  }

  /** Something has happened: the loop looks what it is. */
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
        // Requests wait for the time: a program that awaits them must not end before.
        this.#cancelAlarm = this.clock.at(until, resolve, { keepsAlive: true })
      })
      this.#cancelAlarm?.()
      this.#cancelAlarm = undefined
    }
    this.#wake = undefined
    this.#isNotified = false
  }
}
