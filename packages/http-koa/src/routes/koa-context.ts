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
import type { BodyBudget } from '../body/body-budget.js'
import type { KeyAccess } from '../security/secure.js'
import type { StreamSession } from '../stream/resume/stream-session.js'
import type { StreamSessions } from '../stream/resume/stream-sessions.js'
import type { ApiRoute } from './api-route.js'

/** The services that handlers find at `ctx.state.transport`. */
export interface TransportServices {
  readonly clock: Clock
  readonly logger: Logger
  readonly random: Random
  /** The largest body that is read, in bytes. */
  readonly bodyLimitBytes: number
  /** Counts the bodies of the requests in progress. */
  readonly bodies: BodyBudget
  /** How deep the JSON of a body may be nested. */
  readonly jsonDepthLimit: number
  /** Bytes of a stream that a client may leave unread. */
  readonly streamLimitBytes: number
  /** Milliseconds without reading after which a client loses the rest of a complete answer. */
  readonly stallMs: number
  /** Streams that clients can come back to. */
  readonly streams: StreamSessions
}

/** The `ctx.state` of every request. */
export interface KoaState {
  transport: TransportServices
  /** The name of the API key that authenticated it. */
  keyName?: string
  /** Why the server disconnected its client, if it did. */
  cutReason?: CllmError
  /** The stream of its answer, where the client can come back to it. */
  session?: StreamSession
}

/** The `ctx` of a handler. */
export type KoaContext = RouterContext<KoaState>

/** The router of `@koa/router` that protocols add their routes to. */
export type KoaRouter = RouterInstance<KoaState>

/** The error format of a protocol. */
export interface ErrorShape {
  /** Whether errors at this path have this format, including those of unknown routes. */
  covers(path: string): boolean
  /** The status of a failure's answer; default: that of the error table. */
  status?(error: CllmError): number
  /** The body of a failure's answer, sent as JSON. */
  body(error: CllmError): unknown
  /** The schema of the body, for the OpenAPI description. */
  readonly schema?: z.ZodObject
}

/** What a transport tells its protocols before they are mounted. */
export interface KoaTransportContext extends TransportContext {
  /** The API keys and their limits, for what is computed later; absent without keys. */
  readonly access?: KeyAccess
}

/** A protocol for {@link KoaTransport}. */
export interface KoaProtocol extends Protocol<KoaRouter> {
  /** The error format. Default: the native API's. */
  readonly errors?: ErrorShape
  /** The routes as the OpenAPI description lists them; see `openApiProtocol`. */
  readonly routes?: readonly ApiRoute[]
  /** Wraps the engines for all protocols of the transport, to observe their requests. */
  around?(directory: EngineDirectory, context: KoaTransportContext): EngineDirectory
}
