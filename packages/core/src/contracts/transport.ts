import type { Services } from './clock.js'
import type { EngineDirectory } from './engine/engine-directory.js'

/** A family of routes (the native API, OpenAI's, …) that shares a transport with others. */
export interface Protocol<Router = unknown> {
  readonly name: string
  /** Adds routes of its own to the transport's router. Called once, before listening. Default: it has none. */
  mount?(router: Router, directory: EngineDirectory): void
}

/** Where it can be reached. */
export interface TransportAddress {
  /** Such as `http://127.0.0.1:8080`. */
  readonly url: string
}

/** Brings requests in and answers out: HTTP, a socket, a queue. */
export interface Transport {
  readonly name: string
  /** Resolves when requests can come. */
  listen(): Promise<TransportAddress>
  /**
   * Answers new requests with `shutting_down` from now on, readiness probes among them; what is under
   * way goes on. Called before {@link close}, so that load balancers see it.
   */
  drain?(): void
  /**
   * Takes no new connections, lets what is under way finish until `deadline` (milliseconds of the
   * clock), then cuts it.
   */
  close(deadline: number): Promise<void>
}

/** What a server gives its transports. */
export interface TransportContext extends Services {
  readonly directory: EngineDirectory
}

/** Makes a transport for a server; see `createServer`. */
export type TransportFactory = (context: TransportContext) => Transport
