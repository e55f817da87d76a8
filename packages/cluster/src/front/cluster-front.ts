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

/** What a front is made of; all but the bus and the id have defaults. */
export interface ClusterFrontParts extends Partial<Services> {
  /** Unique in the cluster and in time. */
  readonly id: string
  readonly bus: ClusterBus
  /** Makes the router of each model. Default: `prefix-wait`. */
  readonly router?: () => RouterPolicy
  readonly times?: Partial<LinkTimes>
  readonly options?: Partial<PlacingOptions>
}

/** What the envelopes that it sends itself have in place of a link. */
const echo = 'echo'

/** Milliseconds between two looks at the list of members. */
const watchMs = 500

/** A front of a cluster: it finds the workers and has a client for each of their models. */
export class ClusterFront {
  /** Messages that no worker of this cluster can have sent, and those of links that have ended. */
  refusedMessages = 0
  /** Workers that are listed and whose version does not go with this front's. */
  incompatible: readonly IncompatibleWorker[] = []
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #times: LinkTimes
  readonly #clients = new Map<string, ClusterEngineClient>()
  readonly #links = new Map<string, Link<ToWorker, FromWorker>>()
  /** The links by their workers. */
  readonly #linked = new Map<string, Link<ToWorker, FromWorker>>()
  /** The list's records of workers that are taken for dead; undefined: not read since. */
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
      // Workers may have given this front up meanwhile, and say so in its mailbox.
      onWake: (ms) => this.#logger.warn({ ms: Math.round(ms) }, 'this process was stopped'),
      send: (n) => parts.bus.send(own, writeEnvelope(echo, n)),
      onCaughtUp: () => this.#onCaughtUp(),
    })
  }

  /** The names of the models that workers serve or served, the first one first. */
  get models(): readonly string[] {
    return [...this.#clients.keys()]
  }

  /**
   * Opens the mailbox and finds the workers that are there.
   *
   * @throws `cluster_unavailable`
   */
  async start(): Promise<void> {
    const { bus, id } = this.parts
    const own = frontMailbox(id)
    await bus.check?.(own)
    bus.listen(own, (text) => this.#receive(text))
    await this.#look()
    this.#watch()
    this.#presence.start()
    this.#sleep.start()
  }

  /** The client of a model, which need not have a worker yet. */
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

  /** Ends what is under way, and the links. The bus stays open. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelWatch()
    this.#presence.close()
    this.#sleep.close()
    await Promise.all([...this.#clients.values()].map(async (client) => await client.close()))
    for (const link of this.#links.values()) link.close('the front is closed')
  }

  /** What waited until it was read what came while this process was stopped. */
  #onCaughtUp(): void {
    for (const client of this.#clients.values()) client.workers.retry()
    // Workers that had given this front up are linked again at once.
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

  /** Links to the workers that are new. Those that go are noticed by their links. */
  async #look(): Promise<void> {
    // Who dies while the answer is on its way is not in it, as it was known.
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

  /** A worker stays on the list for seconds after its death: it lives once it has listed itself again. */
  #isDead(id: string, record: string): boolean {
    if (!this.#dead.has(id)) return false
    const before = this.#dead.get(id) ?? record
    if (before !== record) return !this.#dead.delete(id)
    this.#dead.set(id, record)
    return true
  }

  /** Workers of other versions are told of once. */
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
