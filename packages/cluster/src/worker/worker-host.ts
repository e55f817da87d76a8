import {
  type Clock,
  type EngineClient,
  type EngineInfo,
  type Logger,
  silentLogger,
  systemClock,
} from '@cllm/core'
import { LoadMeter } from '@cllm/scheduler'
import { type ClusterBus, frontMailbox, workerMailbox } from '../bus/cluster-bus.js'
import { defaultLinkTimes, Link, type LinkLetter, type LinkTimes } from '../link/link.js'
import type { FromWorker, ToWorker, WorkerOrder, WorkerRecord, WorkerState } from '../messages.js'
import { FrontSession } from './front-session.js'

/** What a worker is made of. */
export interface WorkerParts {
  /** Unique in the cluster and in time: a worker that starts again has another one. */
  readonly id: string
  readonly bus: ClusterBus
  readonly client: EngineClient
  readonly info: EngineInfo
  /** See `WorkerRecord`. */
  readonly fingerprint: string
  /** The machine's name, for people. */
  readonly host: string
  /** Default: a front that is silent for 5 s is gone. */
  readonly times?: Partial<LinkTimes>
  readonly clock?: Clock
  readonly logger?: Logger
}

/** Milliseconds between two reports at most, and at least while something changes. */
const reportMs = { idle: 1000, busy: 50 }

/** Serves one engine to the fronts of a cluster. */
export class WorkerHost {
  /** Resolves when it was told to drain, by whomever. */
  readonly drained: Promise<void>
  #state: WorkerState = 'up'
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #times: LinkTimes
  readonly #sessions = new Map<string, FrontSession>()
  readonly #meter: LoadMeter
  #reportedAt = -Infinity
  #cancelReport: (() => void) | undefined
  #cancelLease: () => void = () => {}
  #onDrain: () => void = () => {}
  #onIdle: () => void = () => {}

  constructor(private readonly parts: WorkerParts) {
    this.#clock = parts.clock ?? systemClock
    this.#logger = parts.logger ?? silentLogger
    this.#times = { ...defaultLinkTimes, silenceMs: 5000, ...parts.times }
    this.#meter = new LoadMeter(parts.info.limits.slots)
    this.drained = new Promise((resolve) => (this.#onDrain = resolve))
  }

  /** Requests on it that have not ended. */
  get open(): number {
    return [...this.#sessions.values()].reduce((sum, { size }) => sum + size, 0)
  }

  /**
   * Opens its mailbox and lists it.
   *
   * @throws `cluster_unavailable`
   */
  async start(): Promise<void> {
    this.parts.bus.listen(workerMailbox(this.parts.id), (letter) => this.#receive(letter))
    await this.#announce()
    this.#keepLease()
  }

  /** Takes no new requests; resolves when the last one has ended. */
  async drain(): Promise<void> {
    if (this.#state === 'up') {
      this.#state = 'draining'
      this.#onDrain()
      this.#report()
      await this.#announce().catch(() => {})
    }
    if (this.open > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
  }

  /** Leaves the cluster: what is on it goes on elsewhere. The bus stays open. */
  async close(): Promise<void> {
    this.#cancelLease()
    this.#cancelReport?.()
    for (const session of this.#sessions.values()) session.close('the worker is closed')
    await this.parts.bus.withdraw(this.parts.id)
  }

  #receive(text: string): void {
    const letter = JSON.parse(text) as LinkLetter | WorkerOrder
    if ('order' in letter) return void this.drain()
    this.#sessionOf(letter)?.receive(letter)
  }

  readonly #links = new Map<string, Link<FromWorker, ToWorker>>()

  /** The link of a letter; it begins with its first one. */
  #sessionOf({ l: id, n, b }: LinkLetter): Link<FromWorker, ToWorker> | undefined {
    const known = this.#links.get(id)
    if (known !== undefined) return known
    const hello = b as ToWorker | undefined
    if (n !== 1 || hello?.type !== 'hello') return undefined
    const { bus } = this.parts
    const mailbox = frontMailbox(hello.front)
    const link = new Link<FromWorker, ToWorker>({
      id,
      clock: this.#clock,
      times: this.#times,
      post: (letter) => bus.post(mailbox, letter),
      isReachable: () => bus.isReachable,
      onEnd: () => this.#forget(id),
    })
    this.#links.set(id, link)
    const session = new FrontSession(link, this.parts.client, {
      onPlaced: (request, { placement, routed }) => {
        this.#meter.onPlaced({ ...routed, id: request }, hello.front, placement, this.#clock.now())
        this.#reportSoon()
      },
      onEvent: (request, event) => {
        if (this.#meter.onEvent(request, event, this.#clock.now())) this.#reportSoon()
        if (event.type === 'end' || event.type === 'error') this.#checkIdle()
      },
    })
    this.#sessions.set(id, session)
    session.send({
      type: 'report',
      state: this.#state,
      report: this.#meter.report(this.#clock.now()),
    })
    return link
  }

  #forget(id: string): void {
    this.#links.delete(id)
    const session = this.#sessions.get(id)
    this.#sessions.delete(id)
    const [front = ''] = id.split('/')
    this.#meter.forget(front)
    if ((session?.size ?? 0) > 0) this.#logger.warn({ link: id }, 'a front is gone')
    this.#checkIdle()
  }

  #checkIdle(): void {
    if (this.open === 0) this.#onIdle()
  }

  #reportSoon(): void {
    if (this.#cancelReport !== undefined) return
    const at = Math.max(this.#clock.now(), this.#reportedAt + reportMs.busy)
    this.#cancelReport = this.#clock.at(at, () => this.#report())
  }

  #report(): void {
    this.#cancelReport?.()
    this.#cancelReport = undefined
    this.#reportedAt = this.#clock.now()
    const report = this.#meter.report(this.#clock.now())
    for (const session of this.#sessions.values()) {
      session.send({ type: 'report', state: this.#state, report })
    }
  }

  #keepLease(): void {
    this.#cancelLease = this.#clock.at(this.#clock.now() + reportMs.idle, () => {
      this.#announce().catch((error: unknown) => {
        this.#logger.warn({ err: error }, 'the worker cannot be listed in the cluster')
      })
      this.#keepLease()
    })
  }

  async #announce(): Promise<void> {
    const { id, bus, info, fingerprint, host } = this.parts
    const { slots, open, openTokens, backlogTokens, tokenMs } = this.#meter.report(
      this.#clock.now(),
    )
    const load = { slots, open, openTokens, backlogTokens, ...(tokenMs && { tokenMs }) }
    const record: WorkerRecord = {
      kind: 'worker',
      id,
      state: this.#state,
      info,
      fingerprint,
      host,
      load,
    }
    await bus.announce(id, JSON.stringify(record), 5 * reportMs.idle)
  }
}
