import { pause, within } from '@cllm/core'
import { ClientOfflineError, RESP_TYPES } from '@redis/client'
import type { ClusterBus } from './cluster-bus.js'
import { ConnectionWatch, Connections, type RedisBusOptions, retryMs } from './connections.js'
import { after, MailboxReader } from './mailbox-reader.js'
import { mailboxMs, MailboxWriter, mostRefusedMs } from './mailbox-writer.js'
import { isOfOldPrimary, type RedisClient as Client, unanswered } from './redis-client.js'

/** Milliseconds that a command waits for a connection to be renewed. */
const anewMs = 1000

/**
 * A cluster on Redis (6.2 or later) or Valkey. A mailbox is a stream: its owner reads it on one
 * blocking connection and trims what it has read; a second connection does everything else. Both reconnect
 * forever. No data has to survive a restart of the server.
 */
export class RedisBus implements ClusterBus {
  readonly #prefix: string
  readonly #writer: MailboxWriter
  readonly #readers = new Map<string, MailboxReader>()
  readonly #watch: ConnectionWatch
  /** Bytes of long answers in transit. */
  #expected = 0
  /** Whether the connection has changed since {@link present} was last called. */
  #isOther = true

  private constructor(
    private readonly connections: Connections,
    { prefix = 'cllm:' }: RedisBusOptions,
  ) {
    this.#prefix = prefix
    connections.writer.on('ready', () => (this.#isOther = true))
    this.#writer = new MailboxWriter(connections)
    this.#watch = new ConnectionWatch(connections, () => this.#writer.characters + this.#expected)
  }

  /**
   * Connects to the server.
   *
   * @throws `cluster_unavailable` if it cannot be reached, or refuses the user
   */
  static async connect(options: RedisBusOptions): Promise<RedisBus> {
    const bus = new RedisBus(await Connections.open(options), options)
    // A user may lack this right.
    const about = String(await bus.command('INFO', 'memory').catch(() => ''))
    const [, policy] = /maxmemory_policy:(?!noeviction)(\S+)/.exec(about) ?? []
    if (policy) options.logger?.warn({ policy }, 'the cluster needs maxmemory-policy noeviction')
    return bus
  }

  /** @internal The connection for commands and the prefix of all keys, for shared data other than messages. */
  get store() {
    const { writer: client, clock } = this.connections
    return { client, prefix: this.#prefix, clock }
  }

  /** @internal A further connection, whose commands wait while the server is away. */
  async another(options?: Parameters<Connections['another']>[0]): Promise<Client> {
    return await this.connections.another(options)
  }

  get isReachable(): boolean {
    const isRead = [...this.#readers.values()].every((reader) => reader.isRead)
    return this.#watch.isAnswering && !this.#writer.isStuck && isRead
  }

  send(mailbox: string, text: string): void {
    this.#writer.add({ mailbox: this.#prefix + mailbox, text })
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
   * @internal Sends a command with a long answer, which may delay pings without the server counting as silent.
   *
   * @param bytes of the answer
   * @throws `cluster_unavailable`
   */
  async long(bytes: number, ...words: readonly string[]): Promise<unknown> {
    this.#expected += bytes
    try {
      return await this.#call(words)
    } finally {
      this.#expected -= bytes
    }
  }

  /**
   * @internal Sends a command whose answer is bytes, or a list of them.
   *
   * @throws `cluster_unavailable`
   */
  async bytes<Answer = Buffer>(...words: readonly string[]): Promise<Answer> {
    const asBytes = this.connections.writer.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
    return (await this.#call(words, { client: asBytes })) as Answer
  }

  /**
   * Puts an envelope into a mailbox, and resolves when the server has it.
   *
   * @throws `cluster_unavailable`
   */
  async deliver(mailbox: string, text: string): Promise<void> {
    await this.#call(['XADD', this.#prefix + mailbox, '*', 'l', text])
  }

  async check(mailbox: string): Promise<void> {
    const key = this.#prefix + mailbox
    const now = { isTold: true }
    await this.#call(['XADD', key, '*', 'l', ''], now)
    await this.#call(['SREM', `${this.#prefix}members`, ''], now)
    const words = ['XREAD', 'COUNT', '1', 'STREAMS', key, '0-0']
    const client = this.connections.reader
    const [stream] = (await this.#call(words, { client, ...now })) as [[string, [[id: string]]]]
    const [[id]] = stream[1]
    await this.#call(['XTRIM', key, 'MINID', after(id)], now)
    await this.#call(['PEXPIRE', key, String(mailboxMs)], now)
  }

  listen(mailbox: string, onEnvelope: (envelope: string) => void): void {
    const key = this.#prefix + mailbox
    const reader = new MailboxReader(key, this.connections, onEnvelope)
    this.#readers.set(key, reader)
    void reader.run()
  }

  async announce(id: string, record: string, ttlMs: number): Promise<void> {
    await this.#call(['SADD', `${this.#prefix}members`, id])
    await this.#call(['SET', this.#keyOf(id), record, 'PX', String(ttlMs)])
  }

  async claim(id: string, record: string, ttlMs: number): Promise<boolean> {
    const words = ['SET', this.#keyOf(id), record, 'PX', String(ttlMs), 'NX']
    return (await this.#call(words, { isTold: true })) !== null
  }

  async withdraw(id: string): Promise<void> {
    try {
      await this.#call(['SREM', `${this.#prefix}members`, id])
      await this.#call(['DEL', this.#keyOf(id)])
      for (const key of this.#readers.keys()) {
        // Emptied and left to expire: if it were deleted, a late sender would make it again without an expiry.
        await this.#call(['XTRIM', key, 'MAXLEN', '0'])
        await this.#call(['PEXPIRE', key, String(mailboxMs)])
      }
    } catch (error) {
      const { logger } = this.connections
      logger.warn({ err: error }, 'the cluster cannot be told of the end of this process')
    }
  }

  async members(isKnown: (id: string) => boolean = () => false) {
    const all = (await this.#call(['SMEMBERS', `${this.#prefix}members`])) as string[]
    const ids = all.filter((id) => !isKnown(id))
    const found = new Map<string, string>()
    // Nearly always, all are known. Where there is none it asks, too, so that a missing right is found at the start.
    if (ids.length === 0 && all.length > 0) return found
    const words = ['MGET', ...[...ids, ''].map((id) => this.#keyOf(id))]
    const records = (await this.#call(words)) as (string | null)[]
    for (const [index, record] of records.entries()) {
      if (record !== null) found.set(ids[index]!, record)
    }
    const gone = ids.filter((id) => !found.has(id))
    if (gone.length > 0) await this.#call(['SREM', `${this.#prefix}members`, ...gone])
    return found
  }

  /**
   * Subscribes to a channel of the process's own, which is never used. Its connection ends with the process,
   * whatever kills it.
   */
  async appear(id: string): Promise<void> {
    const own = await this.connections.another({ follows: true })
    await own.subscribe(this.#channelOf(id), () => {})
  }

  async present(ids: readonly string[]): Promise<ReadonlySet<string> | undefined> {
    this.#isOther = false
    const command = ['PUBSUB', 'NUMSUB', ...ids.map((id) => this.#channelOf(id))]
    const counts = (await this.#call(command)) as (string | number)[]
    // Members may not have appeared on another server yet.
    if (this.#isOther) return undefined
    return new Set(ids.filter((_, index) => Number(counts[2 * index + 1]) > 0))
  }

  async close(): Promise<void> {
    for (const reader of this.#readers.values()) reader.close()
    this.#writer.close()
    this.#watch.close()
    this.connections.close()
  }

  #channelOf(member: string): string {
    return `${this.#prefix}alive:${member}`
  }

  #keyOf(member: string): string {
    return `${this.#prefix}member:${member}`
  }

  /**
   * Sends a command. If the server refuses it because it is no longer the primary, the connection is renewed and the
   * command retried, for up to 10 s. Without a connection, the command waits up to a second for a new one.
   *
   * @param isTold whether such a refusal is thrown at once, as at the start of a process. The command then waits longer
   *   for a connection, as an idle one was closed while a model was loaded
   */
  async #call(
    command: readonly (string | Buffer)[],
    {
      client = this.connections.writer,
      isTold = false,
    }: { readonly client?: Pick<Client, 'sendCommand'>; readonly isTold?: boolean } = {},
  ): Promise<unknown> {
    const { clock } = this.connections
    const since = clock.now()
    for (;;) {
      try {
        return await client.sendCommand(command)
      } catch (error) {
        const isOffline = error instanceof ClientOfflineError
        const patienceMs = isOffline && !isTold ? anewMs : mostRefusedMs
        const isForNow = isOffline || (!isTold && isOfOldPrimary(error))
        if (!isForNow || clock.now() - since >= patienceMs) throw unanswered(error)
        if (!isOffline) await within(clock, mostRefusedMs, this.connections.renew(), () => {})
        await pause(clock, retryMs)
      }
    }
  }
}
