import type { CllmError, EngineClient, EngineDirectory, OpenOptions, Services } from '@cllm/core'
import type { z } from 'zod'
import type { Readable } from 'node:stream'
import type { JsonObject } from '../fields/fields.js'
import type { ResumableStreams, StreamWriter } from '../stream/resumable-streams.js'

/** Who may use a route of a server with API keys: everybody, a user's key, a scraper's, or only an admin's. */
export type Access = 'open' | 'user' | 'metrics' | 'admin'

/** The error format of a protocol. */
export interface ErrorFormat {
  /** Names its schema in the OpenAPI description. */
  readonly name: string
  /** The status of a failure's answer; default: that of the error table. */
  status?(error: CllmError): number
  /** The body of a failure's answer, sent as JSON. The id is that of the answer, where it has one. */
  body(error: CllmError, id?: string): unknown
  /** The schema of the body, for the OpenAPI description. */
  readonly schema?: z.ZodObject
}

/**
 * One route: how it is matched, who may use it, how its request is checked, and how it is answered and
 * described. `Own` is what its protocol's handlers share.
 */
export interface Route<Own = never> {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** `/v1/models/*id`: `:name` matches a segment, `*name` the rest. */
  readonly path: string
  readonly summary: string
  /** Without keys everybody may use every route. */
  readonly access: Access
  /** The schema of the body; without one the handler may read the body itself. */
  readonly body?: z.ZodObject
  /** The schema of a form with a file, as multipart/form-data; the handler reads it. */
  readonly form?: z.ZodObject
  /**
   * How a body is read. Default: a null counts as absent, and an unknown field is ignored with a warning.
   * `exact`: a null is a value; `strict`: so, and an unknown field is refused.
   */
  readonly reading?: 'exact' | 'strict'
  /** The schema that query strings are checked with. */
  readonly query?: z.ZodObject
  /** Media types of the answer; default `application/json`. */
  readonly answers?: readonly string[]
  /** The status of an answer that succeeds; default 200 alone. */
  readonly statuses?: readonly number[]
  /** Default: those of the protocol. */
  readonly errors?: ErrorFormat
  /** Whether it answers Anthropic's clients in their own form, and so its failures, too. */
  readonly isAnthropics?: boolean
  /** Whether the description of the API leaves it out. */
  readonly isHidden?: boolean
  /** Whether it is a file of the page or asked for every few seconds, and so logged at debug level only. */
  readonly isQuiet?: boolean
  /** Whether it answers while models load and while the server stops. */
  readonly isAlways?: boolean
  /** Answers a request. */
  // a method: a handler takes the call of its own schema
  handle(call: Call, own: Own): Answer | Promise<Answer>
}

/** A route of a server, with what its handler needs. */
export interface BoundRoute extends Omit<Route, 'handle'> {
  /** What the handlers of its protocol share; default: nothing. */
  readonly own?: unknown
  /** Answers a request. */
  handle(call: Call, own?: unknown): Answer | Promise<Answer>
}

/** A route that a path matches, with what its parameters stand for. */
export interface MatchedRoute {
  readonly route: BoundRoute
  readonly params: Readonly<Record<string, string>>
}

/** What is served at a path. */
export interface Match {
  /** The routes of this method, in the order of their protocols. */
  readonly routes: readonly MatchedRoute[]
  /** The methods that the path takes; none: there is no such path. */
  readonly methods: readonly string[]
  readonly access: Access
  /** The format of its failures. */
  readonly errors: ErrorFormat
}

/** Binds what the handlers of a protocol share. */
export const bindRoutes = <Own>(routes: readonly Route<Own>[], own: Own): readonly BoundRoute[] =>
  routes.map((route) => ({ ...route, own }))

/** Answers a request whose body and query were checked by these schemas. */
export type RouteHandler<Own, Body extends z.ZodObject, Query extends z.ZodObject> = (
  call: Call<z.output<Body>, z.output<Query>>,
  own: Own,
) => Answer | Promise<Answer>

/** What else a route of a table has. */
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

/** Makes routes of a method, one a line in a protocol's table; their handlers are checked as by {@link route}. */
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

/** A body of which a null is a value, for a route's table. */
export const exact = <Body extends z.ZodObject>(body: Body) => ({ body, reading: 'exact' }) as const
/** The same, which is refused where it has an unknown field. */
export const strict = <Body extends z.ZodObject>(body: Body) =>
  ({ body, reading: 'strict' }) as const
/** The media types of an answer that comes whole or as server-sent events. */
export const wholeOrEvents = ['application/json', 'text/event-stream'] as const
/** A body whose `stream` says which of both it is. */
export const streamed = <Body extends z.ZodObject>(body: Body) => ({ body, answers: wholeOrEvents })

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
export async function encodeAll<Event>(encoder: Encoder<Event>, events: AsyncIterable<Event>) {
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
    (error) => {
      // without one the client is disconnected: it must not take nothing for the whole answer
      if (encoder === undefined) throw error
      return encoder.fail(error)
    },
  )
}
