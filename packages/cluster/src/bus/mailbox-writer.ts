import { entryOf, pause } from '@cllm/core'
import { ErrorReply } from '@redis/client'
import { type Connections, retryMs } from './connections.js'
import { isOfOldPrimary, isTemporary, refusalOf } from './redis-client.js'

/** Milliseconds after which a mailbox expires that nobody writes to; `putOffMs`: the interval of extensions. */
export const mailboxMs = 60_000
const putOffMs = 15_000
/**
 * Milliseconds for which envelopes are retried that a server refuses for now, such as for lack of memory. Time without
 * a connection does not count. Then they are lost, and their links break.
 */
export const mostRefusedMs = 10_000

/**
 * Milliseconds after which unaccepted envelopes explain the silence of others: long before their silence counts as
 * their death.
 */
const stuckMs = 500

/** The most envelopes that are sent at once. */
const batchSize = 256
/** The most characters of waiting envelopes; beyond that all are dropped, and their links break. */
const mostWaiting = 64 * 2 ** 20

/** An envelope with its mailbox. */
interface OutgoingEnvelope {
  readonly mailbox: string
  readonly text: string
}

/**
 * Writes envelopes to their mailboxes on the server in order, one batch at a time. A failed batch is sent again as
 * a whole, so that no envelope overtakes another; receivers drop repeated ones.
 */
export class MailboxWriter {
  readonly #waiting: OutgoingEnvelope[] = []
  /** The characters of all waiting envelopes. */
  #waitingCharacters = 0
  /** Envelopes that are being written. */
  #sending: readonly OutgoingEnvelope[] = []
  /** When the current batch was first sent; Infinity: there is none. */
  #sentAt = Infinity
  #isPumping = false
  #isClosed = false
  /** When each mailbox's expiry was last extended. */
  readonly #putOff = new Map<string, number>()
  /** For how many milliseconds the server has been refusing envelopes; undefined: it accepts them. */
  #refusedMs: number | undefined
  /** When it last refused one, unless the connection was lost since. */
  #refusedAt: number | undefined
  /** Whether the current refusals were logged. */
  #isTold = false

  constructor(private readonly connections: Connections) {
    // A restarted or another server has no expiries.
    connections.writer.on('ready', () => this.#putOff.clear())
  }

  /** Whether the server accepts no envelopes now: it refuses them, or pauses writes, such as before a failover. */
  get isStuck(): boolean {
    const isRefused = this.#refusedMs !== undefined && this.#refusedMs < mostRefusedMs
    return isRefused || this.connections.clock.now() - this.#sentAt >= stuckMs
  }

  /** The characters that are being written. */
  get characters(): number {
    return this.#sending.reduce((sum, { text }) => sum + text.length, 0)
  }

  add(envelope: OutgoingEnvelope): void {
    if (this.#isClosed) return
    if (this.#waitingCharacters > mostWaiting) {
      this.#waiting.length = 0
      this.#waitingCharacters = 0
    }
    this.#waiting.push(envelope)
    this.#waitingCharacters += envelope.text.length
    if (!this.#isPumping) void this.#pump()
  }

  close(): void {
    this.#isClosed = true
  }

  async #pump(): Promise<void> {
    this.#isPumping = true
    // Envelopes that are added in the same turn of the event loop are sent together.
    await Promise.resolve()
    while (this.#waiting.length > 0 && !this.#isClosed) {
      const batch = this.#waiting.splice(0, batchSize)
      for (const { text } of batch) this.#waitingCharacters -= text.length
      this.#sentAt = this.connections.clock.now()
      await this.#deliver(batch)
      this.#sentAt = Infinity
    }
    this.#isPumping = false
  }

  async #deliver(batch: readonly OutgoingEnvelope[]): Promise<void> {
    while (!this.#isClosed) {
      try {
        return await this.#send(batch)
      } catch {
        await pause(this.connections.clock, retryMs)
      }
    }
  }

  /** Writes a batch, or rejects: then all of it must be written again. */
  async #send(batch: readonly OutgoingEnvelope[]): Promise<void> {
    const words = new Map<string, string[]>()
    for (const { mailbox, text } of batch) {
      entryOf(words, mailbox, () => ['XADD', mailbox, '*']).push('l', text)
    }
    // In order on one connection; the client sends them together.
    const sent = [...words.values()].map(async (command) => await this.#append(command))
    for (const key of words.keys()) if (this.#isEndNear(key)) sent.push(this.#putOffEnd(key))
    this.#sending = batch
    const results = await Promise.allSettled(sent)
    this.#sending = []
    const failed = results.find(({ status }) => status === 'rejected')
    if (failed !== undefined) throw (failed as PromiseRejectedResult).reason
  }

  async #append(command: readonly string[]): Promise<void> {
    try {
      await this.connections.writer.sendCommand(command)
      if (this.#refusedMs !== undefined)
        this.connections.logger.info({}, 'the cluster takes messages again')
      this.#refusedMs = this.#refusedAt = undefined
      this.#isTold = false
    } catch (error) {
      if (!(error instanceof ErrorReply)) {
        this.#refusedAt = undefined
        throw error
      }
      const reason = refusalOf(error)
      if (!this.#isTold) this.connections.logger.error({ reason }, 'the cluster refuses a message')
      this.#isTold = true
      if (isOfOldPrimary(error)) void this.connections.renew()
      if (isTemporary(error) && this.#refusedFor() < mostRefusedMs) throw error
      // The envelopes are lost, and their links will break.
    }
  }

  /** Notes a refusal; returns for how many milliseconds the server has been refusing envelopes. */
  #refusedFor(): number {
    const now = this.connections.clock.now()
    this.#refusedMs = (this.#refusedMs ?? 0) + (now - (this.#refusedAt ?? now))
    this.#refusedAt = now
    return this.#refusedMs
  }

  #isEndNear(key: string): boolean {
    const now = this.connections.clock.now()
    if (now - (this.#putOff.get(key) ?? -Infinity) < putOffMs) return false
    for (const [other, at] of this.#putOff) if (now - at > mailboxMs) this.#putOff.delete(other)
    this.#putOff.set(key, now)
    return true
  }

  /** Extends a mailbox's expiry, which deletes it once its owner is gone. */
  async #putOffEnd(key: string): Promise<void> {
    try {
      await this.connections.writer.sendCommand(['PEXPIRE', key, String(mailboxMs)])
    } catch (error) {
      this.#putOff.delete(key)
      throw error
    }
  }
}
