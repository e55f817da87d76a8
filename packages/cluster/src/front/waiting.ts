import { CllmError, type Clock } from '@cllm/core'
import { noWorker } from './members.js'
import type { Sleep } from './sleep-watch.js'

/** A request or a call that a worker is to have. */
export interface Waits {
  /** Whether its client has a part of the answer. */
  readonly hasBegun: boolean
  /** When its own time limit is over. */
  readonly expiresAt: number
}

/** What is done with those that waited. */
export interface WaitingListener<Item> {
  /** There may be a worker for it. */
  readonly onTurn: (item: Item) => void
  /** It waited too long. */
  readonly onExpired: (item: Item, error: CllmError) => void
}

interface Wait {
  readonly since: number
  /** What this process had slept then. */
  readonly sleptMs: number
  /** When the router is asked again; Infinity: when there is a worker. */
  readonly until: number
  /** Milliseconds for which it waits for a worker. */
  readonly patienceMs: number
}

/** What has no worker: none is there, or the router holds it. */
export class Waiting<Item extends Waits> {
  readonly #items = new Map<Item, Wait>()
  #cancelTimer: () => void = () => {}

  constructor(
    private readonly clock: Clock,
    private readonly sleep: Sleep,
    private readonly listener: WaitingListener<Item>,
  ) {}

  /** It waits until a time, or with Infinity until a worker is there. */
  add(item: Item, until: number, patienceMs: number): void {
    const { since, sleptMs } = this.#items.get(item) ?? {
      since: this.clock.now(),
      sleptMs: this.sleep.sleptMs,
    }
    this.#items.set(item, { since, sleptMs, until, patienceMs })
    this.#arm()
  }

  delete(item: Item): void {
    if (this.#items.delete(item)) this.#arm()
  }

  /** A worker reported: those that wait for any, and those whose time has come, have their turn. */
  retry(): void {
    if (this.#items.size === 0) return
    const now = this.clock.now()
    this.#turn(({ until }) => until <= now || until === Infinity)
  }

  /** The next time at which one has its turn, or has waited too long. */
  #arm(): void {
    this.#cancelTimer()
    this.#cancelTimer = () => {}
    let next = Infinity
    for (const [item, wait] of this.#items) {
      next = Math.min(next, wait.until, this.#expiry(item, wait))
    }
    if (next < Infinity) this.#cancelTimer = this.clock.at(next, () => this.#look())
  }

  #look(): void {
    const now = this.clock.now()
    for (const [item, wait] of this.#items) {
      if (this.#expiry(item, wait) > now) continue
      this.#items.delete(item)
      const message = 'The request did not end within its time limit, for lack of a worker'
      const isLate = item.expiresAt <= now
      this.listener.onExpired(item, isLate ? new CllmError('timeout', message) : noWorker())
    }
    this.#turn(({ until }) => until <= now)
    this.#arm()
  }

  /** Streams that have begun go before requests that wait for their first token. */
  #turn(isDue: (wait: Wait) => boolean): void {
    const due = [...this.#items].filter(([, wait]) => isDue(wait)).map(([item]) => item)
    for (const item of due) if (item.hasBegun) this.listener.onTurn(item)
    for (const item of due) if (!item.hasBegun) this.listener.onTurn(item)
  }

  /** No worker could come to it while this process was stopped: that time does not count. */
  #expiry({ expiresAt }: Item, { since, sleptMs, until, patienceMs }: Wait): number {
    if (until < Infinity) return expiresAt
    return Math.min(expiresAt, since + patienceMs + this.sleep.sleptMs - sleptMs)
  }
}
