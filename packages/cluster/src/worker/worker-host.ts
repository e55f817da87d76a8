import type { Clock, EngineClient, EngineInfo, Logger, Services } from '@cllm/core'
import { CllmError, silentLogger, systemClock } from '@cllm/core'
import { type ClusterBus, frontMailbox, workerMailbox } from '../bus/cluster-bus.js'
import { wrongToWorker } from '../link/check-messages.js'
import { type Envelope, protocol, readEnvelope } from '../link/envelope.js'
import { defaultLinkTimes, Link, type LinkTimes } from '../link/link.js'
import type { FromWorker, ToWorker, WorkerRecord } from '../messages.js'
import { WorkerSessions } from './worker-sessions.js'

/** The parts of a worker. */
export interface WorkerParts extends Partial<Pick<Services, 'clock' | 'logger'>> {
  /** An id that is never used twice in the cluster: a restarted worker has another one. */
  readonly id: string
  readonly bus: ClusterBus
  readonly client: EngineClient
  readonly info: EngineInfo
  /** The fingerprint of `WorkerRecord`. */
  readonly fingerprint: string
  /** The machine's name, for people. */
  readonly host: string
  /** The times of its links. Default: {@link defaultLinkTimes}, but a front counts as dead after 5 s. */
  readonly times?: Partial<LinkTimes>
}

/** The interval in milliseconds at which a worker lists itself; `leaseMs`: for how long an entry lasts. */
const listMs = 1000
const leaseMs = 5 * listMs
/** The most ended links that are remembered. */
const mostEnded = 1000

/** Serves one engine to the fronts of a cluster. */
export class WorkerHost {
  /** Resolves when it is told to drain, by this process or by an order. */
  readonly drained: Promise<void>
  /** The number of messages that no front of this cluster can have sent, or that were for ended links. */
  refusedMessages = 0
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #times: LinkTimes
  readonly #sessions: WorkerSessions
  readonly #links = new Map<string, Link<FromWorker, ToWorker>>()
  /** The ids of the latest ended links, which a repeated envelope must not open again. */
  readonly #ended = new Set<string>()
  #cancelLease: () => void = () => {}
  /** Whether the last listing failed, which is logged once. */
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

  /** The number of requests that have not ended. */
  get open(): number {
    return this.#sessions.open
  }

  /**
   * Opens its mailbox, and adds the worker to the list of members.
   *
   * @throws `cluster_unavailable`, also if another worker has its id
   */
  async start(): Promise<void> {
    const { bus, id } = this.parts
    const mailbox = workerMailbox(id)
    // Two workers on one mailbox would both answer its messages.
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
   * Notes that its engine is being started again, or is back. Meanwhile it takes no new requests, and requests
   * with tokens go on at other workers.
   */
  setRestarting(isRestarting: boolean): void {
    this.#sessions.enter(isRestarting ? 'restarting' : 'up')
  }

  /**
   * Takes no new requests; resolves when the last one has ended.
   *
   * @param migrate whether requests go on at other workers at once, if those can continue them exactly
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

  /** Leaves the cluster: its requests go on at other workers. The bus stays open. */
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

  /** Counts a refused message, also one for an ended link. */
  #refuse(reason: string): void {
    this.refusedMessages++
    this.#logger.debug({ reason }, 'a message is refused')
  }

  /** The link of an envelope; a link's first envelope opens it. */
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

  /** Its current record for the list of members. */
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
