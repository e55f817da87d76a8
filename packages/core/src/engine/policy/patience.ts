/**
 * Measures how long requests have waited in a row while none ran. Times are milliseconds of the
 * engine's clock.
 */
export class Patience {
  #spent = 0
  #since: number | undefined

  constructor(private readonly limitMs: number) {}

  /** Requests wait and none runs. Returns the time at which the limit is reached. */
  wait(now: number): number {
    this.#since ??= now
    return this.#since + this.limitMs - this.#spent
  }

  /** No requests: pauses the timer and keeps what has accumulated. */
  pause(now: number): void {
    if (this.#since === undefined) return
    this.#spent += now - this.#since
    this.#since = undefined
  }

  /** A request ran. */
  reset(): void {
    this.#spent = 0
    this.#since = undefined
  }
}
