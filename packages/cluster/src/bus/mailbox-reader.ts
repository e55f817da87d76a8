import { type Clock, type Logger, pause } from '@cllm/core'
import { reachableMs } from './connection-watch.js'
import type { Connections } from './connections.js'
import { isOfOldPrimary, refusalOf } from './redis-client.js'

/** What a {@link MailboxReader} is made of. */
export interface MailboxReaderParts {
  /** The mailbox's key. */
  readonly key: string
  readonly connections: Connections
  readonly clock: Clock
  readonly logger: Logger
  /** Milliseconds until a read that failed is tried again. */
  readonly retryMs: number
  readonly onEnvelope: (envelope: string) => void
}

/** A read waits so long for an envelope, in milliseconds. */
const blockMs = 500
/** Envelopes that one read returns at most. */
const mostRead = 1024
/** Envelopes that were read leave the server this many milliseconds later. */
const trimMs = 250

type Streams = [key: string, entries: [id: string, fields: string[]][]][] | null

/** Reads a mailbox for as long as it is open. */
export class MailboxReader {
  #last = '0-0'
  #isTrimDue = false
  #isClosed = false
  #answeredAt: number

  constructor(private readonly parts: MailboxReaderParts) {
    this.#answeredAt = parts.clock.now()
    // Ids are the time of a server, and another one's clock may be behind. Who gets an envelope twice drops it.
    parts.connections.reader.on('ready', () => (this.#last = '0-0'))
  }

  /** Whether it was read within the last 1.5 s: without that, the silence of others says nothing. */
  get isRead(): boolean {
    return this.parts.clock.now() - this.#answeredAt < reachableMs
  }

  close(): void {
    this.#isClosed = true
  }

  async run(): Promise<void> {
    const { key, connections, logger, retryMs, clock } = this.parts
    const command = ['XREAD', 'COUNT', String(mostRead), 'BLOCK', String(blockMs), 'STREAMS', key]
    let isRefused = false
    while (!this.#isClosed) {
      try {
        const streams = await connections.reader.sendCommand<Streams>([...command, this.#last])
        this.#answeredAt = clock.now()
        isRefused = false
        this.#take(streams?.[0]?.[1] ?? [])
      } catch (error) {
        if (this.#isClosed) return
        const refusal = refusalOf(error)
        if (isOfOldPrimary(error)) void connections.renew()
        if (refusal !== undefined && !isRefused) {
          logger.error({ refusal }, 'the cluster does not let this process read')
        }
        isRefused = refusal !== undefined
        logger.debug({ err: error }, 'the cluster cannot be read')
        await pause(clock, retryMs)
      }
    }
  }

  #take(entries: readonly (readonly [id: string, fields: readonly string[]])[]): void {
    if (entries.length === 0) return
    for (const [id, fields] of entries) {
      this.#last = id
      // What was sent at once is one entry: names and envelopes in turns.
      for (let index = 1; index < fields.length; index += 2) this.parts.onEnvelope(fields[index]!)
    }
    const { clock } = this.parts
    if (this.#isTrimDue) return
    this.#isTrimDue = true
    clock.at(clock.now() + trimMs, () => void this.#trim())
  }

  /** Envelopes that were read leave the server, those of a while at once. */
  async #trim(): Promise<void> {
    this.#isTrimDue = false
    if (this.#isClosed) return
    const words = ['XTRIM', this.parts.key, 'MINID', after(this.#last)]
    await this.parts.connections.writer.sendCommand(words).catch(() => {})
  }
}

/** The least id behind this one. */
export function after(id: string): string {
  const [time = '0', number = '0'] = id.split('-')
  return `${time}-${Number(number) + 1}`
}
