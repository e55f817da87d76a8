import { CllmError, type Clock } from '@cllm/core'
import { noWorker } from '../members.js'
import type { Sleep } from '../sleep-watch.js'
import type { PlacedRequest } from './placed-request.js'

/** What is done with requests that were held. */
export interface HeldListener {
  /** Its time to be placed has come. */
  readonly onTurn: (placed: PlacedRequest) => void
  /** It waited too long. */
  readonly onExpired: (placed: PlacedRequest, error: CllmError) => void
}

interface Hold {
  readonly since: number
  /** What this process had slept then. */
  readonly sleptMs: number
  /** When the router is asked again; Infinity: when there is a worker. */
  readonly until: number
  /** Milliseconds for which it waits for a worker. */
  readonly patienceMs: number
}

/** Requests that have no worker: none is there, or the router holds them. */
export class HeldRequests {
  readonly #held = new Map<PlacedRequest, Hold>()
  #cancelTimer: () => void = () => {}

  constructor(
    private readonly clock: Clock,
    private readonly sleep: Sleep,
    private readonly listener: HeldListener,
  ) {}

  /** Holds a request until a time, or with Infinity until a worker is there. */
  add(placed: PlacedRequest, until: number, patienceMs: number): void {
    const { since, sleptMs } = this.#held.get(placed) ?? {
      since: this.clock.now(),
      sleptMs: this.sleep.sleptMs,
    }
    this.#held.set(placed, { since, sleptMs, until, patienceMs })
    this.#arm()
  }

  delete(placed: PlacedRequest): void {
    if (this.#held.delete(placed)) this.#arm()
  }

  /** A worker reported: those that wait for any, and those whose time has come, have their turn. */
  retry(): void {
    if (this.#held.size === 0) return
    const now = this.clock.now()
    this.#turn(({ until }) => until <= now || until === Infinity)
  }

  /** The next time at which one has its turn, or has waited too long. */
  #arm(): void {
    this.#cancelTimer()
    this.#cancelTimer = () => {}
    let next = Infinity
    for (const [placed, hold] of this.#held) {
      next = Math.min(next, hold.until, this.#expiry(placed, hold))
    }
    if (next < Infinity) this.#cancelTimer = this.clock.at(next, () => this.#look())
  }

  #look(): void {
    const now = this.clock.now()
    for (const [placed, hold] of this.#held) {
      if (this.#expiry(placed, hold) > now) continue
      this.#held.delete(placed)
      const isLate = limitOf(placed) <= now
      const message = 'The request did not end within its time limit, for lack of a worker'
      this.listener.onExpired(placed, isLate ? new CllmError('timeout', message) : noWorker())
    }
    this.#turn(({ until }) => until <= now)
    this.#arm()
  }

  /** Streams that have begun go before requests that wait for their first token. */
  #turn(isDue: (hold: Hold) => boolean): void {
    const due = [...this.#held].filter(([, hold]) => isDue(hold)).map(([placed]) => placed)
    const hasBegun = ({ tokens }: PlacedRequest) => tokens.length > 0
    for (const placed of due.filter(hasBegun)) this.listener.onTurn(placed)
    for (const placed of due) if (!hasBegun(placed)) this.listener.onTurn(placed)
  }

  /** No worker could come to it while this process was stopped: that time does not count. */
  #expiry(placed: PlacedRequest, { since, sleptMs, until, patienceMs }: Hold): number {
    const limit = limitOf(placed)
    const slept = this.sleep.sleptMs - sleptMs
    return until === Infinity ? Math.min(limit, since + patienceMs + slept) : limit
  }
}

function limitOf({ arrival, request }: PlacedRequest): number {
  return arrival + (request.timeoutMs ?? Infinity)
}
