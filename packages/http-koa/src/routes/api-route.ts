import type { z } from 'zod'
import type { KoaContext } from './koa-context.js'

/** One route of a protocol, as it is served and described. */
export interface ApiRoute {
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete'
  /** In the router's form: `/v1/models/:id`. */
  readonly path: string
  readonly summary: string
  /** The schema that bodies are checked with. */
  readonly body?: z.ZodObject
  /** The schema that query strings are checked with. */
  readonly query?: z.ZodObject
  /** Media types of the answer; default `application/json`. */
  readonly answers?: readonly string[]
}

/** A route with its handler. */
export interface HandledRoute<Context> extends ApiRoute {
  /** Answers a request. */
  readonly handle: (ctx: KoaContext, context: Context) => void | Promise<void>
}
