import type { Clock, Logger, RouterPolicy, Services } from '@cllm/core'
import { entryOf, silentLogger, systemClock, systemRandom } from '@cllm/core'
import { createRouter } from '@cllm/scheduler'
import { type ClusterBus, frontMailbox, workerMailbox } from '../bus/cluster-bus.js'
import { wrongFromWorker } from '../link/check-messages.js'
import { readEnvelope, writeEnvelope } from '../link/envelope.js'
import { defaultLinkTimes, Link, type LinkTimes } from '../link/link.js'
import type { FromWorker, ToWorker, WorkerRecord } from '../messages.js'
import { PresenceWatch } from './presence-watch.js'
import { type IncompatibleWorker, readRecord, whyIncompatible } from './members.js'
import { SleepWatch } from './sleep-watch.js'
import { ClusterEngineClient } from './cluster-channel.js'
import { defaultPlacingOptions, type PlacingOptions } from './placing/placing.js'

/** The parts of a front; all but the bus and the id have defaults. */
export interface ClusterFrontParts extends Partial<Services> {
  /** An id that is never used twice in the cluster. */
  readonly id: string
  readonly bus: ClusterBus
  /** Makes the router of each model. Default: `prefix-wait`. */
  readonly router?: () => RouterPolicy
  readonly times?: Partial<LinkTimes>
  readonly options?: Partial<PlacingOptions>
}

/** The link's id in envelopes that a front sends to itself. */
const echo = 'echo'

/** The interval in milliseconds at which the list of members is read. */
const watchMs = 500

/** A front of a cluster: it finds the workers, and has a client for each of their models. */
export class ClusterFront {
  /** The number of messages that no worker of this cluster can have sent, or that were for ended links. */
  refusedMessages = 0
  /** Listed workers with another version of the cluster protocol. */
  incompatible: readonly IncompatibleWorker[] = []
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #times: LinkTimes
  readonly #clients = new Map<string, ClusterEngineClient>()
  readonly #links = new Map<string, Link<ToWorker, FromWorker>>()
  /** The links by worker. */
  readonly #linked = new Map<string, Link<ToWorker, FromWorker>>()
  /** Workers that count as dead, with their records in the list since then; undefined: not read since. */
  readonly #dead = new Map<string, string | undefined>()
  readonly #presence: PresenceWatch
  readonly #sleep: SleepWatch
  #count = 0
  #isClosed = false
  #cancelWatch: () => void = () => {}

  constructor(private readonly parts: ClusterFrontParts) {
    this.#clock = parts.clock ?? systemClock
    this.#logger = parts.logger ?? silentLogger
    this.#times = { ...defaultLinkTimes, ...parts.times }
    this.#presence = new PresenceWatch(parts.bus, this.#clock, {
      ids: () => [...this.#linked.keys()],
      onGone: (id) => this.#linked.get(id)?.close('its connection has ended', true),
    })
    const own = frontMailbox(parts.id)
    this.#sleep = new SleepWatch({
      clock: this.#clock,
      leastMs: this.#times.silenceMs,
      // Workers may have closed their links meanwhile, with messages that are still in the mailbox.
      onWake: (ms) => this.#logger.warn({ ms: Math.round(ms) }, 'this process was stopped'),
      send: (n) => parts.bus.send(own, writeEnvelope(echo, n)),
      onCaughtUp: () => this.#onCaughtUp(),
    })
  }

  /** The names of the models that workers serve or have served, in order of their appearance. */
  get models(): readonly string[] {
    return [...this.#clients.keys()]
  }

  /**
   * Opens the mailbox and finds the present workers.
   *
   * @throws `cluster_unavailable`
   */
  async start(): Promise<void> {
    const { bus, id } = this.parts
    const own = frontMailbox(id)
    await bus.check?.(own)
    bus.listen(own, (text) => this.#receive(text))
    await this.#look()
    // The watch of the workers' processes would never tell that it lacks a right.
    await bus.present?.([])
    this.#watch()
    this.#presence.start()
    this.#sleep.start()
  }

  /** The client of a model, which may have no worker yet. */
  client(model: string): ClusterEngineClient {
    const { id, router = () => createRouter(), random = systemRandom } = this.parts
    const make = () =>
      new ClusterEngineClient({
        front: id,
        router: router(),
        clock: this.#clock,
        random,
        refusedMessages: () => this.refusedMessages,
        incompatible: () => this.incompatible.filter((one) => one.model === model),
        logger: this.#logger,
        options: { ...defaultPlacingOptions, ...this.parts.options },
        sleep: this.#sleep,
      })
    return entryOf(this.#clients, model, make)
  }

  /** Ends all requests and links. The bus stays open. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelWatch()
    this.#presence.close()
    this.#sleep.close()
    await Promise.all([...this.#clients.values()].map(async (client) => await client.close()))
    for (const link of this.#links.values()) link.close('the front is closed')
  }

  /** Goes on with waiting requests, after the messages from the time of a suspension have been read. */
  #onCaughtUp(): void {
    for (const client of this.#clients.values()) client.workers.retry()
    // Workers that closed their links are linked again at once.
    this.#look().catch(() => {})
  }

  #watch(): void {
    this.#cancelWatch = this.#clock.at(this.#clock.now() + watchMs, () => {
      this.#look()
        .catch((error: unknown) => this.#logger.debug({ err: error }, 'the members are unknown'))
        .finally(() => {
          if (!this.#isClosed) this.#watch()
        })
    })
  }

  /** Opens links to new workers. The end of a worker is noticed by its link. */
  async #look(): Promise<void> {
    // Taken before the query: a worker that dies during it is missing in the answer as known, not as gone.
    const dead = [...this.#dead.keys()]
    const members = await this.parts.bus.members((id) => this.#linked.has(id))
    if (this.#isClosed) return
    const incompatible: IncompatibleWorker[] = []
    for (const [id, text] of members) {
      if (this.#linked.has(id) || this.#isDead(id, text)) continue
      const record = readRecord(id, text)
      if (record?.kind === 'worker') this.#link(record)
      else if (record !== undefined) incompatible.push(record)
    }
    for (const id of dead) if (!members.has(id)) this.#dead.delete(id)
    this.#tellOf(incompatible)
  }

  /** Whether a listed worker is dead: it stays on the list for seconds, and is alive once it lists itself again. */
  #isDead(id: string, record: string): boolean {
    if (!this.#dead.has(id)) return false
    const before = this.#dead.get(id) ?? record
    if (before !== record) return !this.#dead.delete(id)
    this.#dead.set(id, record)
    return true
  }

  /** Logs each worker of another version once. */
  #tellOf(incompatible: readonly IncompatibleWorker[]): void {
    const known = new Set(this.incompatible.map(({ id }) => id))
    const fresh = incompatible.filter(({ id }) => !known.has(id))
    this.incompatible = incompatible
    if (fresh.length > 0) this.#logger.error({ workers: fresh }, whyIncompatible(fresh))
  }

  #receive(text: string): void {
    const envelope = readEnvelope<FromWorker>(text, wrongFromWorker)
    if ('refused' in envelope) return this.#refuse(envelope.refused)
    if ('order' in envelope) return this.#refuse('it is an order to a worker')
    if (envelope.link === echo) return this.#sleep.hear(envelope.number)
    const link = this.#links.get(envelope.link)
    if (link === undefined) this.#refuse('it belongs to no link')
    else link.receive(envelope)
  }

  #refuse(reason: string): void {
    this.refusedMessages++
    this.#logger.debug({ reason }, 'a message is refused')
  }

  #link(record: WorkerRecord): void {
    const { bus, id: front } = this.parts
    const id = `${front}/${++this.#count}`
    const mailbox = workerMailbox(record.id)
    const link = new Link<ToWorker, FromWorker>({
      id,
      clock: this.#clock,
      times: this.#times,
      send: (envelope) => bus.send(mailbox, envelope),
      isReachable: () => bus.isReachable,
      onEnd: (isSilent) => {
        this.#links.delete(id)
        this.#linked.delete(record.id)
        if (isSilent) this.#dead.set(record.id, undefined)
      },
    })
    this.#links.set(id, link)
    this.#linked.set(record.id, link)
    this.client(record.info.model.id).workers.join(record, link)
  }
}
