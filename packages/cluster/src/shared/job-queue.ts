import { ClientClosedError } from '@redis/client'
import { type Logger, systemClock, pause } from '@cllm/core'
import type { createNodeRedisClient as CreateConnection, Queue, Worker } from 'bullmq'
import type { RedisBus } from '../bus/redis-bus.js'
import { isOfOldPrimary, unanswered } from '../bus/redis-client.js'

/** Something that one of several processes does. */
export interface Job<Data> {
  /** While there is one with this id, another one is not added. */
  readonly id: string
  readonly data: Data
  /** Milliseconds before which nobody does it. Default: at once. */
  readonly delayMs?: number
}

/**
 * Does a job; the signal fires when the queue is closed. What throws is done again, and so is what returns
 * milliseconds, after so long: another job has its place meanwhile.
 */
export type DoJob<Data> = (job: Job<Data>, signal: AbortSignal) => Promise<number | undefined>

type Connection = ReturnType<typeof CreateConnection>

/** Without a sign of life for so long, the process that does a job is taken for dead. */
const lockMs = 5000
/** A job is done again after a failure, or the death of its process, so often. */
const mostTries = 1_000_000
const retryMs = 1000
/** Milliseconds until a server that is no primary any more is left. */
const moveMs = 200
/** Longer than the queue ever waits for a job in one command. */
const socketTimeoutMs = 20_000

/**
 * Jobs on the cluster's server (BullMQ), which live as long as its data do. Each is done at least once: by
 * another process, where the first one dies.
 */
export class JobQueue<Data> {
  #queue!: Queue
  #connection!: Connection
  /** The worker's own, which it waits for jobs on. */
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
   * @param name what its keys have after the cluster's prefix
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
   * Adds jobs; of those that are there already, none.
   *
   * @throws `cluster_unavailable`
   */
  async add(jobs: readonly Job<Data>[]): Promise<void> {
    // Not in one transaction: that would fail on a server that has lost its scripts, as each restart does.
    const added = jobs.map(async ({ id, data, delayMs = 0 }) => {
      const job = await this.#queue.add(this.name, data, {
        jobId: id,
        delay: delayMs,
        attempts: mostTries,
        backoff: { type: 'fixed', delay: retryMs },
        removeOnComplete: true,
        removeOnFail: true,
      })
      // So BullMQ says that the connection is closed.
      if (!job.id) throw new ClientClosedError()
    })
    await Promise.all(added).catch((error: Error) => {
      this.#onError(error)
      throw unanswered(error)
    })
  }

  /** Removes a job that nobody does now, if there is one. */
  async remove(id: string): Promise<void> {
    await this.#queue.remove(id)
  }

  /** Does jobs in this process, this many at a time. */
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

  /** What is done here is left to others. */
  async close(): Promise<void> {
    this.#closing.abort()
    await this.#disconnect()
  }

  async #connect(): Promise<void> {
    const { bus } = this.parts
    // Servers without jobs need not load it.
    const { createNodeRedisClient, Queue } = await import('bullmq')
    const connection = createNodeRedisClient(await bus.another({ socketTimeoutMs }))
    // Without a listener, what is said between two owners of it would end the process.
    const heard = (one: Connection) => one.on('error', (error: Error) => this.#onError(error))
    const copy = connection.duplicate.bind(connection)
    connection.duplicate = (...given) => (this.#waiting = heard(copy(...given)))
    this.#connection = heard(connection)
    const options = { connection, prefix: prefixOf(bus), skipMetasUpdate: true }
    this.#queue = new Queue(this.name, options)
    this.#queue.on('error', (error) => this.#onError(error))
    try {
      // A queue or worker whose first command has failed can never be used.
      await this.#queue.waitUntilReady()
      await this.#start()
    } catch (error) {
      // An open connection would keep a process from ending that cannot start without the queue.
      await this.#disconnect()
      throw error
    }
  }

  async #disconnect(): Promise<void> {
    // A worker that has lost it, and waits for it, would connect it again after its own end.
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
   * To the server that the name stands for now: all anew, as a worker has a connection that nobody else can reach. What
   * is done here is done again by whoever takes it.
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

/** BullMQ puts a colon behind it. */
const prefixOf = (bus: RedisBus): string => bus.store.prefix.replace(/:$/, '')
