import { type EngineClient, isOfBatch, type Services } from '@cllm/core'
import { LoadMeter, type WorkerReport } from '@cllm/scheduler'
import type { NamedChannel } from '../link/link.js'
import type { FromWorker, ToWorker, WorkerNews, WorkerState } from '../messages.js'
import { FrontSession } from './front-session.js'

/** The parts of {@link WorkerSessions}. */
export interface SessionsParts extends Pick<Services, 'clock' | 'logger'> {
  readonly client: EngineClient
  /** The number of slots of its engine. */
  readonly slots: number
}

/** The shortest interval between two reports in milliseconds. */
const reportMs = 50

/** One engine's work for any number of fronts, and the reports of its load to them. */
export class WorkerSessions {
  #state: WorkerState = 'up'
  #isMigrating = false
  readonly #sessions = new Map<string, FrontSession>()
  readonly #meter: LoadMeter
  /** Unfinished requests that do not belong to batches. */
  readonly #clients = new Set<string>()
  #reportedAt = -Infinity
  #cancelReport: (() => void) | undefined
  readonly #onIdle: (() => void)[] = []

  constructor(private readonly parts: SessionsParts) {
    this.#meter = new LoadMeter(parts.slots)
  }

  get state(): WorkerState {
    return this.#state
  }

  /** The number of requests that have not ended. */
  get open(): number {
    return [...this.#sessions.values()].reduce((sum, { size }) => sum + size, 0)
  }

  /** Its load now. */
  get load(): WorkerReport {
    return this.#meter.report(this.parts.clock.now())
  }

  /** Changes the state and reports it to all fronts at once; a worker that drains stays in that state. */
  enter(state: WorkerState): void {
    if (this.#state === state || this.#state === 'draining') return
    this.#state = state
    this.#report()
  }

  /** Drains, and asks all fronts to continue their requests at other workers. */
  migrate(): void {
    this.#state = 'draining'
    this.#isMigrating = true
    this.#report()
  }

  /** Serves a front over this channel until it closes. */
  accept(front: string, channel: NamedChannel<FromWorker, ToWorker>): void {
    const { clock, client } = this.parts
    const session = new FrontSession(front, channel, client, {
      onPlaced: (own, { placement, routed, request }) => {
        this.#meter.onPlaced({ ...routed, id: own }, front, placement, clock.now())
        if (!isOfBatch(request)) this.#clients.add(own)
        // Reported at once, so that requests of batches make room.
        if (this.#clients.size === 1 && this.open > 1) this.#report()
        else this.#reportSoon()
      },
      onEvent: (request, event) => {
        if (this.#meter.onEvent(request, event, clock.now())) this.#reportSoon()
        if (event.type !== 'end' && event.type !== 'error') return
        if (this.#clients.delete(request)) this.#reportSoon()
        this.#checkIdle()
      },
    })
    this.#sessions.set(channel.id, session)
    session.tell(this.#news())
  }

  /** Forgets a front's closed channel; the front may have another one by now. */
  forget(front: string, channel: string): void {
    const session = this.#sessions.get(channel)
    this.#sessions.delete(channel)
    const isBack = [...this.#sessions.values()].some((other) => other.front === front)
    if (!isBack) this.#meter.forget(front)
    if ((session?.size ?? 0) > 0) this.parts.logger.warn({ link: channel }, 'a front is gone')
    this.#checkIdle()
  }

  /** Resolves when no requests are in progress. */
  async idle(): Promise<void> {
    if (this.open > 0) await new Promise<void>((resolve) => void this.#onIdle.push(resolve))
  }

  /** Closes all channels: requests in progress go on at other workers. */
  close(reason: string): void {
    this.#cancelReport?.()
    for (const session of this.#sessions.values()) session.close(reason)
  }

  #checkIdle(): void {
    if (this.open === 0) for (const resolve of this.#onIdle.splice(0)) resolve()
  }

  #reportSoon(): void {
    if (this.#cancelReport !== undefined) return
    const { clock } = this.parts
    const at = Math.max(clock.now(), this.#reportedAt + reportMs)
    this.#cancelReport = clock.at(at, () => this.#report())
  }

  #report(): void {
    this.#cancelReport?.()
    this.#cancelReport = undefined
    this.#reportedAt = this.parts.clock.now()
    const news = this.#news()
    for (const session of this.#sessions.values()) session.tell(news)
  }

  #news(): WorkerNews {
    const migrating = this.#isMigrating ? { isMigrating: true as const } : {}
    const clients = this.#clients.size
    return { type: 'report', state: this.#state, report: this.load, clients, ...migrating }
  }
}
