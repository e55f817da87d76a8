/**
 * Measures how long, in a row, requests have waited while nobody was run. Times are milliseconds of
 * the engine's clock.
 */
export class Patience {
  #spent = 0
  #since: number | undefined

  constructor(private readonly limitMs: number) {}

  /** Somebody waits and nobody runs. Returns when the patience is at its end. */
  wait(now: number): number {
    this.#since ??= now
    return this.#since + this.limitMs - this.#spent
  }

  /** Nobody is there to wait: the time does not count, and what was waited before still does. */
  pause(now: number): void {
    if (this.#since === undefined) return
    this.#spent += now - this.#since
    this.#since = undefined
  }

  /** Somebody ran. */
  reset(): void {
    this.#spent = 0
    this.#since = undefined
  }
}
