import type { Clock, EngineClient, EngineInfo, Logger } from '@cllm/core'
import { CllmError, silentLogger, systemClock } from '@cllm/core'
import { type ClusterBus, frontMailbox, workerMailbox } from '../bus/cluster-bus.js'
import { wrongToWorker } from '../link/check-messages.js'
import { type Envelope, protocol, readEnvelope } from '../link/envelope.js'
import { defaultLinkTimes, Link, type LinkTimes } from '../link/link.js'
import type { FromWorker, ToWorker, WorkerRecord } from '../messages.js'
import { WorkerSessions } from './worker-sessions.js'

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

/** Milliseconds between two listings, and for which one counts. */
const listMs = 1000
const leaseMs = 5 * listMs
/** Links that have ended and are remembered. */
const mostEnded = 1000

/** Serves one engine to the fronts of a cluster. */
export class WorkerHost {
  /** Resolves when it was told to drain, by whomever. */
  readonly drained: Promise<void>
  /** Messages that no front of this cluster can have sent, and those of links that have ended. */
  refusedMessages = 0
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #times: LinkTimes
  readonly #sessions: WorkerSessions
  readonly #links = new Map<string, Link<FromWorker, ToWorker>>()
  /** Those that have ended last: what came twice must not open one again. */
  readonly #ended = new Set<string>()
  #cancelLease: () => void = () => {}
  /** Whether it could not be listed when it tried last: that is told once. */
  #isUnlisted = false
  #onDrain: () => void = () => {}

  constructor(private readonly parts: WorkerParts) {
    const { client, info, clock = systemClock, logger = silentLogger } = parts
    this.#clock = clock
    this.#logger = logger
    this.#times = { ...defaultLinkTimes, silenceMs: 5000, ...parts.times }
    const { slots } = info.limits
    this.#sessions = new WorkerSessions({ client, slots, clock, logger })
    this.drained = new Promise((resolve) => (this.#onDrain = resolve))
  }

  /** Requests on it that have not ended. */
  get open(): number {
    return this.#sessions.open
  }

  /**
   * Opens its mailbox and lists it.
   *
   * @throws `cluster_unavailable`, also where another worker has its id
   */
  async start(): Promise<void> {
    const { bus, id } = this.parts
    const mailbox = workerMailbox(id)
    // Two that read one mailbox would both answer what is in it.
    if ((await bus.claim?.(id, this.#record(), leaseMs)) === false) {
      throw new CllmError('cluster_unavailable', `There is a worker with the id ${id} already`)
    }
    await bus.check?.(mailbox)
    bus.listen(mailbox, (envelope) => this.#receive(envelope))
    const unseen = 'the end of this process will only be noticed by its silence'
    await bus.appear?.(id).catch((err: unknown) => this.#logger.warn({ err }, unseen))
    await this.#announce()
    this.#keepLease()
  }

  /**
   * Its engine is started again, or is back: meanwhile it takes no new requests, and what had begun goes on
   * elsewhere.
   */
  setRestarting(isRestarting: boolean): void {
    this.#sessions.enter(isRestarting ? 'restarting' : 'up')
  }

  /**
   * Takes no new requests; resolves when the last one has ended.
   *
   * @param migrate whether they go on elsewhere at once, where another worker continues them exactly
   */
  async drain({ migrate = false }: { readonly migrate?: boolean } = {}): Promise<void> {
    const isNew = this.#sessions.state !== 'draining'
    if (migrate) this.#sessions.migrate()
    else this.#sessions.enter('draining')
    if (isNew) {
      this.#onDrain()
      await this.#announce().catch(() => {})
    }
    await this.#sessions.idle()
  }

  /** Leaves the cluster: what is on it goes on elsewhere. The bus stays open. */
  async close(): Promise<void> {
    this.#cancelLease()
    this.#sessions.close('the worker is closed')
    await this.parts.bus.withdraw(this.parts.id)
  }

  #receive(text: string): void {
    const envelope = readEnvelope<ToWorker>(text, wrongToWorker)
    if ('refused' in envelope) return this.#refuse(envelope.refused)
    if ('order' in envelope) return void this.drain(envelope)
    const link = this.#linkOf(envelope)
    if (link === undefined) this.#refuse('it belongs to no link')
    else link.receive(envelope)
  }

  /** What links that have ended still say is refused, too. */
  #refuse(reason: string): void {
    this.refusedMessages++
    this.#logger.debug({ reason }, 'a message is refused')
  }

  /** The link of an envelope; it begins with its first one. */
  #linkOf(envelope: Envelope<ToWorker>): Link<FromWorker, ToWorker> | undefined {
    const { link: id, number, message: hello } = envelope
    const known = this.#links.get(id)
    if (known !== undefined) return known
    if (number !== 1 || hello?.type !== 'hello' || this.#ended.has(id)) return undefined
    const { bus } = this.parts
    const { front } = hello
    const mailbox = frontMailbox(front)
    const link = new Link<FromWorker, ToWorker>({
      id,
      clock: this.#clock,
      times: this.#times,
      send: (envelope) => bus.send(mailbox, envelope),
      isReachable: () => bus.isReachable,
      onEnd: () => {
        this.#links.delete(id)
        this.#ended.add(id)
        const [oldest = ''] = this.#ended
        if (this.#ended.size > mostEnded) this.#ended.delete(oldest)
        this.#sessions.forget(front, id)
      },
    })
    this.#links.set(id, link)
    this.#sessions.accept(front, link)
    return link
  }

  #keepLease(): void {
    this.#cancelLease = this.#clock.at(this.#clock.now() + listMs, () => {
      this.#announce().then(
        () => (this.#isUnlisted = false),
        (error: unknown) => {
          const what = 'the worker cannot be listed in the cluster'
          if (!this.#isUnlisted) this.#logger.warn({ err: error }, what)
          this.#isUnlisted = true
        },
      )
      this.#keepLease()
    })
  }

  async #announce(): Promise<void> {
    await this.parts.bus.announce(this.parts.id, this.#record(), leaseMs)
  }

  /** What the list of members has of it now. */
  #record(): string {
    const { id, info, fingerprint, host } = this.parts
    const { state, load: all } = this.#sessions
    const { slots, open, openTokens, backlogTokens, tokenMs } = all
    const load = { slots, open, openTokens, backlogTokens, ...(tokenMs && { tokenMs }) }
    const about = { state, info, fingerprint, host, refusedMessages: this.refusedMessages, load }
    const listedAt = this.#clock.wall()
    const record: WorkerRecord = { kind: 'worker', protocol, id, ...about, listedAt }
    return JSON.stringify(record)
  }
}
