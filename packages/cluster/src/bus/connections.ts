import { type Clock, type Logger, type Services, silentLogger, systemClock } from '@cllm/core'
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

/** Options for a Redis or Valkey server. */
export interface RedisBusOptions extends RedisAddress, Partial<Pick<Services, 'clock' | 'logger'>> {
  /** The prefix of all keys; default `cllm:`. */
  readonly prefix?: string
}

/** Milliseconds for a server to accept the first connection … */
const takeMs = 5000
/** … and to answer on it: a starved machine may need long, as may a starved process to notice the acceptance. */
const answerMs = 30_000
/** A timer that fires this many milliseconds late means that this process is starved. */
const lateMs = 500
/** Milliseconds before a retry after a temporary failure. */
export const retryMs = 100
/** The shortest interval in milliseconds between two renewals of all connections. */
const renewMs = 500

/**
 * The connections of a process to a server: one for commands, and one for reads, which block. Both reconnect
 * forever, and can be renewed, since the server's name may point to another server by then.
 */
export class Connections {
  readonly clock: Clock
  readonly logger: Logger
  /** Further connections that are renewed together with these. */
  readonly #followers: RedisClient[] = []
  /** Further connections that are not connected yet. */
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
   * @throws `cluster_unavailable` if it cannot be reached, or refuses the user
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
            // The first refusal decides. Later errors only cause a reconnect, as do timeouts.
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
   * Opens a further connection, whose commands wait while the server is away.
   *
   * @param follows whether it is renewed together with the others
   */
  async another({ follows = false, socketTimeoutMs = 0 } = {}): Promise<RedisClient> {
    const client = connectTo(this.options, { isPatient: true, socketTimeoutMs })
    client.on('error', (error: unknown) => {
      this.logger.debug({ err: error }, 'a connection to the cluster is lost')
    })
    this.#opening.add(client)
    await client.connect().finally(() => this.#opening.delete(client))
    // A client that is closed before it has connected reports no error.
    if (!client.isOpen) throw new ClientClosedError()
    if (follows) this.#followers.push(client)
    return client
  }

  /** Renews all connections, at most once every {@link renewMs}; resolves when they are connected. */
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

  /** Logs each loss once, as the client retries several times a second, and each new reason for a refusal. */
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

/** The interval of pings in milliseconds. */
const askMs = 500
/** Milliseconds without an answer after which the server does not count as reachable. */
export const reachableMs = 3 * askMs
/** Milliseconds without an answer after which the connection is renewed. */
const silentMs = 5000

/**
 * Pings a server. If a machine vanishes while sent data is not acknowledged, the kernel would only notice after a
 * quarter of an hour. The connection to a server that is silent for 5 s, and a millisecond more for each 1,000
 * characters in transit, is renewed.
 */
export class ConnectionWatch {
  /** When the unanswered ping was sent; undefined: there is none. */
  #askedAt: number | undefined
  #answeredAt: number
  #cancel: () => void = () => {}

  /** @param characters - the characters in transit in either direction, behind which a ping's answer takes longer */
  constructor(
    private readonly connections: Connections,
    private readonly characters: () => number,
  ) {
    this.#answeredAt = connections.clock.now()
    connections.writer.on('ready', () => void this.#ask())
    void this.#ask()
    this.#watch()
  }

  /** Whether the server has answered within the last 1.5 s. */
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
    // While it reconnects, the socket's own time limit applies.
    if (!writer.isReady) this.#askedAt = undefined
    else if (this.#askedAt === undefined) void this.#ask()
    // If this check is late, this process was busy or suspended, and an answer may still be unread.
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
      // The connection is lost, or the server is loading its data.
    }
    if (this.#askedAt === at) this.#askedAt = undefined
  }
}
