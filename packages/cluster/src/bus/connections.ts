import { type Clock, type Logger, silentLogger, systemClock } from '@cllm/core'
import { ClientClosedError } from '@redis/client'
import type { RedisAddress, RedisClient } from './redis-client.js'
import {
  connectTo,
  isTimeout,
  refusalOf,
  renew,
  socketLimitMs,
  unreachable,
} from './redis-client.js'

/** How a Redis or Valkey server is reached and used. */
export interface RedisBusOptions extends RedisAddress {
  /** What all its keys begin with; default `cllm:`. */
  readonly prefix?: string
  readonly clock?: Clock
  readonly logger?: Logger
}

/** Milliseconds for a server to take the first connection … */
const takeMs = 5000
/** … and to answer on it: a starved machine may need long. So may a process that has not seen yet that it is taken. */
const answerMs = 30_000
/** A timer that goes off so many milliseconds late is a starved process's. */
const lateMs = 500
/** Milliseconds until what failed for now is tried again. */
export const retryMs = 100
/** Least milliseconds between two times that all connections are made anew. */
const renewMs = 500

/**
 * The connections of a process to a server: one for commands, and one that reads, whose commands block. Both
 * reconnect for ever, and can be made anew: the name of the server may stand for another one by then.
 */
export class Connections {
  readonly clock: Clock
  readonly logger: Logger
  /** Others that follow these to another server. */
  readonly #followers: RedisClient[] = []
  /** Those whose server is not there yet. */
  readonly #opening = new Set<RedisClient>()
  #renewedAt = -Infinity
  #renewed: Promise<unknown> = Promise.resolve()

  private constructor(
    readonly writer: RedisClient,
    readonly reader: RedisClient,
    private readonly options: RedisBusOptions,
  ) {
    const { clock = systemClock, logger = silentLogger } = options
    this.clock = clock
    this.logger = logger
    this.#tellOfLosses()
  }

  /**
   * Connects to the server.
   *
   * @throws `cluster_unavailable` when it cannot be reached, or refuses the user
   */
  static async open(options: RedisBusOptions): Promise<Connections> {
    const { clock = systemClock } = options
    const clients: RedisClient[] = []
    let cancel: () => void = () => {}
    try {
      const make = () => connectTo(options, { socketTimeoutMs: socketLimitMs })
      const both = [make(), make()] as const
      clients.push(...both)
      const since = clock.now()
      let problem: unknown
      let isTaken = false
      const late = new Promise<never>((_, reject) => {
        const expire = () =>
          reject(problem ?? new Error(`no answer within ${clock.now() - since} ms`))
        cancel = clock.at(since + takeMs, () => {
          if (!isTaken && clock.now() - since < takeMs + lateMs) return expire()
          cancel = clock.at(since + answerMs, expire)
        })
        for (const client of both) {
          client.on('connect', () => (isTaken = true))
          client.on('error', (error: unknown) => {
            problem = error
            // The first answer decides; later ones are for the reconnecting, as is one that has not come in time.
            if (!isTimeout(error)) reject(error)
          })
        }
      })
      const connected = Promise.all(both.map(async (client) => await client.connect()))
      await Promise.race([connected, late])
      await Promise.race([both[0].sendCommand(['PING']), late])
      return new Connections(...both, options)
    } catch (error) {
      for (const client of clients) client.destroy()
      throw unreachable(options.url, error)
    } finally {
      cancel()
    }
  }

  /**
   * A further connection, whose commands wait while the server is away.
   *
   * @param follows whether it is made anew together with these
   */
  async another({ follows = false, socketTimeoutMs = 0 } = {}): Promise<RedisClient> {
    const client = connectTo(this.options, { isPatient: true, socketTimeoutMs })
    client.on('error', (error: unknown) => {
      this.logger.debug({ err: error }, 'a connection to the cluster is lost')
    })
    this.#opening.add(client)
    await client.connect().finally(() => this.#opening.delete(client))
    // It says nothing when it is closed before it is there.
    if (!client.isOpen) throw new ClientClosedError()
    if (follows) this.#followers.push(client)
    return client
  }

  /** Makes all of them anew, at most once in a while; resolves when they are connected. */
  async renew(): Promise<void> {
    const now = this.clock.now()
    if (now - this.#renewedAt >= renewMs) {
      this.#renewedAt = now
      this.#renewed = Promise.all(this.#all.map(async (client) => await renew(client)))
    }
    await this.#renewed
  }

  close(): void {
    for (const client of [...this.#all, ...this.#opening]) if (client.isOpen) client.destroy()
  }

  get #all(): readonly RedisClient[] {
    return [this.writer, this.reader, ...this.#followers]
  }

  /** Once each time, as the client tries again several times a second, and when the server says why it refuses. */
  #tellOfLosses(): void {
    let told: string | undefined
    this.writer.on('error', (error: unknown) => {
      const reason = refusalOf(error)
      if (told === undefined || (reason !== undefined && reason !== told)) {
        this.logger.warn({ err: error, reason }, 'the connection to the cluster is lost')
      }
      told = reason ?? told ?? ''
    })
    this.writer.on('ready', () => {
      if (told !== undefined) this.logger.info({}, 'the connection to the cluster is back')
      told = undefined
    })
  }
}

/** Milliseconds between two questions. */
const askMs = 500
/** Without an answer for so long, the server does not count as reachable. */
export const reachableMs = 3 * askMs
/** Without an answer for so long, it is silent. */
const silentMs = 5000

/**
 * Asks a server for a sign of life on a connection. The kernel would take a quarter of an hour to notice that a
 * machine is gone which did not say so, as long as something that was sent to it is not acknowledged. One that is silent
 * for 5 s, and a millisecond more for each 1,000 characters, is connected to anew.
 */
export class ConnectionWatch {
  /** When the question was asked that is open. */
  #askedAt: number | undefined
  #answeredAt: number
  #cancel: () => void = () => {}

  /** @param characters - those on their way, there or back: answers to what is asked behind them take longer */
  constructor(
    private readonly connections: Connections,
    private readonly characters: () => number,
  ) {
    this.#answeredAt = connections.clock.now()
    connections.writer.on('ready', () => void this.#ask())
    void this.#ask()
    this.#watch()
  }

  /** Whether it has answered within the last 1.5 s. */
  get isAnswering(): boolean {
    return this.connections.clock.now() - this.#answeredAt < reachableMs
  }

  close(): void {
    this.#cancel()
  }

  #watch(): void {
    const { clock } = this.connections
    const due = clock.now() + askMs
    this.#cancel = clock.at(due, () => {
      this.#look(clock.now() - due)
      this.#watch()
    })
  }

  #look(lateMs: number): void {
    const { writer, clock, logger } = this.connections
    // Until it is connected again, its socket has a time limit.
    if (!writer.isReady) this.#askedAt = undefined
    else if (this.#askedAt === undefined) void this.#ask()
    // If this look is late, this process was busy or stopped, and an answer may still be unread.
    else if (lateMs < askMs && clock.now() - this.#askedAt >= silentMs + this.characters() / 1000) {
      this.#askedAt = undefined
      logger.warn({}, 'the server of the cluster is silent: it is connected to anew')
      void this.connections.renew()
    }
  }

  async #ask(): Promise<void> {
    const { writer, clock } = this.connections
    const at = clock.now()
    this.#askedAt = at
    try {
      await writer.sendCommand(['PING'])
      this.#answeredAt = clock.now()
    } catch {
      // It is lost, or loads its data: it says nothing of others.
    }
    if (this.#askedAt === at) this.#askedAt = undefined
  }
}
