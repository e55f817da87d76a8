import type { CllmError } from '@cllm/core'

/** What a {@link Reply} has besides its body. */
export interface ReplyOptions {
  /** Default 200. */
  readonly status?: number
  /** The media type, or a file's ending; default: JSON of values, plain text of texts. */
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Where to the client is sent instead of a body. */
  readonly location?: string
}

/** Marks what the driver sends otherwise than as JSON, also where a plug-in has its own copy of this package. */
export const replyKind = Symbol.for('@cllm/http-koa reply')

/** A whole answer that is more than a value with status 200. */
export class Reply {
  readonly [replyKind] = 'whole'

  constructor(
    readonly body: unknown,
    readonly options: ReplyOptions = {},
  ) {}
}

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

/** The media types of streams. */
export const eventStream = 'text/event-stream; charset=utf-8'
/** The media type of a JSON value a line. */
export const jsonLines = 'application/x-ndjson'

/** An answer that is written bit by bit, once its status and headers are sent. */
export class StreamReply {
  readonly [replyKind] = 'stream'

  /**
   * @param type - {@link eventStream}, {@link jsonLines} or another media type
   * @param run - writes it; the answer ends when this resolves
   * @param fail - writes what the client is told when `run` rejects. Default: nothing, and the client is
   *   disconnected, which tells it that something is missing
   */
  constructor(
    readonly type: string,
    readonly run: (writer: StreamWriter) => void | Promise<void>,
    readonly fail?: (error: CllmError, writer: StreamWriter) => void | Promise<void>,
  ) {}
}

/** How a protocol writes the events of an answer. */
export interface Encoder<Event> {
  /** Before the first event. */
  begin?(): void
  /** Writes what an event brings. */
  push(event: Event): void
  /** After the last event. */
  end?(): void | Promise<void>
  /** In place of what is missing. */
  fail(error: CllmError): void | Promise<void>
}

/** Has an encoder write all events. */
export async function encodeAll<Event>(
  encoder: Encoder<Event>,
  events: AsyncIterable<Event>,
): Promise<void> {
  encoder.begin?.()
  for await (const event of events) encoder.push(event)
  await encoder.end?.()
}

/** A stream of what an encoder makes of events. */
export function encoded<Event>(
  type: string,
  events: AsyncIterable<Event>,
  create: (write: (text: string) => void) => Encoder<Event>,
): StreamReply {
  let encoder: Encoder<Event> | undefined
  return new StreamReply(
    type,
    async (writer) => {
      encoder = create((text) => writer.write(text))
      await encodeAll(encoder, events)
    },
    (error) => encoder?.fail(error),
  )
}
