import {
  CllmError,
  type Clock,
  type EngineDirectory,
  type Logger,
  type OpenOptions,
  type Random,
} from '@cllm/core'
import type { KoaContext } from './koa-context.js'
import type { Readable } from 'node:stream'
import { type JsonObject, readJsonBody, readJsonList } from '../body/read-json-body.js'
import { allowUpload } from '../server/create-http-server.js'
import type { StreamSessions } from '../stream/resume/stream-sessions.js'
import type { Call, IncomingBody, OpenedModel } from './call.js'

/**
 * A signal that fires when the connection closes: the client left, was cut off, or has its answer. Where
 * the client can come back to its stream, it fires when that is over or was stopped.
 */
export function abortOnClose(ctx: KoaContext): AbortSignal {
  const controller = new AbortController()
  const abort = () => {
    const isStopped = ctx.state.session?.isCancelled === true
    controller.abort(isStopped ? stopped() : ctx.state.cutReason)
  }
  const onClose = () => {
    // also one that has begun since
    const { session } = ctx.state
    if (session === undefined) abort()
    else session.onOver(abort)
  }
  ctx.state.session?.onOver(abort)
  if (ctx.res.destroyed) onClose()
  else ctx.res.once('close', onClose)
  return controller.signal
}

const stopped = () =>
  new CllmError('cancelled', 'The request was cancelled: its stream was stopped')

/** What the driver has found out about a request. */
interface CheckedRequest {
  readonly fields: unknown
  readonly query: unknown
  readonly params: Readonly<Record<string, string>>
  readonly engines: EngineDirectory
}

/** A client's request. */
export class HttpCall implements Call, IncomingBody {
  readonly fields: unknown
  readonly query: unknown
  readonly params: Readonly<Record<string, string>>
  readonly engines: EngineDirectory
  readonly #ctx: KoaContext
  #signal: AbortSignal | undefined

  constructor(ctx: KoaContext, { fields, query, params, engines }: CheckedRequest) {
    this.#ctx = ctx
    this.fields = fields
    this.query = query
    this.params = params
    this.engines = engines
  }

  get path(): string {
    return this.#ctx.path
  }

  get id(): string {
    return this.#ctx.response.get('X-Request-Id')
  }

  get keyName(): string | undefined {
    return this.#ctx.state.keyName
  }

  get signal(): AbortSignal {
    return (this.#signal ??= abortOnClose(this.#ctx))
  }

  get logger(): Logger {
    return this.#ctx.state.transport.logger
  }

  get clock(): Clock {
    return this.#ctx.state.transport.clock
  }

  get random(): Random {
    return this.#ctx.state.transport.random
  }

  get bodyLimitBytes(): number {
    return this.#ctx.state.transport.bodyLimitBytes
  }

  get streams(): StreamSessions {
    return this.#ctx.state.transport.streams
  }

  get takesGzip(): boolean {
    return this.#ctx.acceptsEncodings('gzip', 'identity') === 'gzip'
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

  get body(): IncomingBody {
    return this
  }

  async object(): Promise<JsonObject> {
    return await readJsonBody(this.#ctx)
  }

  async list(): Promise<readonly unknown[]> {
    return await readJsonList(this.#ctx)
  }

  get stream(): Readable {
    return this.#ctx.req
  }

  get type(): string {
    return this.#ctx.get('Content-Type')
  }

  get length(): string {
    return this.#ctx.get('Content-Length')
  }

  allowUpload(): void {
    allowUpload(this.#ctx.req)
  }

  count(): (bytes: number) => void {
    return this.#ctx.state.transport.bodies.begin(this.#ctx)
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
