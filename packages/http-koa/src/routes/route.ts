import type { CllmError, EngineClient, EngineDirectory, OpenOptions, Services } from '@cllm/core'
import type { z } from 'zod'
import type { Readable } from 'node:stream'
import type { JsonObject } from '../fields/fields.js'
import type { ResumableStreams, StreamWriter } from '../stream/resumable-streams.js'

/** Who may use a route of a server with API keys: everybody, users, metrics scrapers, or only admins. */
export type Access = 'open' | 'user' | 'metrics' | 'admin'

/** The error format of a protocol. */
export interface ErrorFormat {
  /** The name of its schema in the OpenAPI description. */
  readonly name: string
  /** The HTTP status of an error; default: the status in the error table. */
  status?(error: CllmError): number
  /** The body of an error's answer, sent as JSON. `id` is the id of the answer, if it has one. */
  body(error: CllmError, id?: string): unknown
  /** The schema of the body, for the OpenAPI description. */
  readonly schema?: z.ZodObject
}

/** How one route is matched, checked, answered and described. `Own`: what all handlers of its protocol get. */
export interface Route<Own = never> {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** Such as `/v1/models/*id`: `:name` matches a segment, `*name` the rest. */
  readonly path: string
  readonly summary: string
  /** Who may use it; on a server without keys, everybody. */
  readonly access: Access
  /** The schema of the body; without one the handler may read the body itself. */
  readonly body?: z.ZodObject
  /** The schema of a form with a file, as multipart/form-data; the handler reads it. */
  readonly form?: z.ZodObject
  /**
   * How a body is read. Default: a null counts as absent, and an unknown field is ignored with a warning.
   * `exact`: a null is a value. `strict`: a null is a value, and an unknown field is refused.
   */
  readonly reading?: 'exact' | 'strict'
  /** The schema that query strings are checked with. */
  readonly query?: z.ZodObject
  /** Media types of the answer; default `application/json`. */
  readonly answers?: readonly string[]
  /** The statuses of successful answers; default: only 200. */
  readonly statuses?: readonly number[]
  /** The format of its errors. Default: the protocol's. */
  readonly errors?: ErrorFormat
  /** Whether it answers Anthropic's clients in Anthropic's format; they get its errors in that format, too. */
  readonly isAnthropics?: boolean
  /** Whether the description of the API leaves it out. */
  readonly isHidden?: boolean
  /** Whether it is only logged at debug level, such as a file of the page or a route that is polled. */
  readonly isQuiet?: boolean
  /**
   * Whether it also answers while models load and while the server stops; `html`: those who ask for a page;
   * `loading`: everybody, but only while models load, as it needs none.
   */
  readonly isAlways?: boolean | 'html' | 'loading'
  /** Answers a request. */
  // a method and no property, so that handlers may take calls with the fields of their own schema
  handle(call: Call, own: Own): Answer | Promise<Answer>
}

/** A route of a server, with the value that its handler gets. */
export interface BoundRoute extends Omit<Route, 'handle'> {
  /** The name of its protocol; set by the table of routes. */
  readonly protocol?: string
  /** The value that all handlers of its protocol get; default: none. */
  readonly own?: unknown
  /** Answers a request. */
  handle(call: Call, own?: unknown): Answer | Promise<Answer>
}

/** A route that matches a path, with the values of its parameters. */
export interface MatchedRoute {
  readonly route: BoundRoute
  readonly params: Readonly<Record<string, string>>
}

/** The routes that match a method and a path. */
export interface Match {
  /** The routes of this method, in the order of their protocols. */
  readonly routes: readonly MatchedRoute[]
  /** The methods that the path takes; empty: there is no such path. */
  readonly methods: readonly string[]
  readonly access: Access
  /** The format of its errors. */
  readonly errors: ErrorFormat
}

/** Adds the value that all handlers of a protocol get to its routes. */
export const bindRoutes = <Own>(routes: readonly Route<Own>[], own: Own): readonly BoundRoute[] =>
  routes.map((route) => ({ ...route, own }))

/** Answers a request whose body and query were checked by these schemas. */
export type RouteHandler<Own, Body extends z.ZodObject, Query extends z.ZodObject> = (
  call: Call<z.output<Body>, z.output<Query>>,
  own: Own,
) => Answer | Promise<Answer>

/** The optional properties of a route in a table. */
type RouteMore<Body, Query> = Omit<
  Route,
  'method' | 'path' | 'access' | 'summary' | 'handle' | 'body' | 'query'
> & { readonly body?: Body; readonly query?: Query }

/** A route whose handler is checked against the schemas of its body and its query. */
export const route = <Own, Body extends z.ZodObject, Query extends z.ZodObject>(
  given: Omit<Route, 'handle' | 'body' | 'query'> & {
    readonly body?: Body
    readonly query?: Query
    readonly handle: RouteHandler<Own, Body, Query>
  },
): Route<Own> => given

/** Makes routes of a method, one per line in a protocol's table; their handlers are checked as by {@link route}. */
const routesOf =
  (method: Route['method']) =>
  <Own, Body extends z.ZodObject, Query extends z.ZodObject>(
    path: string,
    access: Access,
    summary: string,
    handle: RouteHandler<Own, Body, Query>,
    more: RouteMore<Body, Query> = {},
  ): Route<Own> => ({ method, path, access, summary, handle, ...more })

/** A `GET` route of a protocol's table. */
export const get = routesOf('get')
/** A `POST` route of a protocol's table. */
export const post = routesOf('post')
/** A `PUT` route of a protocol's table. */
export const put = routesOf('put')
/** A `PATCH` route of a protocol's table. */
export const patch = routesOf('patch')
/** A `DELETE` route of a protocol's table. */
export const del = routesOf('delete')

/** Options for a route whose body may contain nulls as values. */
export const exact = <Body extends z.ZodObject>(body: Body) => ({ body, reading: 'exact' }) as const
/** Options for a route whose body may contain nulls as values, and is refused if it has an unknown field. */
export const strict = <Body extends z.ZodObject>(body: Body) =>
  ({ body, reading: 'strict' }) as const
/** The media types of an answer that comes whole or as server-sent events. */
export const wholeOrEvents = ['application/json', 'text/event-stream'] as const
/** Options for a route whose body chooses between the two by its field `stream`. */
export const streamed = <Body extends z.ZodObject>(body: Body) => ({ body, answers: wholeOrEvents })

/** What a handler returns: a JSON value, a `Reply` or a `StreamReply`; undefined: the next matching route answers. */
export type Answer = object | string | undefined

/** A request's model: its name for the answer, and its engine. */
export interface OpenedModel {
  readonly model: string
  readonly client: EngineClient
}

/** The body of a request whose route has no schema. */
export interface IncomingBody {
  /** Reads a JSON object. */
  object(): Promise<JsonObject>
  /** Reads a JSON array. */
  list(): Promise<readonly unknown[]>
  /** The body's bytes, of which the handler may read as many as it wants. */
  readonly stream: Readable
  readonly type: string
  /** The header `Content-Length`, or an empty text. */
  readonly length: string
  /** Marks the body as a file, which may take long as long as bytes keep arriving. */
  allowUpload(): void
  /** Counts received bytes towards the limit for all bodies. */
  readonly count: (bytes: number) => void
}

/** One request as a handler sees it: from a client, or a line of a batch. Its logger adds its id. */
export interface Call<Fields = unknown, Query = unknown> extends Services {
  /** The checked body. */
  readonly fields: Fields
  readonly query: Query
  /** The parts of the path that the route's `:name` and `*name` matched. */
  readonly params: Readonly<Record<string, string>>
  /** The path as the client wrote it. */
  readonly path: string
  /** The id of its answer and log lines, or a new one if a request in progress has that id; undefined in batches. */
  readonly id: string | undefined
  /** The name of the request's API key. */
  readonly keyName: string | undefined
  /** Fires when the client left, was disconnected, or has its answer. */
  readonly signal: AbortSignal
  /** The engines, for queries that load no model. */
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
  /** Sets headers of the answer, including that of an error. */
  set(headers: Readonly<Record<string, string>>): void
  /** The first of these media types that the client accepts. */
  accepts(...types: readonly string[]): string | false
  /** Whether the client accepts gzip. */
  readonly takesGzip: boolean
}

/** A request whose body was checked by this schema. */
export type CallOf<Body extends z.ZodType> = Call<z.output<Body>>

/** A request whose query was checked by this schema, and whose body by none. */
export type QueryCallOf<Query extends z.ZodType> = Call<unknown, z.output<Query>>

/** The status, headers and other properties of a {@link Reply}. */
export interface ReplyOptions {
  /** Default 200. */
  readonly status?: number
  /** The media type, or a file extension; default: plain text for texts, JSON for other values. */
  readonly type?: string
  readonly headers?: Readonly<Record<string, string>>
  /** The URL that the client is redirected to, in place of a body. */
  readonly location?: string
}

/** Marks answers that are not JSON values; a global symbol, as a plug-in may have its own copy of this package. */
export const replyKind = Symbol.for('@cllm/http-koa reply')

/** A whole answer with a status, headers or a media type of its own. */
export class Reply {
  readonly [replyKind] = 'whole'

  constructor(
    readonly body: unknown,
    readonly options: ReplyOptions = {},
  ) {}
}

/** The media type of server-sent events. */
export const eventStream = 'text/event-stream; charset=utf-8'
/** The media type of one JSON value per line. */
export const jsonLines = 'application/x-ndjson'

/** An answer that is written piece by piece after its status and headers. */
export class StreamReply {
  readonly [replyKind] = 'stream'

  /**
   * @param type - {@link eventStream}, {@link jsonLines} or another media type
   * @param run - writes the answer, which ends when this resolves
   * @param fail - writes the error if `run` rejects. Default: the client is disconnected, so that it knows that
   *   the answer is incomplete
   */
  constructor(
    readonly type: string,
    readonly run: (writer: StreamWriter) => void | Promise<void>,
    readonly fail?: (error: CllmError, writer: StreamWriter) => void | Promise<void>,
  ) {}
}

/** Writes the events of an answer in a protocol's format. */
export interface Encoder<Event> {
  /** Called before the first event. */
  begin?(): void
  /** Writes an event. */
  push(event: Event): void
  /** Called after the last event. */
  end?(): void | Promise<void>
  /** Writes the error that ended the answer early. */
  fail(error: CllmError): void | Promise<void>
}

/** Writes all events with an encoder. */
export async function encodeAll<Event>(encoder: Encoder<Event>, events: AsyncIterable<Event>) {
  encoder.begin?.()
  for await (const event of events) encoder.push(event)
  await encoder.end?.()
}

/** A stream of events as an encoder writes them. */
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
    (error, writer) => {
      // without an encoder the client is disconnected, so that it does not take an empty answer for a complete one
      if (encoder === undefined) return writer.cut()
      return encoder.fail(error)
    },
  )
}
