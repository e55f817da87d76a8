import { CllmError, type Clock } from '@cllm/core'
import { expectedField } from '../request/refusals.js'

/** Writes the parts of a streamed answer. */
export interface StreamWriter {
  /** Sends a part. Wait while `isFull`: a client with more than `--stream-limit` unread is disconnected. */
  write(text: string | Uint8Array): void
  /** Bytes that the client has not read, besides the operating system's buffers. */
  readonly unread: number
  /** Whether nobody reads what is written. */
  readonly destroyed: boolean
  /** Whether further writes would only wait in memory for the client. */
  readonly isFull: boolean
  /** Calls back when the writer is no longer full; a client that reads nothing for a minute is disconnected. */
  onceDrained(callback: () => void): void
  /** Ends the answer; by default the driver does so. */
  end(): void
  /** Disconnects the client, which cannot get the rest. */
  cut(): void
}

/** The most bytes that are kept of a stream; its oldest events are dropped first. */
const mostBytes = 4 * 2 ** 20
/** Milliseconds for which a complete stream is kept. */
const keptMs = 5 * 60_000
/** The most bytes of all streams, and the most streams. */
const mostOfAll = 64 * 2 ** 20
const mostSessions = 1000
const longestId = 512
/** The most streams of a key that are computed while nobody reads them. */
const mostLeft = 16

/** An event of a stream. */
interface KeptEvent {
  readonly id: number
  /** Its first byte's position in the whole stream. */
  readonly offset: number
  readonly text: string
}

/** The place in a stream from which to read. */
export type StreamPlace =
  /** The id of the last event that the client has. */
  | { readonly afterId: number }
  /** The position in the whole stream, in bytes. */
  | { readonly offset: number }

/**
 * One streamed answer whose events are kept, so that its client can come back to it. The protocol writes
 * to it as to a client, and continues after the client has left.
 */
export class StreamSession implements StreamWriter {
  readonly unread = 0
  readonly isFull = false
  /** Whether its answer has begun, so that there is or will be something to read. */
  isOpen = false
  /** Whether it was stopped before the answer was complete: nobody will read further events. */
  destroyed = false
  /** When it ended, in milliseconds of the clock; undefined while it is in progress. */
  endedAt: number | undefined
  /** Bytes of the whole stream so far. */
  bytes = 0
  readonly #over = new AbortController()
  readonly #events: KeptEvent[] = []
  /** Wakes the readers that wait for the next event or the end. */
  readonly #waiting = new Set<() => void>()
  #next = 0
  #client: StreamWriter | undefined
  #readers = 0

  /**
   * @param key - its API key's name and its id, as `keyOf` joins them
   * @param left - fires when its first client has left; absent: it is computed without a client on purpose
   * @param onReaderLeft - called when a later reader has left
   * @param startedAt - milliseconds of the clock
   */
  constructor(
    readonly key: string,
    private readonly clock: Clock,
    private readonly left?: AbortSignal,
    private readonly onReaderLeft: () => void = () => {},
    readonly startedAt = clock.now(),
  ) {}

  /** Fires when the stream has ended. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** Whether it is still computed although all its clients have left. */
  get isLeft(): boolean {
    return this.endedAt === undefined && this.left?.aborted === true && this.#readers === 0
  }

  /** The size of the kept events. */
  get keptBytes(): number {
    return this.bytes - (this.#events[0]?.offset ?? 0)
  }

  /** Begins the answer, with its first reader; default: nobody. */
  open(client?: StreamWriter): void {
    this.isOpen = true
    this.#client = client
  }

  write(event: string): void {
    const text = `id: ${this.#next}\n${event}`
    this.#events.push({ id: this.#next++, offset: this.bytes, text })
    this.bytes += Buffer.byteLength(text)
    while (this.keptBytes > mostBytes && this.#events.length > 1) this.#events.shift()
    this.#client?.write(text)
    this.#wake()
  }

  /** Ends the stream: the answer is complete, or was stopped. */
  end(): void {
    if (this.endedAt !== undefined) return
    this.endedAt = this.clock.now()
    this.#client?.end()
    this.#wake()
    this.#over.abort(this.destroyed ? cancelled('its stream was stopped') : undefined)
  }

  /** Stops the stream before the answer is complete, and the request behind it. */
  cancel(): void {
    if (this.endedAt === undefined) this.destroyed = true
    this.end()
  }

  /** Calls back at once, as the session keeps everything itself. */
  onceDrained(callback: () => void): void {
    callback()
  }

  cut(): void {
    this.#client?.cut()
  }

  /** Whether all events from a place on are still kept. */
  keeps(from: StreamPlace): boolean {
    const { id = 0, offset = 0 } = this.#events[0] ?? {}
    return 'offset' in from ? from.offset >= offset : from.afterId + 1 >= id
  }

  /**
   * Writes all events from a place on, kept and future ones, until the signal fires. A reader so slow that its next
   * event is no longer kept is disconnected.
   */
  async read(from: StreamPlace, writer: StreamWriter, signal: AbortSignal): Promise<void> {
    let place = from
    let wake = (): void => {}
    if (!signal.aborted) this.#readers++
    signal.addEventListener('abort', () => {
      this.#readers--
      this.onReaderLeft()
      wake()
    })
    while (!signal.aborted) {
      if (!this.keeps(place)) return writer.cut()
      const next = this.#nextAt(place)
      if (next !== undefined && !writer.isFull) {
        writer.write(next.text)
        place = { afterId: next.id }
        continue
      }
      if (next === undefined && this.endedAt !== undefined) return
      await new Promise<void>((resolve) => {
        wake = resolve
        if (next === undefined) this.#waiting.add(resolve)
        else writer.onceDrained(resolve)
      })
      this.#waiting.delete(wake)
    }
  }

  /** The first event from a place on; of an event that contains the place, the rest. */
  #nextAt(place: StreamPlace): { readonly id: number; readonly text: string | Buffer } | undefined {
    if ('afterId' in place) return this.#events[place.afterId + 1 - (this.#events[0]?.id ?? 0)]
    const isBehind = ({ offset, text }: KeptEvent) =>
      offset + Buffer.byteLength(text) > place.offset
    const next = this.#events.find(isBehind)
    if (next === undefined || next.offset >= place.offset) return next
    // As bytes: the client may have half a character.
    return { id: next.id, text: Buffer.from(next.text).subarray(place.offset - next.offset) }
  }

  #wake(): void {
    for (const wake of this.#waiting) wake()
  }
}

/** Streams that clients can come back to, by their API key and the id that they sent as `X-Conversation-Id`. */
export class ResumableStreams {
  /** Oldest first: a new stream of an id stays behind the earlier ones until it is accepted. */
  readonly #sessions = new Set<StreamSession>()

  /** @param clock - tells the age of streams */
  constructor(private readonly clock: Clock) {}

  /**
   * Begins the stream of an id, before the request waits for the model, so that its client can already leave, come back
   * and stop it. Earlier streams of the id are stopped once it is accepted; so are the oldest of too many unread ones.
   *
   * @param left - fires when its client has left; absent: it is computed without a client on purpose
   * @throws `invalid_request` for an id that is too long
   */
  begin(keyName: string | undefined, id: string, left?: AbortSignal): StreamSession {
    const isLeft = (each: StreamSession) => each.isLeft && each.key.startsWith(keyOf(keyName, ''))
    const stop = (): void => this.#stop([...this.#sessions].filter(isLeft).slice(0, -mostLeft))
    const session = new StreamSession(keyOf(keyName, id), this.clock, left, stop)
    this.#sessions.add(session)
    left?.addEventListener('abort', stop, { once: true })
    this.#drop()
    return session
  }

  /** Begins the stream of an accepted request; earlier streams of its id are stopped and forgotten. */
  accept(session: StreamSession, client?: StreamWriter): void {
    session.open(client)
    const all = this.#of(session.key)
    this.#stop(all.slice(0, Math.max(0, all.indexOf(session))))
  }

  /**
   * Ends the stream of a failed request, and forgets it unless it had begun; earlier streams of its id stay.
   *
   * @returns the error to answer with: as in llama-server, a request whose stream was stopped before it began fails as
   *   invalid
   */
  fail(session: StreamSession, error: unknown): unknown {
    const wasStopped = session.destroyed && !session.isOpen
    session.cancel()
    if (!session.isOpen) this.#sessions.delete(session)
    if (!wasStopped) return error
    const { message } = cancelled('its stream was stopped before it began')
    return new CllmError('invalid_request', message, { cause: error })
  }

  /** The stream of an id that is in progress, or else its latest; undefined: there is none. */
  find(keyName: string | undefined, id: string): StreamSession | undefined {
    this.#drop()
    const all = this.#of(keyOf(keyName, id))
    return all.find(({ isOpen, endedAt }) => isOpen && endedAt === undefined) ?? all.at(-1)
  }

  /** The latest stream of an id, and of each id that begins with this one and `::`. */
  findAll(keyName: string | undefined, id: string): [id: string, session: StreamSession][] {
    this.#drop()
    const key = keyOf(keyName, id)
    const own = keyOf(keyName, '').length
    const latest = new Map<string, StreamSession>()
    for (const session of this.#sessions) {
      if (session.key !== key && !session.key.startsWith(`${key}::`)) continue
      // moved to the end: the order is by the latest stream of each id
      latest.delete(session.key)
      latest.set(session.key, session)
    }
    return [...latest].map(([name, session]) => [name.slice(own), session])
  }

  /** Stops and forgets the streams of an id, if there are any. */
  stop(keyName: string | undefined, id: string): void {
    this.#stop(this.#of(keyOf(keyName, id)))
  }

  #stop(sessions: readonly StreamSession[]): void {
    for (const session of sessions) session.cancel()
    for (const session of sessions) this.#sessions.delete(session)
  }

  #of(key: string): readonly StreamSession[] {
    return [...this.#sessions].filter((session) => session.key === key)
  }

  /** Forgets streams that ended long ago, and the oldest ended ones if there are too many. */
  #drop(): void {
    const now = this.clock.now()
    let bytes = 0
    for (const session of this.#sessions) {
      const { endedAt, keptBytes } = session
      if (endedAt !== undefined && endedAt + keptMs <= now) this.#sessions.delete(session)
      else bytes += keptBytes
    }
    for (const session of this.#sessions) {
      if (bytes <= mostOfAll && this.#sessions.size <= mostSessions) break
      if (session.endedAt === undefined) continue
      this.#sessions.delete(session)
      bytes -= session.keptBytes
    }
  }
}

const cancelled = (why: string): CllmError =>
  new CllmError('cancelled', `The request was cancelled: ${why}`)

function keyOf(keyName: string | undefined, id: string): string {
  // the quotes show where the name ends, whatever characters it contains
  if (id.length <= longestId) return `${JSON.stringify(keyName ?? '')}${id}`
  throw expectedField('x-conversation-id', `at most ${longestId} characters, got ${id.length}`)
}
