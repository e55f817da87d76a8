import { ClientClosedError } from '@redis/client'
import { type Logger, systemClock, pause } from '@cllm/core'
import type { createNodeRedisClient as CreateConnection, Queue, Worker } from 'bullmq'
import type { RedisBus } from '../bus/redis-bus.js'
import { isOfOldPrimary, unanswered } from '../bus/redis-client.js'

/** A job that one of several processes does. */
export interface Job<Data> {
  /** While the queue has a job with this id, no other one is added. */
  readonly id: string
  readonly data: Data
  /** Milliseconds that it waits at least. Default: 0. */
  readonly delayMs?: number
}

/**
 * Does a job; the signal fires when the queue is closed. A job that throws is retried. A job that returns
 * milliseconds is retried after this time, and gives its place to another one meanwhile.
 */
export type DoJob<Data> = (job: Job<Data>, signal: AbortSignal) => Promise<number | undefined>

type Connection = ReturnType<typeof CreateConnection>

/** Milliseconds without a heartbeat after which the process that does a job counts as dead. */
const lockMs = 5000
/** How often a job is retried after a failure or the death of its process; in effect without a limit. */
const mostTries = 1_000_000
const retryMs = 1000
/** Milliseconds before the queue reconnects when its server is no longer the primary. */
const moveMs = 200
/** The time limit of the socket, which is longer than the queue ever waits for a job in one command. */
const socketTimeoutMs = 20_000

/**
 * A queue of jobs on the cluster's server (BullMQ), which lasts as long as the server's data. Each job is done at
 * least once: if its process dies, by another one.
 */
export class JobQueue<Data> {
  #queue!: Queue
  #connection!: Connection
  /** The worker's own connection, on which it waits for jobs. */
  #waiting: Connection | undefined
  #worker: Worker | undefined
  #start: () => Promise<void> = async () => {}
  #isMoving = false
  readonly #closing = new AbortController()

  private constructor(
    private readonly name: string,
    private readonly parts: { readonly bus: RedisBus; readonly logger: Logger },
  ) {}

  /**
   * Opens a queue.
   *
   * @param name the part of its keys behind the cluster's prefix
   * @throws `cluster_unavailable`
   */
  static async open<Data>(bus: RedisBus, name: string, logger: Logger): Promise<JobQueue<Data>> {
    const queue = new JobQueue<Data>(name, { bus, logger })
    await queue.#connect().catch((error: unknown) => {
      throw unanswered(error)
    })
    return queue
  }

  /**
   * Adds jobs, unless the queue already has them.
   *
   * @throws `cluster_unavailable`
   */
  async add(jobs: readonly Job<Data>[]): Promise<void> {
    // Not in a transaction, which would fail on a server that has lost its scripts in a restart.
    const added = jobs.map(async ({ id, data, delayMs = 0 }) => {
      const job = await this.#queue.add(this.name, data, {
        jobId: id,
        delay: delayMs,
        attempts: mostTries,
        backoff: { type: 'fixed', delay: retryMs },
        removeOnComplete: true,
        removeOnFail: true,
      })
      // A job without an id is BullMQ's sign that the connection is closed.
      if (!job.id) throw new ClientClosedError()
    })
    await Promise.all(added).catch((error: Error) => {
      this.#onError(error)
      throw unanswered(error)
    })
  }

  /** Removes a job unless it is running. */
  async remove(id: string): Promise<void> {
    await this.#queue.remove(id)
  }

  /** Does jobs in this process, up to `concurrency` at a time. */
  async process(concurrency: number, run: DoJob<Data>): Promise<void> {
    const { bus, logger } = this.parts
    const { signal } = this.#closing
    const { DelayedError, Worker } = await import('bullmq')
    this.#start = async () => {
      const worker = new Worker(
        this.name,
        async (job, token) => {
          const ms = await run({ id: job.id ?? '', data: job.data as Data }, signal)
          if (ms === undefined) return
          await job.moveToDelayed(systemClock.wall() + ms, token)
          throw new DelayedError()
        },
        {
          connection: this.#connection,
          prefix: prefixOf(bus),
          concurrency,
          lockDuration: lockMs,
          stalledInterval: lockMs,
          maxStalledCount: mostTries,
        },
      )
      worker.on('error', (error) => this.#onError(error))
      worker.on('failed', (job, error) => logger.warn({ err: error, job: job?.id }, 'a job failed'))
      this.#worker = worker
      await worker.waitUntilReady()
    }
    this.#start().catch(async () => await this.#move())
  }

  /** Closes the queue; its running jobs are left to other processes. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#disconnect()
  }

  async #connect(): Promise<void> {
    const { bus } = this.parts
    // Loaded on demand, as servers without jobs do not need it.
    const { createNodeRedisClient, Queue } = await import('bullmq')
    const connection = createNodeRedisClient(await bus.another({ socketTimeoutMs }))
    // Without a listener, an error while the connection changes owners would end the process.
    const heard = (one: Connection) => one.on('error', (error: Error) => this.#onError(error))
    const copy = connection.duplicate.bind(connection)
    connection.duplicate = (...given) => (this.#waiting = heard(copy(...given)))
    this.#connection = heard(connection)
    const options = { connection, prefix: prefixOf(bus), skipMetasUpdate: true }
    this.#queue = new Queue(this.name, options)
    this.#queue.on('error', (error) => this.#onError(error))
    try {
      // A queue or worker whose first command failed can never be used.
      await this.#queue.waitUntilReady()
      await this.#start()
    } catch (error) {
      // A process that cannot start without the queue could not end with an open connection.
      await this.#disconnect()
      throw error
    }
  }

  async #disconnect(): Promise<void> {
    // A worker that waits for its lost connection would reconnect it after its own end.
    if (this.#waiting !== undefined) this.#waiting.connect = async () => {}
    await this.#worker?.close(true)
    await this.#queue.close()
    this.#connection.disconnect()
  }

  #onError(error: Error): void {
    this.parts.logger.debug({ err: error }, 'the queue cannot be reached')
    if (isOfOldPrimary(error)) void this.#move()
  }

  /**
   * Moves to the server that the name points to now. Everything is made anew, as a worker's own connection cannot be
   * reached from outside. Running jobs are repeated by the process that gets them.
   */
  async #move(): Promise<void> {
    const { signal } = this.#closing
    if (this.#isMoving || signal.aborted) return
    this.#isMoving = true
    const { clock } = this.parts.bus.store
    while (this.#isMoving) {
      try {
        await this.#disconnect()
        await pause(clock, moveMs, signal)
        if (!signal.aborted) await this.#connect()
        this.#isMoving = false
      } catch (error) {
        this.parts.logger.debug({ err: error }, 'the queue cannot follow the server')
      }
    }
    if (signal.aborted) await this.#disconnect()
  }
}

/** The cluster's prefix without the colon, which BullMQ adds. */
const prefixOf = (bus: RedisBus): string => bus.store.prefix.replace(/:$/, '')
