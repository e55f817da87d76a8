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
import type { KeyAccess } from '../security/api-key.js'
import type { ResumableStreams } from '../stream/resumable-streams.js'
import type { BoundRoute, ErrorFormat, Match } from './route.js'

/** What the driver needs of its transport, at `ctx.state.transport`. */
export interface TransportServices extends Services {
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
  readonly streams: ResumableStreams
}

/** The `ctx.state` of every request. */
export interface KoaState extends CountedBody {
  /** The id of its answer and of its lines in the log, unless another request under way has that one. */
  id: string
  transport: TransportServices
  /** What is served at its path. */
  match: Match
  /** The name of the API key that authenticated it. */
  keyName?: string
  /** Why the server disconnected its client, if it did. */
  cutReason?: CllmError
}

/** The `ctx` of the driver, and of routes that a protocol mounts itself. */
export type KoaContext = RouterContext<KoaState>

/** The router of `@koa/router` that protocols may add routes of their own to. */
export type KoaRouter = RouterInstance<KoaState>

/** What a transport tells its protocols before it listens. */
export interface KoaTransportContext extends TransportContext {
  /** The API keys and their limits, for what is computed later; absent without keys. */
  readonly access?: KeyAccess
}

/** A protocol for {@link KoaTransport}. */
export interface KoaProtocol extends Protocol<KoaRouter> {
  readonly routes?: readonly BoundRoute[]
  /** The error format of its routes. Default: the native API's. */
  readonly errors?: ErrorFormat
  /** Paths below which unknown ones fail in this protocol's format, such as `/v1`. Its routes are such paths. */
  readonly under?: readonly string[]
  /** How many answers it should have kept and could not, by model: a metric. */
  readonly unkept?: ReadonlyMap<string, number>
  /** What observes the requests of all protocols of the transport. */
  observe?(context: KoaTransportContext): RequestObserver | readonly RequestObserver[]
  /** Runs what answers each request, such as in a trace's context. */
  within?(headers: IncomingHttpHeaders, handle: () => Promise<void>): Promise<void>
  /** Other engines for all protocols of the transport, such as models under further names. */
  around?(engines: EngineDirectory, context: KoaTransportContext): EngineDirectory
  /** Begins what it does besides answering; called once, before listening. */
  start?(engines: EngineDirectory, context: KoaTransportContext): void
}

/** A request submitted to an engine. */
export interface ObservedRequest {
  /** The name of the engine's model. */
  readonly model: string
  readonly request: GenerateRequest
  /** Milliseconds of the clock. */
  readonly at: number
}

/** Observes one request. What its methods throw is logged, and fails nothing. */
export interface RequestWatch {
  /** An event of the request, with the time of the clock. */
  onEvent(event: GenerateEvent, now: number): void
  /** The request ended or failed; `cancelled` when its client left, {@link goesOn} when the rest is another request. */
  onEnd(now: number, error?: CllmError): void
}

/**
 * Ends a request that goes on later as another one, which is `continued`: a batch made room for a client, or thoughts
 * reached their budget. Its signal aborts with this, as the reason.
 */
export const goesOn = new CllmError('cancelled', 'The request goes on as another one')

/** Watches nothing. */
export const unwatched: RequestWatch = Object.freeze({ onEvent() {}, onEnd() {} })

/** An input that was embedded, or failed. */
export interface EmbeddedInput {
  readonly model: string
  /** 0 where it failed. */
  readonly tokens: number
  /** Milliseconds from asking to having. */
  readonly ms: number
  readonly error?: CllmError
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
