import type { Clock } from '../contracts/clock.js'

/** Fires when no message has arrived for too long while work is pending. */
export class Watchdog {
  #since = 0
  #wasOwed = false
  #cancel: (() => void) | undefined

  /** @param patienceMs 0 switches it off */
  constructor(
    private readonly clock: Clock,
    private readonly patienceMs: number,
    private readonly isOwed: () => boolean,
    private readonly onHang: () => void,
  ) {}

  /** The pending work may have changed: time counts from when there is some. */
  update(): void {
    const isOwed = this.isOwed()
    if (isOwed && !this.#wasOwed) {
      this.#since = this.clock.now()
      if (this.#cancel === undefined && this.patienceMs > 0) this.#arm()
    }
    this.#wasOwed = isOwed
    if (!isOwed) this.#stop()
  }

  /** A message arrived. */
  progress(): void {
    this.#since = this.clock.now()
  }

  #stop(): void {
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
    // If this check ran late, the event loop was blocked and messages may still be unread.
    if (now - at > this.patienceMs / 4) this.#since = now
    if (now < this.#since + this.patienceMs) this.#arm()
    else this.onHang()
  }
}
