import type { Clock } from '@cllm/core'

/** A request or a call that waits for an engine. */
export interface Waits {
  /** Whether its client has a part of the answer. */
  readonly hasBegun: boolean
  /** When its own time limit is over; Infinity: never. */
  readonly expiresAt: number
}

/** Called for the items of a {@link Waiting}. */
export interface WaitingListener<Item> {
  /** An engine may be available for the item. Default: the owner sends its items itself. */
  readonly onTurn?: (item: Item) => void
  /** The item's time limit has ended (`isLate`), or else its patience. */
  readonly onExpired: (item: Item, isLate: boolean) => void
  /** Milliseconds for which this process was suspended so far; they do not count as waiting. Default: 0. */
  readonly sleep?: { readonly sleptMs: number }
}

interface Wait {
  readonly since: number
  /** `sleptMs` of the process at `since`. */
  readonly sleptMs: number
  readonly until: number
  readonly patienceMs: number
}

/** Requests and calls that no engine has: none is ready, it is not their turn, or a router holds them back. */
export class Waiting<Item extends Waits> {
  readonly #items = new Map<Item, Wait>()
  readonly #sleep: { readonly sleptMs: number }
  #lookAt = Infinity
  #cancelTimer: (() => void) | undefined

  constructor(
    private readonly clock: Clock,
    private readonly listener: WaitingListener<Item>,
  ) {
    this.#sleep = listener.sleep ?? { sleptMs: 0 }
  }

  /**
   * Adds an item, or changes how long it waits.
   *
   * @param until time of its turn; default Infinity: when an engine is available
   * @param patienceMs how long it waits for an engine; default Infinity
   */
  add(item: Item, until = Infinity, patienceMs = Infinity): void {
    const known = this.#items.get(item)
    const { sleptMs: slept } = this.#sleep
    const { since, sleptMs } = known ?? { since: this.clock.now(), sleptMs: slept }
    const wait = { since, sleptMs, until, patienceMs }
    this.#items.set(item, wait)
    this.#arm(Math.min(until, this.#expiry(item, wait)))
  }

  /** Removes an item. */
  delete(item: Item): void {
    // Its timer stays: a check without it does no harm.
    this.#items.delete(item)
  }

  /** An engine may be available: gives a turn to the items that wait for one, and to those whose time has come. */
  retry(): void {
    if (this.#items.size === 0) return
    const now = this.clock.now()
    this.#turn(({ until }) => until <= now || until === Infinity)
  }

  #arm(at: number): void {
    if (at >= this.#lookAt) return
    this.#cancelTimer?.()
    this.#lookAt = at
    this.#cancelTimer = this.clock.at(at, () => this.#look())
  }

  #look(): void {
    this.#lookAt = Infinity
    const now = this.clock.now()
    for (const [item, wait] of this.#items) {
      if (this.#expiry(item, wait) > now) continue
      this.#items.delete(item)
      this.listener.onExpired(item, item.expiresAt <= now)
    }
    this.#turn(({ until }) => until <= now)
    for (const [item, wait] of this.#items) {
      this.#arm(Math.min(wait.until, this.#expiry(item, wait)))
    }
  }

  /** Streams that have begun go before requests that wait for their first token. */
  #turn(isDue: (wait: Wait) => boolean): void {
    const due = [...this.#items].filter(([, wait]) => isDue(wait)).map(([item]) => item)
    for (const item of due) if (item.hasBegun) this.listener.onTurn?.(item)
    for (const item of due) if (!item.hasBegun) this.listener.onTurn?.(item)
  }

  #expiry({ expiresAt }: Item, { since, sleptMs, until, patienceMs }: Wait): number {
    if (until < Infinity) return expiresAt
    return Math.min(expiresAt, since + patienceMs + this.#sleep.sleptMs - sleptMs)
  }
}
