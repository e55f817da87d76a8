import type { IncomingHttpHeaders } from 'node:http'
import { CllmError } from '@cllm/core'
import type {
  EngineDirectory,
  Protocol,
  TransportContext,
  Services,
  GenerateEvent,
  GenerateRequest,
} from '@cllm/core'
import type { RouterContext, RouterInstance } from '@koa/router'
import type { BodyBudget, CountedBody } from '../body/body-budget.js'
import type { KeyAccess, KeyRing } from '../security/api-key.js'
import type { ResumableStreams } from '../stream/resumable-streams.js'
import type { BoundRoute, ErrorFormat, Match } from './route.js'

/** The services that the driver gets from its transport, as `ctx.state.transport`. */
export interface TransportServices extends Services {
  /** The largest body that is read, in bytes. */
  readonly bodyLimitBytes: number
  /** Counts the bytes of the bodies of all requests in progress. */
  readonly bodies: BodyBudget
  /** How deep the JSON of a body may be nested. */
  readonly jsonDepthLimit: number
  /** Bytes of a stream that a client may leave unread. */
  readonly streamLimitBytes: number
  /** Milliseconds without reading after which a client loses the rest of a complete answer. */
  readonly stallMs: number
  /** Streams that clients can come back to. */
  readonly streams: ResumableStreams
}

/** The `ctx.state` of every request. */
export interface KoaState extends CountedBody {
  /** The id of its answer and its log lines, or a new one if another request in progress has that id. */
  id: string
  transport: TransportServices
  /** The routes at its path. */
  match: Match
  /** The route that handles it, once one does. */
  route?: BoundRoute
  /** The name of the API key that authenticated it. */
  keyName?: string
  /** The code of the error that it was answered with, if it was. */
  errorCode?: string
  /** Why the server disconnected its client, if it did. */
  cutReason?: CllmError
}

/** The `ctx` of the driver, and of routes that a protocol mounts itself. */
export type KoaContext = RouterContext<KoaState>

/** The router of `@koa/router` that protocols may add routes of their own to. */
export type KoaRouter = RouterInstance<KoaState>

/** What a transport passes to its protocols before it listens. */
export interface KoaTransportContext extends TransportContext {
  /** The API keys and their limits, for work that runs later, such as batches; absent without keys. */
  readonly access?: KeyAccess
}

/** A protocol for {@link KoaTransport}. */
export interface KoaProtocol extends Protocol<KoaRouter> {
  /** A definition is no protocol: what its `create` makes is one. */
  readonly create?: never
  readonly routes?: readonly BoundRoute[]
  /** The error format of its routes. Default: the native API's. */
  readonly errors?: ErrorFormat
  /** Paths such as `/v1`, below which unknown paths fail in this protocol's format. Its routes' paths are added. */
  readonly under?: readonly string[]
  /** The number of answers that it should have stored but could not, by model: a metric. */
  readonly unkept?: ReadonlyMap<string, number>
  /**
   * The keys that let clients in, on a server that has no others. Its engines share no cached prefixes between tenants
   * then; those of a cluster's workers need `--isolate-tenants`, and an embedded `createEngine` its `isolateTenants`.
   * Beyond loopback the server needs `--allow-unauthenticated`, as its settings do not know these keys.
   *
   * @example
   * // signed tokens, with `jwtVerify` of jose; limits count by `hash`, and batches go on for keys that `withHash` finds
   * keys: {
   *   async find(secret) {
   *     const { payload } = await jwtVerify(secret, publicKey).catch(() => ({ payload: undefined }))
   *     if (payload?.sub === undefined) return undefined
   *     return { name: payload.sub, tenant: payload.sub, role: 'user', hash: hashKey(payload.sub) }
   *   },
   *   withHash: () => undefined,
   * }
   */
  readonly keys?: KeyRing
  /** Makes observers for the requests of all protocols of the transport. */
  observe?(context: KoaTransportContext): RequestObserver | readonly RequestObserver[]
  /** Wraps the handling of each request, such as to run it in a trace's context; has to call `handle`. */
  within?(headers: IncomingHttpHeaders, handle: () => Promise<void>): Promise<void>
  /** Wraps the engines of all protocols of the transport, such as to add further names for models. */
  around?(engines: EngineDirectory, context: KoaTransportContext): EngineDirectory
  /** Starts the protocol's background work; called once, before listening. */
  start?(engines: EngineDirectory, context: KoaTransportContext): void
  /** Called once, after the last answer, such as to send what waits. The server waits for it for one and a half seconds. */
  close?(): void | Promise<void>
}

/** A request submitted to an engine. */
export interface ObservedRequest {
  /** The name of the engine's model. */
  readonly model: string
  /** As the engine gets it, with the tenant of its API key. */
  readonly request: GenerateRequest
  /** Milliseconds of the clock. */
  readonly at: number
  /** The name of its API key, if it has one. */
  readonly key?: string | undefined
}

/** Observes one request. Errors of its methods are logged, and the request goes on. */
export interface RequestWatch {
  /** An event of the request, with the time of the clock. */
  onEvent(event: GenerateEvent, now: number): void
  /** The request ended or failed: with `cancelled` if its client left, {@link goesOn} if another one continues it. */
  onEnd(now: number, error?: CllmError): void
}

/**
 * The reason with which the signal of a request aborts if another one, marked `continued`, goes on with it later: a
 * batch made room for a client, or reasoning reached its budget.
 */
export const goesOn = new CllmError('cancelled', 'The request goes on as another one')

/** Watches nothing. */
export const unwatched: RequestWatch = Object.freeze({ onEvent() {}, onEnd() {} })

/** An input that was embedded, or failed. */
export interface EmbeddedInput {
  readonly model: string
  /** The number of tokens; 0 if it failed. */
  readonly tokens: number
  /** Milliseconds from the call to the result. */
  readonly ms: number
  readonly error?: CllmError
  /** The name of the API key, and its tenant, if there is one. */
  readonly key?: string | undefined
  readonly tenant?: string | undefined
}

/** Observes every request that any protocol submits to an engine. */
export interface RequestObserver {
  /** A request is submitted. An error thrown here fails the request. */
  onSubmit(request: ObservedRequest): RequestWatch
  /** An input is to be embedded. An error thrown here fails it. */
  onEmbed?(): void
  /** An input was embedded, or failed. */
  onEmbedded?(input: EmbeddedInput): void
  /** The policy was changed. */
  onPolicy?(model: string, policy: string): void
}
