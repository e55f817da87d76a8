/** Bytes of a stream that are kept; the oldest events go first. */
const mostBytes = 4 * 2 ** 20

/** An event of a stream. */
interface KeptEvent {
  readonly id: number
  /** Where it begins in the whole stream, in bytes. */
  readonly offset: number
  readonly text: string
}

/** A place in a stream: behind an event, or at a byte. */
export type StreamPlace =
  /** The event behind which the rest begins. */
  | { readonly afterId: number }
  /** In the whole stream, in bytes. */
  | { readonly offset: number }

/** Someone who reads a stream while it is written. */
export interface StreamReader {
  /** Takes an event, or the rest of one. */
  write(text: string): void
  /** No more comes. */
  end(): void
  /** Whether what is written now only waits: of what is kept, no more is written before it is drained. */
  readonly isFull: boolean
  /** Calls back when it is full no longer. */
  onceDrained(callback: () => void): void
  /** It has read so slowly that what comes next is kept no longer. */
  cut(): void
}

/** The events of one streamed answer, kept so that a client can come back to it. */
export class StreamSession {
  readonly #events: KeptEvent[] = []
  readonly #readers = new Set<StreamReader>()
  readonly #onOver: (() => void)[] = []
  #next = 0
  #bytes = 0
  /** Where the kept events begin. */
  #dropped = 0
  #endedAt: number | undefined
  #isCancelled = false
  #isOpen = false

  /** @param startedAt - milliseconds since the epoch */
  constructor(readonly startedAt: number) {}

  /** When it ended, in milliseconds since the epoch; undefined while it is written. */
  get endedAt(): number | undefined {
    return this.#endedAt
  }

  /** Whether it was ended before the answer was complete. */
  get isCancelled(): boolean {
    return this.#isCancelled
  }

  /** Whether its answer has begun, so that there is something to read, now or later. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /** Its answer begins: the request was accepted. */
  open(): void {
    this.#isOpen = true
  }

  /** Bytes of the whole stream so far. */
  get bytes(): number {
    return this.#bytes
  }

  /** Bytes that are kept of it. */
  get keptBytes(): number {
    return this.#bytes - this.#dropped
  }

  /** Adds an event and returns it with its id. */
  add(event: string): string {
    const text = `id: ${this.#next}\n${event}`
    this.#events.push({ id: this.#next++, offset: this.#bytes, text })
    this.#bytes += Buffer.byteLength(text)
    while (this.keptBytes > mostBytes && this.#events.length > 1) {
      this.#events.shift()
      this.#dropped = this.#events[0]!.offset
    }
    for (const reader of this.#readers) reader.write(text)
    return text
  }

  /** Calls back when no more is written, by itself or by {@link cancel}. */
  onOver(callback: () => void): void {
    if (this.#endedAt === undefined) this.#onOver.push(callback)
    else callback()
  }

  /** The answer is complete. */
  end(now: number): void {
    if (this.#endedAt !== undefined) return
    this.#endedAt = now
    for (const reader of this.#readers) reader.end()
    this.#readers.clear()
    for (const callback of this.#onOver.splice(0)) callback()
  }

  /** Ends it before the answer is complete, which stops the request behind it. */
  cancel(now: number): void {
    if (this.#endedAt === undefined) this.#isCancelled = true
    this.end(now)
  }

  /** Whether all from there on is kept. */
  keeps(from: StreamPlace): boolean {
    return 'offset' in from
      ? from.offset >= this.#dropped
      : from.afterId + 1 >= (this.#events[0]?.id ?? 0)
  }

  /**
   * Reads all that is kept from an event or a byte on, and what is still to come.
   *
   * @returns what ends the reading
   */
  read(from: StreamPlace, reader: StreamReader): () => void {
    let hasLeft = false
    let place = from
    const goOn = (): void => {
      if (hasLeft) return
      for (;;) {
        if (!this.keeps(place)) return reader.cut()
        const next = this.#nextAt(place)
        if (next === undefined) break
        if (reader.isFull) return reader.onceDrained(goOn)
        reader.write(next.text)
        place = { afterId: next.id }
      }
      if (this.#endedAt === undefined) this.#readers.add(reader)
      else reader.end()
    }
    goOn()
    return () => {
      hasLeft = true
      this.#readers.delete(reader)
    }
  }

  /** The first event from there on, or the rest of it. */
  #nextAt(place: StreamPlace): { readonly id: number; readonly text: string } | undefined {
    if ('afterId' in place) return this.#events[place.afterId + 1 - (this.#events[0]?.id ?? 0)]
    const isBehind = ({ offset, text }: KeptEvent) =>
      offset + Buffer.byteLength(text) > place.offset
    const next = this.#events.find(isBehind)
    if (next === undefined || next.offset >= place.offset) return next
    const rest = Buffer.from(next.text).subarray(place.offset - next.offset)
    return { id: next.id, text: rest.toString() }
  }
}
