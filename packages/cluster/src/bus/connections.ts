import { type Clock, type Logger, silentLogger, systemClock } from '@cllm/core'
import {
  connectTo,
  type RedisAddress,
  type RedisClient,
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

/** Milliseconds for the first connection. */
const connectMs = 5000
/** Least milliseconds between two times that all connections are made anew. */
const renewMs = 500

type Both = readonly [writer: RedisClient, reader: RedisClient]

/**
 * The connections of a process to a server: one for commands, and one that reads, whose commands block. Both
 * reconnect for ever, and can be made anew: the name of the server may stand for another one by then.
 */
export class Connections {
  readonly #clock: Clock
  readonly #logger: Logger
  /** Others that follow these to another server. */
  readonly #followers: RedisClient[] = []
  #renewedAt = -Infinity
  #renewed: Promise<unknown> = Promise.resolve()

  private constructor(
    readonly writer: RedisClient,
    readonly reader: RedisClient,
    private readonly options: RedisBusOptions,
  ) {
    const { clock = systemClock, logger = silentLogger } = options
    this.#clock = clock
    this.#logger = logger
    this.#tellOfLosses()
  }

  /**
   * Connects to the server.
   *
   * @throws `cluster_unavailable` when it cannot be reached, or refuses the user
   */
  static async open(options: RedisBusOptions): Promise<Connections> {
    const { clock = systemClock } = options
    const clients = makeBoth(options)
    let problem: unknown
    let cancel: () => void = () => {}
    const late = new Promise<never>((_, reject) => {
      const expire = () => reject(problem ?? new Error(`no answer within ${connectMs} ms`))
      cancel = clock.at(clock.now() + connectMs, expire)
      for (const client of clients) {
        client.on('error', (error: unknown) => {
          problem = error
          // The first answer decides; later ones are for the reconnecting.
          reject(error)
        })
      }
    })
    late.catch(() => {})
    try {
      await Promise.race([Promise.all(clients.map(async (client) => await client.connect())), late])
      await Promise.race([clients[0].sendCommand(['PING']), late])
    } catch (error) {
      for (const client of clients) client.destroy()
      throw unreachable(options.url, error)
    } finally {
      cancel()
    }
    return new Connections(...clients, options)
  }

  /**
   * A further connection, whose commands wait while the server is away.
   *
   * @param follows whether it is made anew together with these
   */
  async another({ follows = false, socketTimeoutMs = 0 } = {}): Promise<RedisClient> {
    const client = connectTo(this.options, { isPatient: true, socketTimeoutMs })
    client.on('error', (error: unknown) => {
      this.#logger.debug({ err: error }, 'a connection to the cluster is lost')
    })
    await client.connect()
    if (follows) this.#followers.push(client)
    return client
  }

  /** Makes all of them anew, at most once in a while; resolves when they are connected. */
  async renew(): Promise<void> {
    const now = this.#clock.now()
    if (now - this.#renewedAt >= renewMs) {
      this.#renewedAt = now
      this.#renewed = Promise.all(this.#all.map(async (client) => await renew(client)))
    }
    await this.#renewed
  }

  close(): void {
    for (const client of this.#all) if (client.isOpen) client.destroy()
  }

  get #all(): readonly RedisClient[] {
    return [this.writer, this.reader, ...this.#followers]
  }

  /** Once each time, as the client tries again several times a second. */
  #tellOfLosses(): void {
    let isLost = false
    this.writer.on('error', (error: unknown) => {
      if (!isLost) this.#logger.warn({ err: error }, 'the connection to the cluster is lost')
      isLost = true
    })
    this.writer.on('ready', () => {
      if (isLost) this.#logger.info({}, 'the connection to the cluster is back')
      isLost = false
    })
  }
}

function makeBoth(options: RedisBusOptions): Both {
  const make = () => connectTo(options, { socketTimeoutMs: socketLimitMs })
  try {
    return [make(), make()]
  } catch (error) {
    throw unreachable(options.url, error)
  }
}
