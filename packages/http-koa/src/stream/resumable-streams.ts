import { CllmError, type Clock } from '@cllm/core'
import { expectedField } from '../request/refusals.js'

/** Takes the parts of a streamed answer. */
export interface StreamWriter {
  /** Sends a part. */
  write(text: string | Uint8Array): void
  /** Bytes that the client has not read, besides the operating system's buffers. */
  readonly unread: number
  /** Whether nobody reads what is written. */
  readonly destroyed: boolean
  /** Whether what is written only waits for the client. */
  readonly isFull: boolean
  /** Calls back when it is full no longer; a client that reads nothing for a minute is disconnected. */
  onceDrained(callback: () => void): void
  /** Ends the answer, where that is not left to the driver. */
  end(): void
  /** Disconnects the client: it cannot have the rest. */
  cut(): void
}

/** Bytes that are kept of a stream; its oldest events go first. */
const mostBytes = 4 * 2 ** 20
/** Milliseconds for which a complete stream is kept. */
const keptMs = 5 * 60_000
/** Bytes of all streams, and their number. */
const mostOfAll = 64 * 2 ** 20
const mostSessions = 1000
const longestId = 512
/** Streams of a key that are computed while nobody reads them. */
const mostLeft = 16

/** An event of a stream. */
interface KeptEvent {
  readonly id: number
  /** Where it begins in the whole stream, in bytes. */
  readonly offset: number
  readonly text: string
}

/** A place in a stream. */
export type StreamPlace =
  /** The event behind which the rest begins. */
  | { readonly afterId: number }
  /** In the whole stream, in bytes. */
  | { readonly offset: number }

/**
 * One streamed answer whose events are kept, so that its client can come back to it. The protocol writes
 * to it as to a client, and goes on when the client leaves.
 */
export class StreamSession implements StreamWriter {
  readonly unread = 0
  readonly isFull = false
  /** Whether its answer has begun, so that there is something to read, now or later. */
  isOpen = false
  /** Whether it was ended before the answer was complete: nobody will read what is written. */
  destroyed = false
  /** When it ended, in milliseconds of the clock; undefined while it is written. */
  endedAt: number | undefined
  /** Bytes of the whole stream so far. */
  bytes = 0
  readonly #over = new AbortController()
  readonly #events: KeptEvent[] = []
  /** Those who wait for the next event, or the end. */
  readonly #waiting = new Set<() => void>()
  #next = 0
  #client: StreamWriter | undefined
  #readers = 0

  /**
   * @param key - of its client and its id
   * @param left - fires when its first client has left; absent: it is meant to be computed without one
   * @param onReaderLeft - is called when one who read it again has left
   * @param startedAt - milliseconds of the clock
   */
  constructor(
    readonly key: string,
    private readonly clock: Clock,
    private readonly left?: AbortSignal,
    private readonly onReaderLeft: () => void = () => {},
    readonly startedAt = clock.now(),
  ) {}

  /** Fires when no more is written. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** Whether it is computed while nobody reads it. */
  get isLeft(): boolean {
    return this.endedAt === undefined && this.left?.aborted === true && this.#readers === 0
  }

  /** Bytes that are kept. */
  get keptBytes(): number {
    return this.bytes - (this.#events[0]?.offset ?? 0)
  }

  /** Its answer begins: this client reads it first; default: nobody does. */
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

  /** The answer is complete. */
  end(): void {
    if (this.endedAt !== undefined) return
    this.endedAt = this.clock.now()
    this.#client?.end()
    this.#wake()
    this.#over.abort(this.destroyed ? cancelled('its stream was stopped') : undefined)
  }

  /** Ends it before the answer is complete, which stops the request behind it. */
  cancel(): void {
    if (this.endedAt === undefined) this.destroyed = true
    this.end()
  }

  /** Everything is kept: nobody need wait. */
  onceDrained(callback: () => void): void {
    callback()
  }

  cut(): void {
    this.#client?.cut()
  }

  /** Whether all from there on is kept. */
  keeps(from: StreamPlace): boolean {
    const { id = 0, offset = 0 } = this.#events[0] ?? {}
    return 'offset' in from ? from.offset >= offset : from.afterId + 1 >= id
  }

  /**
   * Writes what is kept from an event or a byte on, and what is still to come, until the signal fires. Who reads so
   * slowly that the next event is kept no longer is disconnected.
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

  /** The first event from there on, or the rest of it. */
  #nextAt(place: StreamPlace): { readonly id: number; readonly text: string | Buffer } | undefined {
    if ('afterId' in place) return this.#events[place.afterId + 1 - (this.#events[0]?.id ?? 0)]
    const isBehind = ({ offset, text }: KeptEvent) =>
      offset + Buffer.byteLength(text) > place.offset
    const next = this.#events.find(isBehind)
    if (next === undefined || next.offset >= place.offset) return next
    // As bytes: a client may have the half of a character.
    return { id: next.id, text: Buffer.from(next.text).subarray(place.offset - next.offset) }
  }

  #wake(): void {
    for (const wake of this.#waiting) wake()
  }
}

/** Streams that clients can come back to, by the id that they sent as `X-Conversation-Id`. Another key's are not found. */
export class ResumableStreams {
  /** Oldest first: a new one of an id waits behind the others until it is accepted. */
  readonly #sessions = new Set<StreamSession>()

  /** @param clock - by which streams grow old */
  constructor(private readonly clock: Clock) {}

  /**
   * Begins the stream of an id, before anything waits for the model: from here on its client can leave, come back and
   * stop it. Earlier ones of the id are stopped when it is accepted; of many that a key has left, the oldest.
   *
   * @param left - fires when its client has left; absent: it is meant to be computed without one
   * @throws `invalid_request` for a wrong id
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

  /** The request is accepted: its stream begins, and those before it are stopped and forgotten. */
  accept(session: StreamSession, client?: StreamWriter): void {
    session.open(client)
    const all = this.#of(session.key)
    this.#stop(all.slice(0, Math.max(0, all.indexOf(session))))
  }

  /**
   * The request failed: its stream ends, and is forgotten unless there was something to read; the others stay.
   *
   * @returns the error to answer with: as with llama-server, who stops a stream that has not begun is told that the
   *   request was wrong
   */
  fail(session: StreamSession, error: unknown): unknown {
    const wasStopped = session.destroyed && !session.isOpen
    session.cancel()
    if (!session.isOpen) this.#sessions.delete(session)
    if (!wasStopped) return error
    const { message } = cancelled('its stream was stopped before it began')
    return new CllmError('invalid_request', message, { cause: error })
  }

  /** The stream of an id that is written, or else the latest, if there is one: others wait to take its place. */
  find(keyName: string | undefined, id: string): StreamSession | undefined {
    this.#drop()
    const all = this.#of(keyOf(keyName, id))
    return all.find(({ isOpen, endedAt }) => isOpen && endedAt === undefined) ?? all.at(-1)
  }

  /** The latest streams of an id, and of this id with `::` and more behind it. */
  findAll(keyName: string | undefined, id: string): [id: string, session: StreamSession][] {
    this.#drop()
    const key = keyOf(keyName, id)
    const own = keyOf(keyName, '').length
    const latest = new Map<string, StreamSession>()
    for (const session of this.#sessions) {
      if (session.key !== key && !session.key.startsWith(`${key}::`)) continue
      // in the order of the latest ones
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

  /** Forgets what has ended long ago, and the oldest ones where there are too many. */
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
  // a name in quotes ends where it ends, whatever signs it has
  if (id.length <= longestId) return `${JSON.stringify(keyName ?? '')}${id}`
  throw expectedField('x-conversation-id', `at most ${longestId} characters, got ${id.length}`)
}
