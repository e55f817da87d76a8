import type { Clock } from '@cllm/core'

/** A request or a call that an engine is to have. */
export interface Waits {
  /** Whether its client has a part of the answer. */
  readonly hasBegun: boolean
  /** When its own time limit is over; Infinity: never. */
  readonly expiresAt: number
}

/** What is done with those that wait. */
export interface WaitingListener<Item> {
  /** There may be an engine for it. Default: it has its turn otherwise. */
  readonly onTurn?: (item: Item) => void
  /** Its time limit is over, or else its patience. */
  readonly onExpired: (item: Item, isLate: boolean) => void
  /** For how long this process was stopped so far: that is no patience. Default: never. */
  readonly sleep?: { readonly sleptMs: number }
}

interface Wait {
  readonly since: number
  /** What this process had slept then. */
  readonly sleptMs: number
  readonly until: number
  readonly patienceMs: number
}

/** What no engine has: none is there, it is not its turn, or a router holds it. */
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
   * Lets an item wait, or changes how long.
   *
   * @param until when it has its turn; default Infinity: when there is an engine
   * @param patienceMs how long it waits for one; default Infinity
   */
  add(item: Item, until = Infinity, patienceMs = Infinity): void {
    const known = this.#items.get(item)
    const { sleptMs: slept } = this.#sleep
    const { since, sleptMs } = known ?? { since: this.clock.now(), sleptMs: slept }
    const wait = { since, sleptMs, until, patienceMs }
    this.#items.set(item, wait)
    this.#arm(Math.min(until, this.#expiry(item, wait)))
  }

  /** The item waits no longer. */
  delete(item: Item): void {
    // The look that was to come for it does no harm.
    this.#items.delete(item)
  }

  /** There may be an engine: those that wait for one, and those whose time has come, have their turn. */
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
