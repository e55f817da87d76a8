import type { Clock, Logger, Protocol, Random } from '@cllm/core'
import type { RouterContext, RouterInstance } from '@koa/router'

/** What the transport lends to the handlers of its protocols, as `ctx.state.transport`. */
export interface TransportServices {
  readonly clock: Clock
  readonly logger: Logger
  readonly random: Random
  /** The largest body that is read, in bytes. */
  readonly bodyLimitBytes: number
}

/** The `ctx.state` of every request. */
export interface KoaState {
  transport: TransportServices
}

/** The `ctx` of a handler. */
export type KoaContext = RouterContext<KoaState>

/** The router that protocols add their routes to: one of `@koa/router`. */
export type KoaRouter = RouterInstance<KoaState>

/** A protocol for {@link KoaTransport}. */
export type KoaProtocol = Protocol<KoaRouter>
