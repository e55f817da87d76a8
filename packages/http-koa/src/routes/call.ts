import type { Readable } from 'node:stream'
import type { EngineClient, EngineDirectory, OpenOptions, Services } from '@cllm/core'
import type { z } from 'zod'
import type { JsonObject } from '../fields/fields.js'
import type { ResumableStreams } from '../stream/resumable-streams.js'

/** What a handler returns: JSON, or a `Reply` or `StreamReply`; undefined: another route answers. */
export type Answer = object | string | undefined

/** A request's model: its name in the answer, and its engine. */
export interface OpenedModel {
  readonly model: string
  readonly client: EngineClient
}

/** The body of a request whose route has no schema. */
export interface IncomingBody {
  /** A JSON object. */
  object(): Promise<JsonObject>
  /** A JSON array. */
  list(): Promise<readonly unknown[]>
  /** Its bytes, of which the handler reads as many as it wants. */
  readonly stream: Readable
  readonly type: string
  /** What `Content-Length` says, or nothing. */
  readonly length: string
  /** Says that it is a file, which may take long as long as it comes. */
  allowUpload(): void
  /** Counts bytes of a part that has come towards the limit for all bodies. */
  readonly count: (bytes: number) => void
}

/** One request, as a handler sees it: of a client, or a line of a batch. Its logger logs with its id. */
export interface Call<Fields = unknown, Query = unknown> extends Services {
  /** The checked body. */
  readonly fields: Fields
  readonly query: Query
  /** What the route's `:name` and `*name` matched. */
  readonly params: Readonly<Record<string, string>>
  /** The path as the client wrote it. */
  readonly path: string
  /** The id of its answer and of its lines in the log, or its own beside another request of that id; undefined in batches. */
  readonly id: string | undefined
  /** The name of the API key that asks. */
  readonly keyName: string | undefined
  /** Fires when the client left, was cut off, or has its answer. */
  readonly signal: AbortSignal
  /** The engines, to look at without loading anything. */
  readonly engines: EngineDirectory
  readonly body: IncomingBody
  /** Streams that clients can come back to; none in batches. */
  readonly streams: ResumableStreams | undefined
  /**
   * The model of a name, or the server's first one. It stays in memory until the answer is sent.
   *
   * @throws `model_not_found`
   */
  open(model?: string, options?: Omit<OpenOptions, 'until'>): OpenedModel
  /** A header of the request, or an empty text. */
  header(name: string): string
  /** Sets headers of the answer, also of a failure's. */
  set(headers: Readonly<Record<string, string>>): void
  /** The first of these media types that the client takes. */
  accepts(...types: readonly string[]): string | false
  /** Whether the client unpacks gzip. */
  readonly takesGzip: boolean
}

/** A request whose body was checked by this schema. */
export type CallOf<Body extends z.ZodType> = Call<z.output<Body>>

/** A request whose query was checked by this schema, and whose body by none. */
export type QueryCallOf<Query extends z.ZodType> = Call<unknown, z.output<Query>>
