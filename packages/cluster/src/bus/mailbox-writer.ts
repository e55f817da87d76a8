import { entryOf, pause } from '@cllm/core'
import { ErrorReply } from '@redis/client'
import { type Connections, retryMs } from './connections.js'
import { isOfOldPrimary, isTemporary, refusalOf } from './redis-client.js'

/** A mailbox that nobody reads any more goes after this time; its end is put off so often. */
export const mailboxMs = 60_000
const putOffMs = 15_000
/**
 * A server that refuses envelopes for want of memory and the like has so long, the time without a connection not
 * counted; then they are lost, and links break.
 */
export const mostRefusedMs = 10_000

/**
 * Milliseconds after which own envelopes that were not taken say why others are silent: long before their silence is
 * taken for their death.
 */
const stuckMs = 500

/** Envelopes sent at once. */
const batchSize = 256
/** Characters of envelopes that may wait; beyond them all are dropped, and receivers miss them. */
const mostWaiting = 64 * 2 ** 20

/** An envelope on its way. */
interface OutgoingEnvelope {
  readonly mailbox: string
  readonly text: string
}

/**
 * Writes envelopes into the mailboxes on the server in their order, a batch at a time. A batch that fails is sent
 * again as a whole, so that none overtakes another; the receiver drops those that came twice.
 */
export class MailboxWriter {
  readonly #waiting: OutgoingEnvelope[] = []
  /** Those of all that wait. */
  #waitingCharacters = 0
  /** Envelopes that are being written now. */
  #sending: readonly OutgoingEnvelope[] = []
  /** When they were sent first; Infinity: there are none. */
  #sentAt = Infinity
  #isPumping = false
  #isClosed = false
  /** When the end of each mailbox was put off last. */
  readonly #putOff = new Map<string, number>()
  /** For how long the server has refused envelopes for now; undefined: it takes them. */
  #refusedMs: number | undefined
  /** When it refused one last, on a connection that was not lost since. */
  #refusedAt: number | undefined
  /** Whether the refusals of now were logged. */
  #isTold = false

  constructor(private readonly connections: Connections) {
    // A server that was restarted, or is another one, knows of no end.
    connections.writer.on('ready', () => this.#putOff.clear())
  }

  /** Whether envelopes wait until the server takes any again: it refuses them, or pauses writes, as before a failover. */
  get isStuck(): boolean {
    const isRefused = this.#refusedMs !== undefined && this.#refusedMs < mostRefusedMs
    return isRefused || this.connections.clock.now() - this.#sentAt >= stuckMs
  }

  /** Characters that are being written now. */
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
    // Envelopes that come in the same turn are sent together.
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

  /** Writes all of them, or rejects: then all are to be written again. */
  async #send(batch: readonly OutgoingEnvelope[]): Promise<void> {
    const words = new Map<string, string[]>()
    for (const { mailbox, text } of batch) {
      entryOf(words, mailbox, () => ['XADD', mailbox, '*']).push('l', text)
    }
    // One after the other on one connection; the client sends them in one piece.
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
      // It is lost: its link will break.
    }
  }

  /** For how long it refuses envelopes by now, in milliseconds. */
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

  /** What nobody reads, as its owner is gone, goes in the end. */
  async #putOffEnd(key: string): Promise<void> {
    try {
      await this.connections.writer.sendCommand(['PEXPIRE', key, String(mailboxMs)])
    } catch (error) {
      this.#putOff.delete(key)
      throw error
    }
  }
}
