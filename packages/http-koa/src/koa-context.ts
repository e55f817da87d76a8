import type {
  Clock,
  CllmError,
  EngineDirectory,
  Logger,
  Protocol,
  Random,
  TransportContext,
} from '@cllm/core'
import type { RouterContext, RouterInstance } from '@koa/router'
import type { z } from 'zod'
import type { ApiRoute } from './request/api-route.js'

/** What the transport lends to the handlers of its protocols, as `ctx.state.transport`. */
export interface TransportServices {
  readonly clock: Clock
  readonly logger: Logger
  readonly random: Random
  /** The largest body that is read, in bytes. */
  readonly bodyLimitBytes: number
  /** How deep the JSON of a body may be nested. */
  readonly jsonDepthLimit: number
  /** Bytes of a stream that may wait for a client to take them. */
  readonly streamLimitBytes: number
}

/** The `ctx.state` of every request. */
export interface KoaState {
  transport: TransportServices
  /** The name of the API key that it was let in with. */
  keyName?: string
  /** Why its client was cut off, if it was. */
  cutReason?: CllmError
}

/** The `ctx` of a handler. */
export type KoaContext = RouterContext<KoaState>

/** The router that protocols add their routes to: one of `@koa/router`. */
export type KoaRouter = RouterInstance<KoaState>

/** How a protocol words failures on its paths. */
export interface ErrorShape {
  /** Whether failures at this path, also of routes that do not exist, are worded so. */
  covers(path: string): boolean
  /** The status of a failure's answer; default: that of the error table. */
  status?(error: CllmError): number
  /** The body of a failure's answer, sent as JSON. */
  body(error: CllmError): unknown
  /** What such a body looks like, for the description of the API. */
  readonly schema?: z.ZodObject
}

/** A protocol for {@link KoaTransport}. */
export interface KoaProtocol extends Protocol<KoaRouter> {
  /** Default: as the native API words them. */
  readonly errors?: ErrorShape
  /** What the description of the API says of it; see `openApiProtocol`. */
  readonly routes?: readonly ApiRoute[]
  /** The engines as all protocols are to see them, so that it can follow what they do. */
  around?(directory: EngineDirectory, context: TransportContext): EngineDirectory
}
