import type { CllmError } from '@cllm/core'
import type { z } from 'zod'
import type { Answer, Call } from './call.js'

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
  /** Default: those of the protocol. */
  readonly errors?: ErrorFormat
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

/** A route whose handler is checked against the schemas of its body and its query. */
export const route = <Own, Body extends z.ZodObject, Query extends z.ZodObject>(
  given: Omit<Route<Own>, 'handle' | 'body' | 'query'> & {
    readonly body?: Body
    readonly query?: Query
    readonly handle: (
      call: Call<z.output<Body>, z.output<Query>>,
      own: Own,
    ) => Answer | Promise<Answer>
  },
): Route<Own> => given

/** What else a route of a table has. */
type RouteMore<Body, Query> = Omit<
  Route,
  'method' | 'path' | 'access' | 'summary' | 'handle' | 'body' | 'query'
> & { readonly body?: Body; readonly query?: Query }

/** Makes routes of a method, one a line in a protocol's table; their handlers are checked as by {@link route}. */
const routesOf =
  (method: Route['method']) =>
  <Own, Body extends z.ZodObject, Query extends z.ZodObject>(
    path: string,
    access: Access,
    summary: string,
    handle: (call: Call<z.output<Body>, z.output<Query>>, own: Own) => Answer | Promise<Answer>,
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
