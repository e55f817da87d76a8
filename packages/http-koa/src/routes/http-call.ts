import type { Clock, EngineDirectory, Logger, OpenOptions, Random } from '@cllm/core'
import { type JsonObject, readJsonBody, readJsonList } from '../body/read-json-body.js'
import { allowUpload } from '../server/create-http-server.js'
import type { ResumableStreams } from '../stream/resumable-streams.js'
import type { Call, IncomingBody, OpenedModel } from './call.js'
import type { KoaContext } from './koa-context.js'

/** A client's request. */
export class HttpCall implements Call {
  readonly fields: unknown
  readonly query: unknown
  readonly params: Readonly<Record<string, string>>
  readonly engines: EngineDirectory
  readonly path: string
  readonly id: string
  readonly keyName: string | undefined
  readonly logger: Logger
  readonly clock: Clock
  readonly random: Random
  readonly streams: ResumableStreams
  readonly signal: AbortSignal
  readonly #ctx: KoaContext

  /**
   * @param checked - what the driver has found out about it
   * @param until - fires when the answer is over, of a client that may leave meanwhile; default: when the
   *   client left, was cut off, or has its answer
   */
  constructor(
    ctx: KoaContext,
    checked: Pick<Call, 'fields' | 'query' | 'params' | 'engines'>,
    until?: AbortSignal,
  ) {
    this.#ctx = ctx
    this.fields = checked.fields
    this.query = checked.query
    this.params = checked.params
    this.engines = checked.engines
    this.path = ctx.path
    this.id = ctx.state.id
    this.keyName = ctx.state.keyName
    const { logger, clock, random, streams } = ctx.state.transport
    this.logger = logger
    this.clock = clock
    this.random = random
    this.streams = streams
    this.signal = until ?? ctx.state.left.signal
  }

  open(model?: string, options: Omit<OpenOptions, 'until'> = {}): OpenedModel {
    return openModel(this.engines, model, { until: this.signal, ...options })
  }

  header(name: string): string {
    return this.#ctx.get(name)
  }

  set(headers: Readonly<Record<string, string>>): void {
    setHeaders(this.#ctx, headers)
  }

  accepts(...types: readonly string[]): string | false {
    return this.#ctx.accepts(...types)
  }

  get takesGzip(): boolean {
    return this.#ctx.acceptsEncodings('gzip', 'identity') === 'gzip'
  }

  get body(): IncomingBody {
    const ctx = this.#ctx
    return {
      object: async (): Promise<JsonObject> => await readJsonBody(ctx),
      list: async () => await readJsonList(ctx),
      stream: ctx.req,
      type: ctx.get('Content-Type'),
      length: ctx.get('Content-Length'),
      allowUpload: () => allowUpload(ctx.req),
      count: (bytes) => ctx.state.transport.bodies.count(ctx, bytes),
    }
  }
}

/** Sets headers of an answer; `Vary` adds to what others have said. */
export function setHeaders(ctx: KoaContext, headers: Readonly<Record<string, string>>): void {
  const { Vary: vary, ...others } = headers
  if (vary !== undefined) ctx.vary(vary)
  ctx.set(others)
}

/** @throws `model_not_found` */
export function openModel(
  engines: EngineDirectory,
  model: string | undefined,
  options?: OpenOptions,
): OpenedModel {
  const client = engines.open(model, options)
  return { model: model ?? engines.list()[0] ?? '', client }
}
