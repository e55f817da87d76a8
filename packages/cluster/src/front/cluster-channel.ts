import type { Channel, FromEngine, RecordingParts, ToEngine } from '@cllm/host'
import { RemoteEngineClient, writeRecording } from '@cllm/host'
import { CllmError, failureOf, type Recording } from '@cllm/core'
import { LinkEnd, type NamedChannel } from '../link/link.js'
import type { StepEvents, FromWorker, ToWorker, WorkerRecord } from '../messages.js'
import { isSameModel, type Member, Members, type IncompatibleWorker } from './members.js'
import { Placing, type PlacingCounts, type PlacingParts } from './placing/placing.js'
import { type Sleep, sleepless } from './sleep-watch.js'
import { WorkerCalls } from './calls/worker-calls.js'

/** The parts of a {@link ClusterChannel}. */
export interface ClusterChannelParts extends Omit<PlacingParts, 'members' | 'publish' | 'sleep'> {
  /** The front's name. */
  readonly front: string
  /** The number of messages that the front has refused; default: 0. */
  readonly refusedMessages?: () => number
  /** Workers of the model with another version of the cluster protocol; default: none. */
  readonly incompatible?: () => readonly IncompatibleWorker[]
  /** The times when the front was suspended; default: never. */
  readonly sleep?: Sleep
}

/** The workers of one model, as the channel to a single engine. */
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

  /** The workers with their last reports. */
  get members(): readonly Member[] {
    return this.#members.all
  }

  /** The number of placements and moves so far. */
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
   * Closes the channel, which does not end by itself, as workers come and go: no more workers will come, and all
   * requests in progress fail with `engine_unavailable`.
   */
  end(reason: string): void {
    this.tellClosed(reason)
  }

  /** Tries again to place waiting requests and calls. */
  retry(): void {
    this.#placing.retry()
    this.#calls.retry()
  }

  /** Adds a worker. */
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
        this.#placing.onRestarting(member)
      }
      if (!this.#isReady) this.tell({ type: 'ready', info: member.record.info })
      this.#isReady = true
      if (message.clients > 0) this.#placing.onClients(member)
      this.retry()
      // A new worker may take the requests of workers that are migrating theirs.
      for (const one of this.#members.all) if (one.isMigrating) this.#placing.onMigrating(one)
    } else this.#calls.onAnswer(member, message)
  }

  #onLost(member: Member, reason: string): void {
    const { record, state } = member
    const { id } = record
    if (this.#members.get(id) !== member) return
    this.#members.delete(id)
    if (this.closed !== undefined) return
    const about = { worker: id, reason, requests: this.#placing.onLost(member) }
    const isIdle = about.requests === 0
    if (state === 'draining' && isIdle) this.parts.logger.info(about, 'a worker has left')
    else this.parts.logger.warn(about, 'a worker is lost')
    this.#calls.onLost(id)
    // Requests that only this worker could take have a limited wait from now on.
    this.#placing.retry()
  }

  #submit({ id, request }: ToEngine & { readonly type: 'submit' }): void {
    if (this.closed === undefined) return this.#placing.submit(id, request)
    const error = new CllmError('shutting_down', 'The server takes no new requests')
    this.tell({ type: 'events', events: [{ id, event: failureOf(error) }] })
  }

  /** Ends the front; the workers go on for others. */
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
 * router chooses. When a worker dies, ends its draining or is cut off, its requests go on at another one
 * after the last token that their clients have: no token is lost, repeated or, on a worker with the same
 * fingerprint, changed. Draining and closing end the client but no worker.
 */
export class ClusterEngineClient extends RemoteEngineClient {
  /** The workers behind it. */
  readonly workers: ClusterChannel

  constructor(parts: ClusterChannelParts) {
    const workers = new ClusterChannel(parts)
    super(workers, parts.random)
    this.workers = workers
  }

  /** The content of all workers' flight recorders. Throws `unsupported` if they are off. */
  async recording(): Promise<Recording> {
    return writeRecording(await this.recordingParts())
  }

  /** The parts of {@link recording}, which can be merged with others. */
  async recordingParts(): Promise<RecordingParts> {
    return (await this.forward('recordingParts', [])) as RecordingParts
  }
}
