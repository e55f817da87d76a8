import { pause, within } from '@cllm/core'
import { ClientOfflineError, RESP_TYPES } from '@redis/client'
import type { ClusterBus } from './cluster-bus.js'
import { ConnectionWatch, Connections, type RedisBusOptions, retryMs } from './connections.js'
import { after, MailboxReader } from './mailbox-reader.js'
import { mailboxMs, MailboxWriter, mostRefusedMs } from './mailbox-writer.js'
import { isOfOldPrimary, type RedisClient as Client, unanswered } from './redis-client.js'

/** Milliseconds for which a command waits for a connection that is made anew. */
const anewMs = 1000

/**
 * A cluster on Redis (6.2 or later) or Valkey. A mailbox is a stream: its owner reads it with one
 * blocking connection and trims what it has read; a second connection does all else. Both reconnect for
 * ever. Nothing has to survive a restart of the server.
 */
export class RedisBus implements ClusterBus {
  readonly #prefix: string
  readonly #writer: MailboxWriter
  readonly #readers = new Map<string, MailboxReader>()
  readonly #watch: ConnectionWatch
  /** Bytes of long answers that are on their way. */
  #expected = 0
  /** Whether the connection was another one when it was asked last who lives. */
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
   * @throws `cluster_unavailable` when it cannot be reached, or refuses the user
   */
  static async connect(options: RedisBusOptions): Promise<RedisBus> {
    return new RedisBus(await Connections.open(options), options)
  }

  /** @internal The connection for commands, and what all keys begin with, for what is shared besides messages. */
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
   * @internal Sends a command whose answer is long: for its time, the server does not count as silent.
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
   * Puts an envelope into a mailbox, and resolves when it is there.
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
        // It stays for its time: one that others made anew would have none.
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
    if (ids.length === 0) return found
    const words = ['MGET', ...ids.map((id) => this.#keyOf(id))]
    const records = (await this.#call(words)) as (string | null)[]
    for (const [index, record] of records.entries()) {
      if (record !== null) found.set(ids[index]!, record)
    }
    const gone = ids.filter((id) => !found.has(id))
    if (gone.length > 0) await this.#call(['SREM', `${this.#prefix}members`, ...gone])
    return found
  }

  /**
   * A process listens to a channel of its own, on which nothing is ever said, and its connection ends with it,
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
    // On another server nobody has appeared yet.
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
   * A server that is no primary any more refuses it and did nothing: it goes to the next one, for 10 s. So it waits a
   * second for a connection that is made anew, as that of a process that was stopped.
   *
   * @param isTold whether such a refusal is told at once, at the start of a process: then it waits longer for a
   *   connection, as one that had nothing to say while a model was loaded was closed
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
