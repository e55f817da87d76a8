import type { Clock } from '../contracts/clock.js'

/** Calls when nothing has come for too long although something is owed. */
export class Watchdog {
  #since = 0
  #cancel: (() => void) | undefined

  /** @param patienceMs 0 switches it off */
  constructor(
    private readonly clock: Clock,
    private readonly patienceMs: number,
    private readonly isOwed: () => boolean,
    private readonly onHang: () => void,
  ) {}

  /** Something is owed where nothing was. */
  begin(): void {
    this.#since = this.clock.now()
    if (this.#cancel === undefined && this.patienceMs > 0) this.#arm()
  }

  /** Something came. */
  progress(): void {
    this.#since = this.clock.now()
  }

  stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(): void {
    const at = this.#since + this.patienceMs
    this.#cancel = this.clock.at(at, () => this.#look(at))
  }

  #look(at: number): void {
    this.#cancel = undefined
    if (!this.isOwed()) return
    const now = this.clock.now()
    // Who looks late was held up itself, and what came meanwhile may not have been read.
    if (now - at > this.patienceMs / 4) this.#since = now
    if (now < this.#since + this.patienceMs) this.#arm()
    else this.onHang()
  }
}
