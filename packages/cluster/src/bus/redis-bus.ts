import { type Clock, type Logger, silentLogger, systemClock } from '@cllm/core'
import { RESP_TYPES } from '@redis/client'
import type { ClusterBus } from './cluster-bus.js'
import { after, MailboxReader } from './mailbox-reader.js'
import { Outbox } from './outbox.js'
import { mailboxMs, Poster } from './poster.js'
import {
  connectTo,
  type RedisAddress,
  type RedisClient as Client,
  unanswered,
  unreachable,
} from './redis-client.js'
import { RedisPresence } from './redis-presence.js'

/** How a Redis or Valkey server is reached and used. */
export interface RedisBusOptions extends RedisAddress {
  /** What all its keys begin with; default `cllm:`. */
  readonly prefix?: string
  /** Milliseconds for the first connection; default 5,000. */
  readonly connectTimeoutMs?: number
  readonly clock?: Clock
  readonly logger?: Logger
}

/** A read waits so long for a letter; without any answer for three times as long, the server is gone. */
const blockMs = 500
const retryMs = 100
/** Characters of letters that wait for the server, at most. */
const outboxLimit = 64 * 2 ** 20

/** @internal A connection to the server, and what all keys begin with. */
export interface RedisStore {
  readonly client: Client
  readonly prefix: string
}

/**
 * A cluster on Redis (6.2 or later) or Valkey. A mailbox is a stream: its owner reads it with one
 * blocking connection and trims what it has read; a second connection does all else. Both reconnect for
 * ever. Nothing has to survive a restart of the server.
 */
export class RedisBus implements ClusterBus {
  readonly #prefix: string
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #outbox: Outbox
  readonly #presence: RedisPresence
  readonly #mailboxes = new Map<string, MailboxReader>()
  readonly #poster: Poster
  #answeredAt: number

  private constructor(
    private readonly writer: Client,
    private readonly reader: Client,
    private readonly options: RedisBusOptions,
  ) {
    const { prefix = 'cllm:', clock = systemClock, logger = silentLogger } = options
    this.#prefix = prefix
    this.#clock = clock
    this.#logger = logger
    this.#answeredAt = clock.now()
    this.#presence = new RedisPresence(prefix, writer, async () => await this.another())
    const pause = async () => await this.#wait(retryMs)
    const poster = new Poster(writer, clock, logger)
    this.#poster = poster
    const send: ConstructorParameters<typeof Outbox>[0] = async (batch) => {
      await poster.send(batch)
      this.#answeredAt = clock.now()
    }
    this.#outbox = new Outbox(send, pause, outboxLimit)
    this.#tellOfLosses()
  }

  /**
   * Connects to the server.
   *
   * @throws `cluster_unavailable` when it cannot be reached, or refuses the user
   */
  static async connect(options: RedisBusOptions): Promise<RedisBus> {
    const { connectTimeoutMs = 5000, clock = systemClock } = options
    const { url } = options
    const clients = connectBoth(options)
    let problem: unknown
    let cancel: () => void = () => {}
    const late = new Promise<never>((_, reject) => {
      const expire = () => reject(problem ?? new Error(`no answer within ${connectTimeoutMs} ms`))
      cancel = clock.at(clock.now() + connectTimeoutMs, expire)
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
      throw unreachable(url, error)
    } finally {
      cancel()
    }
    return new RedisBus(...clients, options)
  }

  /** @internal The connection for commands, for what is shared besides messages. */
  get store(): RedisStore {
    return { client: this.writer, prefix: this.#prefix }
  }

  /** @internal A further connection, whose commands wait while the server is away. */
  async another(): Promise<Client> {
    const client = connectTo(this.options, { isPatient: true })
    client.on('error', (error: unknown) => {
      this.#logger.debug({ err: error }, 'a connection to the cluster is lost')
    })
    await client.connect()
    return client
  }

  get isReachable(): boolean {
    return this.#clock.now() - this.#answeredAt < 3 * blockMs && !this.#poster.isRefused
  }

  post(mailbox: string, text: string): void {
    this.#outbox.post({ mailbox: this.#prefix + mailbox, text })
  }

  /**
   * @internal Sends a command.
   *
   * @throws `cluster_unavailable`
   */
  async command(...words: readonly (string | Buffer)[]): Promise<unknown> {
    return await this.#call(words)
  }

  /**
   * @internal Sends a command whose answer is bytes.
   *
   * @throws `cluster_unavailable`
   */
  async bytes(...words: readonly string[]): Promise<Buffer> {
    const asBytes = this.writer.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
    return (await this.#call(words, asBytes)) as Buffer
  }

  /**
   * Puts a letter into a mailbox, and resolves when it is there.
   *
   * @throws `cluster_unavailable`
   */
  async deliver(mailbox: string, text: string): Promise<void> {
    await this.#call(['XADD', this.#prefix + mailbox, '*', 'l', text])
  }

  async check(mailbox: string): Promise<void> {
    const key = this.#prefix + mailbox
    await this.#call(['XADD', key, '*', 'l', ''])
    const words = ['XREAD', 'COUNT', '1', 'STREAMS', key, '0-0']
    const [stream] = (await this.#call(words, this.reader)) as [[string, [[id: string]]]]
    const [[id]] = stream[1]
    await this.#call(['XTRIM', key, 'MINID', after(id)])
    await this.#call(['PEXPIRE', key, String(mailboxMs)])
  }

  listen(mailbox: string, onLetter: (letter: string) => void): void {
    const key = this.#prefix + mailbox
    const reader = new MailboxReader({
      key,
      reader: this.reader,
      writer: this.writer,
      clock: this.#clock,
      logger: this.#logger,
      blockMs,
      retryMs,
      onAnswer: () => (this.#answeredAt = this.#clock.now()),
      onLetter,
    })
    this.#mailboxes.set(key, reader)
    void reader.run()
  }

  async announce(id: string, record: string, ttlMs: number): Promise<void> {
    await this.#call(['SADD', `${this.#prefix}members`, id])
    await this.#call(['SET', this.#keyOf(id), record, 'PX', String(ttlMs)])
  }

  async claim(id: string, record: string, ttlMs: number): Promise<boolean> {
    const answer = await this.#call(['SET', this.#keyOf(id), record, 'PX', String(ttlMs), 'NX'])
    return answer !== null
  }

  async withdraw(id: string): Promise<void> {
    try {
      await this.#call(['SREM', `${this.#prefix}members`, id])
      await this.#call(['DEL', this.#keyOf(id)])
      for (const key of this.#mailboxes.keys()) {
        // It stays for its time: one that others made anew would have none.
        await this.#call(['XTRIM', key, 'MAXLEN', '0'])
        await this.#call(['PEXPIRE', key, String(mailboxMs)])
      }
    } catch (error) {
      this.#logger.warn({ err: error }, 'the cluster cannot be told of the end of this process')
    }
  }

  async members(): Promise<ReadonlyMap<string, string>> {
    const ids = (await this.#call(['SMEMBERS', `${this.#prefix}members`])) as string[]
    const found = new Map<string, string>()
    if (ids.length === 0) return found
    const keys = ids.map((id) => this.#keyOf(id))
    const records = (await this.#call(['MGET', ...keys])) as (string | null)[]
    const gone: string[] = []
    for (const [index, id] of ids.entries()) {
      const record = records[index]
      if (typeof record === 'string') found.set(id, record)
      else gone.push(id)
    }
    if (gone.length > 0) await this.#call(['SREM', `${this.#prefix}members`, ...gone])
    return found
  }

  async appear(id: string): Promise<void> {
    await this.#presence.appear(id)
  }

  async present(ids: readonly string[]): Promise<ReadonlySet<string> | undefined> {
    return await this.#presence.present(ids)
  }

  async close(): Promise<void> {
    for (const mailbox of this.#mailboxes.values()) mailbox.close()
    this.#presence.close()
    this.#outbox.close()
    for (const client of [this.writer, this.reader]) if (client.isOpen) client.destroy()
  }

  #keyOf(member: string): string {
    return `${this.#prefix}member:${member}`
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

  async #call(
    command: readonly (string | Buffer)[],
    client: Pick<Client, 'sendCommand'> = this.writer,
  ): Promise<unknown> {
    try {
      const value = await client.sendCommand(command)
      this.#answeredAt = this.#clock.now()
      return value
    } catch (error) {
      throw unanswered(error)
    }
  }

  async #wait(ms: number): Promise<void> {
    await new Promise<void>((resolve) => void this.#clock.at(this.#clock.now() + ms, resolve))
  }
}

function connectBoth(options: RedisBusOptions): readonly [writer: Client, reader: Client] {
  try {
    return [connectTo(options), connectTo(options)]
  } catch (error) {
    throw unreachable(options.url, error)
  }
}
