import { pause } from '@cllm/core'
import { type Connections, reachableMs, retryMs } from './connections.js'
import { isOfOldPrimary, refusalOf } from './redis-client.js'

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

  constructor(
    private readonly key: string,
    private readonly connections: Connections,
    private readonly onEnvelope: (envelope: string) => void,
  ) {
    this.#answeredAt = connections.clock.now()
    // Ids are the time of a server, and another one's clock may be behind. Who gets an envelope twice drops it.
    connections.reader.on('ready', () => (this.#last = '0-0'))
  }

  /** Whether it was read within the last 1.5 s: without that, the silence of others says nothing. */
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
    // All that was read has left: the ids of a server that was emptied, or whose clock was set, may be lower ones.
    if (entries.length === 0) return void (this.#last = '0-0')
    for (const [id, fields] of entries) {
      this.#last = id
      // What was sent at once is one entry: names and envelopes in turns.
      for (let index = 1; index < fields.length; index += 2) this.onEnvelope(fields[index]!)
    }
    const { clock } = this.connections
    if (this.#isTrimDue) return
    this.#isTrimDue = true
    clock.at(clock.now() + trimMs, () => void this.#trim())
  }

  /** Envelopes that were read leave the server, those of a while at once. */
  async #trim(): Promise<void> {
    this.#isTrimDue = false
    if (this.#isClosed) return
    const { key } = this
    // Behind the greatest id nothing can be added, so the stream goes with it: it ends now.
    const isFull = this.#last === greatestId
    const words = isFull ? ['PEXPIRE', key, '0'] : ['XTRIM', key, 'MINID', after(this.#last)]
    await this.connections.writer.sendCommand(words).catch(() => {})
  }
}

/** Only who forges it comes so far. */
const greatestId = `${2n ** 64n - 1n}-${2n ** 64n - 1n}`

/** The least id behind this one. */
export function after(id: string): string {
  const [time = '0', number = '0'] = id.split('-')
  return `${time}-${Number(number) + 1}`
}
