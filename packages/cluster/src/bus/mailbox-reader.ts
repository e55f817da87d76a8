import { pause } from '@cllm/core'
import { type Connections, reachableMs, retryMs } from './connections.js'
import { isOfOldPrimary, refusalOf } from './redis-client.js'

/** Milliseconds that a read waits for an envelope. */
const blockMs = 500
/** The most entries that one read returns. */
const mostRead = 1024
/** Milliseconds after which read envelopes are deleted from the server. */
const trimMs = 250

type Streams = [key: string, entries: [id: string, fields: string[]][]][] | null

/** Reads a mailbox for as long as it is open. */
export class MailboxReader {
  #last = '0-0'
  #isTrimDue = false
  #isClosed = false
  #answeredAt: number

  constructor(
    private readonly key: string,
    private readonly connections: Connections,
    private readonly onEnvelope: (envelope: string) => void,
  ) {
    this.#answeredAt = connections.clock.now()
    // Begin anew: ids are a server's time, and another one's clock may be behind. Receivers drop repeated envelopes.
    connections.reader.on('ready', () => (this.#last = '0-0'))
  }

  /** Whether it was read within the last 1.5 s; otherwise the silence of others does not mean that they are gone. */
  get isRead(): boolean {
    return this.connections.clock.now() - this.#answeredAt < reachableMs
  }

  close(): void {
    this.#isClosed = true
  }

  async run(): Promise<void> {
    const { reader, clock, logger } = this.connections
    const command = ['XREAD', 'COUNT', String(mostRead), 'BLOCK', String(blockMs), 'STREAMS']
    let isRefused = false
    while (!this.#isClosed) {
      try {
        const streams = await reader.sendCommand<Streams>([...command, this.key, this.#last])
        this.#answeredAt = clock.now()
        isRefused = false
        this.#take(streams?.[0]?.[1] ?? [])
      } catch (error) {
        if (this.#isClosed) return
        const reason = refusalOf(error)
        if (isOfOldPrimary(error)) void this.connections.renew()
        if (reason !== undefined && !isRefused) {
          logger.error({ reason }, 'the cluster does not let this process read')
        }
        isRefused = reason !== undefined
        logger.debug({ err: error }, 'the cluster cannot be read')
        await pause(clock, retryMs)
      }
    }
  }

  #take(entries: readonly (readonly [id: string, fields: readonly string[]])[]): void {
    // The mailbox is empty, so begin anew: a server that was emptied, or whose clock was set, may use lower ids.
    if (entries.length === 0) return void (this.#last = '0-0')
    for (const [id, fields] of entries) {
      this.#last = id
      // Envelopes that were sent together are one entry, in which names and envelopes alternate.
      for (let index = 1; index < fields.length; index += 2) this.onEnvelope(fields[index]!)
    }
    const { clock } = this.connections
    if (this.#isTrimDue) return
    this.#isTrimDue = true
    clock.at(clock.now() + trimMs, () => void this.#trim())
  }

  /** Deletes the envelopes that were read since the last time from the server. */
  async #trim(): Promise<void> {
    this.#isTrimDue = false
    if (this.#isClosed) return
    const { key } = this
    // Nothing can be added behind the greatest id, so the whole stream is deleted.
    const isFull = this.#last === greatestId
    const words = isFull ? ['PEXPIRE', key, '0'] : ['XTRIM', key, 'MINID', after(this.#last)]
    await this.connections.writer.sendCommand(words).catch(() => {})
  }
}

/** The greatest possible id, which only a forged entry has. */
const greatestId = `${2n ** 64n - 1n}-${2n ** 64n - 1n}`

/** The smallest id greater than this one. */
export function after(id: string): string {
  const [time = '0', number = '0'] = id.split('-')
  return `${time}-${Number(number) + 1}`
}
