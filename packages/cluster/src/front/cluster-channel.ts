import type { Channel, FromEngine, RecordingParts, ToEngine } from '@cllm/host'
import { RemoteEngineClient, writeRecording } from '@cllm/host'
import { CllmError, failureOf, type Recording } from '@cllm/core'
import { LinkEnd, type NamedChannel } from '../link/link.js'
import type { StepEvents, FromWorker, ToWorker, WorkerRecord } from '../messages.js'
import { isSameModel, type Member, Members, type IncompatibleWorker } from './members.js'
import { Placing, type PlacingCounts, type PlacingParts } from './placing/placing.js'
import { type Sleep, sleepless } from './sleep-watch.js'
import { WorkerCalls } from './calls/worker-calls.js'

/** What a {@link ClusterChannel} is made of. */
export interface ClusterChannelParts extends Omit<PlacingParts, 'members' | 'publish' | 'sleep'> {
  /** The front's name. */
  readonly front: string
  /** Messages that the front has refused so far; default: it gets none. */
  readonly refusedMessages?: () => number
  /** Workers of the model whose version does not go with this front's; default: there are none. */
  readonly incompatible?: () => readonly IncompatibleWorker[]
  /** Default: the front is never stopped. */
  readonly sleep?: Sleep
}

/** The workers of one model as the channel to one engine. */
export class ClusterChannel extends LinkEnd<FromEngine> implements Channel<ToEngine, FromEngine> {
  readonly #members: Members
  readonly #placing: Placing
  readonly #calls: WorkerCalls
  #isReady = false

  constructor(private readonly parts: ClusterChannelParts) {
    super()
    const { sleep = sleepless, refusedMessages = () => 0 } = parts
    this.#members = new Members(parts.front, parts.clock, parts.incompatible)
    this.#placing = new Placing({
      ...parts,
      sleep,
      members: this.#members,
      publish: (events) => this.tell({ type: 'events', events }),
    })
    this.#calls = new WorkerCalls(this.#members, this.#placing, {
      ...parts,
      sleep,
      refusedMessages,
      answer: (answer) => this.tell(answer),
    })
  }

  /** The workers, with what they reported. */
  get members(): readonly Member[] {
    return this.#members.all
  }

  /** Placements and moves so far. */
  get counts(): PlacingCounts {
    return this.#placing.counts
  }

  send(message: ToEngine): void {
    if (message.type === 'submit') this.#submit(message)
    else if (message.type === 'cancel') this.#placing.cancel(message.id, message.reason)
    else if (message.type === 'leave') this.#calls.leave(message.call)
    else if (message.name === 'close') this.#close(message.call)
    else this.#calls.make(message)
  }

  /**
   * It has no end of its own, as workers come and go. Now none will come any more: all that is under way fails with
   * `engine_unavailable`.
   */
  end(reason: string): void {
    this.tellClosed(reason)
  }

  /** What waits for a worker has its turn. */
  retry(): void {
    this.#placing.retry()
    this.#calls.retry()
  }

  /** A worker is there. */
  join(record: WorkerRecord, link: NamedChannel<ToWorker, FromWorker>): void {
    const { id: worker, info } = record
    const other = this.members.find((one) => !isSameModel(one.record.info.model, info.model))
    if (other !== undefined) {
      const about = { worker, other: other.record.id, model: info.model.id }
      this.parts.logger.warn(about, 'workers serve different models under one name')
    }
    const member = this.#members.add(record, link)
    link.onMessage((message) => this.#receive(member, message))
    link.onClose((reason) => this.#onLost(member, reason))
    link.send({ type: 'hello', front: this.parts.front })
  }

  #receive(member: Member, message: FromWorker): void {
    if (isStep(message)) this.#placing.onEvents(member, message)
    else if (message.type === 'report') {
      const { state: before } = member
      this.#members.onReport(member, message)
      if (message.state === 'restarting' && before !== 'restarting') {
        this.#placing.onRestarting(member.record.id)
      }
      if (!this.#isReady) this.tell({ type: 'ready', info: member.record.info })
      this.#isReady = true
      if (message.clients > 0) this.#placing.onClients(member.record.id)
      this.retry()
      // A worker that has just come may take what others want to be rid of.
      for (const { record, isMigrating } of this.#members.all) {
        if (isMigrating) this.#placing.onMigrating(record.id)
      }
    } else this.#calls.onAnswer(member, message)
  }

  #onLost(member: Member, reason: string): void {
    const { record, state } = member
    const { id } = record
    if (this.#members.get(id) !== member) return
    this.#members.delete(id)
    if (this.closed !== undefined) return
    const about = { worker: id, reason, requests: this.#placing.onLost(id) }
    const isIdle = about.requests === 0
    if (state === 'draining' && isIdle) this.parts.logger.info(about, 'a worker has left')
    else this.parts.logger.warn(about, 'a worker is lost')
    this.#calls.onLost(id)
    // What waited for it alone has its patience now.
    this.#placing.retry()
  }

  #submit({ id, request }: ToEngine & { readonly type: 'submit' }): void {
    if (this.closed === undefined) return this.#placing.submit(id, request)
    const error = new CllmError('shutting_down', 'The server takes no new requests')
    this.tell({ type: 'events', events: [{ id, event: failureOf(error) }] })
  }

  /** The front's end: the workers go on for others. */
  #close(call: number): void {
    this.closed = 'the front is closed'
    const error = new CllmError('shutting_down', 'The server is shutting down')
    this.#placing.failAll(error)
    this.#calls.failAll(error)
    for (const { link } of this.#members.all) link.close('the front is closed')
    this.tell({ type: 'result', call, value: null })
  }
}

const isStep = (message: FromWorker): message is StepEvents => Array.isArray(message)

/**
 * The workers of a cluster that serve one model, as one engine. Each request goes to the worker that the
 * router names. When a worker dies, drains to its end or is cut off, its requests go on at another one
 * after the last token that their clients have: no token is lost, repeated or, on a worker of the same
 * fingerprint, changed. Draining and closing end the client and no worker.
 */
export class ClusterEngineClient extends RemoteEngineClient {
  /** The workers behind it. */
  readonly workers: ClusterChannel

  constructor(parts: ClusterChannelParts) {
    const workers = new ClusterChannel(parts)
    super(workers, parts.random)
    this.workers = workers
  }

  /** What the flight recorders of all workers have. Throws `unsupported` where they are off. */
  async recording(): Promise<Recording> {
    return writeRecording(await this.recordingParts())
  }

  /** What {@link recording} is made of: it may be put together with others. */
  async recordingParts(): Promise<RecordingParts> {
    return (await this.forward('recordingParts', [])) as RecordingParts
  }
}
