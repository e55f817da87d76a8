import { randomBytes } from 'node:crypto'
import type { Clock, FoundState, Logger, StateFile, StateHead } from '@cllm/core'
import { pause, within } from '@cllm/core'
import { StateFolder, type StateFolderOptions, stateBytes, stateIn, stateName } from '@cllm/host'
import { ClientOfflineError, ErrorReply, RESP_TYPES } from '@redis/client'
import type { RedisBusOptions } from '../bus/connections.js'
import { connectTo, isOfOldPrimary, renew, socketLimitMs } from '../bus/redis-client.js'

/** Milliseconds for which others know who has an encoding; its use there begins them anew. */
const knownMs = 3_600_000
/** Milliseconds for the server to say who has an encoding, and for all of a fetch. */
const askMs = 100
const fetchMs = 2000
/** Milliseconds for which nobody is asked after either of these ran out. */
const silentMs = 5000
/** Milliseconds for which bytes that nobody takes stay on the server. */
const takeMs = 5000
/** Milliseconds between two attempts to subscribe, and between two warnings. */
const retryMs = 500
const warnMs = 60_000
/** The most bytes of one encoding: the server, which the streams need, holds them until they are taken. */
const mostBytes = 2 ** 24

/** What a process sends to one that has an encoding. */
interface Ask extends Pick<StateHead, 'key' | 'scope'> {
  readonly from: string
}

/** The answer: `bytes` are on the server; 0: it has none. */
interface Answer {
  readonly name: string
  readonly bytes: number
}

/**
 * A folder of states whose encoded images and sounds the engines of a cluster's other machines find, too: each tells
 * the server which it has, and hands them over when asked. Fetched ones are checked as files are, and kept. Whatever
 * fails, or takes too long, counts as absent. States of conversations stay in the folder.
 */
export class SharedEncodings extends StateFolder {
  /** @internal Resolves when others can ask it, or may not. */
  readonly opened: Promise<void>
  readonly #id = randomBytes(8).toString('hex')
  readonly #prefix: string
  readonly #commands
  readonly #messages
  readonly #fetches = new Map<string, Promise<FoundState | undefined>>()
  readonly #answers = new Map<string, (bytes: number) => void>()
  #silentUntil = -Infinity
  /** Questions in a row that the server did not answer in time. */
  #late = 0
  #warnedAt = -Infinity
  #isRefused = false

  constructor(
    options: StateFolderOptions,
    clock: Clock,
    logger: Logger,
    { prefix = 'cllm:', ...address }: Pick<RedisBusOptions, 'url' | 'ca' | 'prefix'>,
  ) {
    super(options, clock, logger)
    this.#prefix = `${prefix}encodings:`
    // Connections of its own: the tokens of the cluster do not wait behind encodings.
    const asked = { socketTimeoutMs: socketLimitMs, pingMs: socketLimitMs / 5 }
    this.#commands = connectTo(address, asked)
    this.#messages = connectTo(address, { ...asked, isPatient: true })
    // Both connect again by themselves.
    for (const client of this.#clients) client.on('error', () => {})
    this.opened = this.#open().catch((error: unknown) => this.#onFailure(error))
  }

  /** Looks in the folder, then asks the machine that has said that it has it, for 2 s at most. */
  override async find(head: StateHead): Promise<FoundState | undefined> {
    const found = await super.find(head)
    const isQuiet = this.#isRefused || this.clock.now() < this.#silentUntil
    if (found !== undefined || isQuiet) return found
    const name = stateName(head, this.secret)
    const running = this.#fetches.get(name)
    if (running !== undefined) return await running
    const fetch = within(this.clock, fetchMs, this.#fetch(name, head), () => this.#onSilence(name))
      .catch((error: unknown) => this.#onFailure(error))
      .finally(() => {
        this.#fetches.delete(name)
        this.#answers.delete(name)
      })
    this.#fetches.set(name, fetch)
    return await fetch
  }

  override async write(head: StateHead, data: Uint8Array, instead?: FoundState) {
    const written = await super.write(head, data, instead)
    if (written !== undefined) this.#announce(written)
    return written
  }

  /** Says to others, too, that it is here. */
  override async touch(file: StateFile): Promise<void> {
    this.#announce(file)
    await super.touch(file)
  }

  /** Ends its connections. */
  close(): void {
    for (const client of this.#clients) if (client.isOpen) client.destroy()
  }

  get #clients() {
    return [this.#commands, this.#messages]
  }

  async #open(): Promise<void> {
    await Promise.all(this.#clients.map(async (client) => await client.connect()))
    const onMessage = (text: string): void => {
      void this.#onMessage(text).catch((error: unknown) => this.#onFailure(error))
    }
    // One that succeeded is repeated on each new connection, one that failed is forgotten.
    while (this.#messages.isOpen) {
      try {
        return await this.#messages.subscribe(this.#prefix + this.#id, onMessage)
      } catch (error) {
        this.#onFailure(error)
        if (this.#messages.isOpen) await pause(this.clock, retryMs)
      }
    }
  }

  /** Others ask the process that said so last. */
  #announce({ name, tokens }: StateFile): void {
    // Those of conversations have tokens.
    if (tokens.length > 0 || this.#isRefused) return
    const words = ['SET', this.#prefix + name, this.#id, 'PX', String(knownMs)]
    this.#commands.sendCommand(words).catch((error: unknown) => this.#onFailure(error))
  }

  async #fetch(name: string, { key, scope }: StateHead): Promise<FoundState | undefined> {
    const asked = this.#commands.sendCommand(['GET', this.#prefix + name])
    const holder = await within(this.clock, askMs, asked, () => this.#onLate())
    if (holder !== undefined) this.#late = 0
    if (typeof holder !== 'string' || holder === this.#id) return undefined
    const answer = new Promise<number>((resolve) => this.#answers.set(name, resolve))
    // One that has died hears nothing.
    if ((await this.#tell(holder, { from: this.#id, key, scope })) === 0) return undefined
    const bytes = await answer
    if (!(bytes > 0 && bytes <= mostBytes)) return undefined
    const binary = this.#commands.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
    const sent = await binary.sendCommand(['GETDEL', this.#keyFor(this.#id, name)])
    if (!Buffer.isBuffer(sent)) return undefined
    const found = { name, ...stateIn(name, sent, this.secret) } as FoundState
    void this.write(found, found.data)
    return found
  }

  async #onMessage(text: string): Promise<void> {
    const message = JSON.parse(text) as Ask | Answer
    if ('name' in message) return this.#answers.get(message.name)?.(message.bytes)
    const { from, key, scope } = message
    const head = { key, scope, partial: false, tokens: [] }
    const name = stateName(head, this.secret)
    const bytes = await this.#handOver(from, name, head).catch((error: unknown) => {
      this.#onFailure(error)
      return 0
    })
    await this.#tell(from, { name, bytes })
  }

  /** Puts an encoding on the server; returns its bytes, 0 where it is gone or too large. */
  async #handOver(to: string, name: string, head: StateHead): Promise<number> {
    const found = await super.find(head)
    if (found === undefined) return 0
    const bytes = stateBytes(head, found.data, this.secret)
    if (bytes.byteLength > mostBytes) return 0
    const words = ['SET', this.#keyFor(to, name), bytes, 'PX', String(takeMs)]
    await this.#commands.sendCommand(words)
    return bytes.byteLength
  }

  /** Returns how many heard it. */
  async #tell(id: string, message: Ask | Answer): Promise<unknown> {
    const words = ['PUBLISH', this.#prefix + id, JSON.stringify(message)]
    return await this.#commands.sendCommand(words)
  }

  #keyFor(id: string, name: string): string {
    return `${this.#prefix}to:${id}:${name}`
  }

  /** The server's machine may have vanished, which what is sent does not show. */
  #onLate(): undefined {
    if (++this.#late > 1) void renew(this.#commands)
    this.#onSilence()
  }

  /** @param name of an encoding whose holder says nothing: the next engine need not ask it */
  #onSilence(name?: string): undefined {
    this.#silentUntil = this.clock.now() + silentMs
    if (name === undefined) return
    const words = ['DEL', this.#prefix + name]
    this.#commands.sendCommand(words).catch((error: unknown) => this.#onFailure(error))
  }

  #onFailure(error: unknown): undefined {
    if (error instanceof ClientOfflineError) return
    if (isOfOldPrimary(error)) for (const client of this.#clients) void renew(client)
    const isRefused = error instanceof ErrorReply && error.message.startsWith('NOPERM')
    const now = this.clock.now()
    if (this.#isRefused || (!isRefused && now - this.#warnedAt < warnMs)) return
    this.#warnedAt = now
    this.#isRefused = isRefused
    if (isRefused) this.close()
    const what = isRefused
      ? 'encodings are not shared: a right of deploy/redis/users.acl is missing'
      : 'an encoding is not shared'
    this.logger.warn({ err: error }, what)
  }
}
