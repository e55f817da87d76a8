import { CllmError, defined, messageOf } from '@cllm/core'
import type { EngineDirectory, Logger, OpenOptions } from '@cllm/core'
import type { Middleware } from 'koa'
import { Readable } from 'node:stream'
import { readJsonBody } from '../body/read-body.js'
import { publicError } from '../errors/error-body.js'
import { type JsonObject, parseFields, readQuery, type UnknownFields } from '../fields/fields.js'
import type { CommonFields } from '../fields/generation-fields.js'
import { expectedField } from '../request/refusals.js'
import { allowUpload } from '../server/create-http-server.js'
import { ClientStream } from '../stream/client-stream.js'
import type { StreamSession } from '../stream/resumable-streams.js'
import type { BoundRoute, Call, IncomingBody, OpenedModel, Reply, StreamReply } from './route.js'
import { eventStream, replyKind } from './route.js'
import type { KoaContext, KoaState } from './koa-context.js'

/**
 * Answers the requests of all routes: reads the body, checks its fields, calls the handler, and sends what
 * it returns. An error before the answer begins goes to the error handler; a later one ends the stream in its
 * protocol's error format.
 */
export function serveRoutes(
  engines: EngineDirectory,
  unknown: UnknownFields,
): Middleware<KoaState> {
  return async (context, next) => {
    const ctx = context as KoaContext
    const { keyName, left, match, transport } = ctx.state
    const { streams, logger } = transport
    for (const { route, params } of match.routes) {
      let session: StreamSession | undefined
      ctx.state.route = route
      try {
        const query = route.query === undefined ? {} : readQuery(ctx, route.query)
        const fields = route.body && checkFields(route, await readJsonBody(ctx), unknown, logger)
        const id = ctx.get('X-Conversation-Id')
        if (id !== '' && isStreamedPost(route, fields))
          session = streams.begin(keyName, id, left.signal)
        // a session's client may come back, so its request ends with the answer; others end when their client leaves
        const signal = session?.signal ?? left.signal
        const call = httpCall(ctx, { fields, query, params, engines }, signal)
        const answer = (await route.handle(call, route.own)) as Sent
        if (answer === undefined) continue
        const kind = answer?.[replyKind]
        if (kind === undefined) ctx.body = answer
        else if (kind === 'stream') await sendStream(ctx, answer as StreamReply, session)
        else sendReply(ctx, answer as Reply)
        const { body, res } = ctx
        if (ctx.type !== 'application/json' || res.hasHeader('Content-Length')) return
        if (body instanceof Readable || body instanceof ReadableStream) return
        if (body instanceof Response) return
        try {
          // not left to koa, whose error for a value without JSON would not be in the protocol's format
          ctx.body = JSON.stringify(body)
          if (ctx.body === '{}') checkPlain(body)
        } catch (cause) {
          const message = `${route.method} ${route.path} answered no JSON: ${messageOf(cause)}`
          throw new CllmError('plugin_invalid', message, { cause })
        }
        return
      } catch (error) {
        throw session === undefined ? error : streams.fail(session, error)
      }
    }
    await next()
  }
}

/** What is in a promise, a generator or a map is in no JSON: the client would get an empty object. */
function checkPlain(answer: unknown): void {
  const kind = Object.prototype.toString.call(answer)
  if (kind !== '[object Object]') throw new TypeError(kind)
}

type Sent = undefined | null | { readonly [replyKind]?: 'whole' | 'stream' }

const isStreamedPost = ({ method, answers = [] }: BoundRoute, fields: JsonObject = {}): boolean =>
  method === 'post' &&
  answers.includes('text/event-stream') &&
  (fields['stream'] === true || answers.length === 1)

/**
 * The fields of a body that a route has checked.
 *
 * @throws `invalid_request` with the field at fault
 */
export function checkFields(
  { body: schema, reading }: Pick<BoundRoute, 'body' | 'reading'>,
  given: JsonObject,
  unknown: UnknownFields,
  logger: Logger,
): JsonObject | undefined {
  if (schema === undefined) return undefined
  const body: Record<string, unknown> = { ...given }
  for (const [field, value] of Object.entries(given)) {
    if (reading === undefined && value === null) delete body[field]
    else if (Object.hasOwn(schema.shape, field)) continue
    else if (reading === 'strict') {
      // the field may be a misspelt limit
      const known = Object.keys(schema.shape).join(', ')
      throw expectedField(field.slice(0, 100), `only the fields ${known}`)
    } else unknown.warn(field, logger)
  }
  return parseFields(schema, body)
}

function sendReply(ctx: KoaContext, { body, options }: Reply): void {
  const { status, type, headers, location } = options
  if (headers !== undefined) setHeaders(ctx, headers)
  if (location !== undefined) return ctx.redirect(location)
  if (type !== undefined) ctx.type = type
  ctx.status = status ?? 200
  if (headers?.['ETag'] !== undefined && ctx.fresh) {
    ctx.status = 304
    ctx.remove('Content-Encoding')
  } else if (body !== undefined) ctx.body = body
  // a stream is sent piece by piece from here on
  if (body instanceof Readable) ctx.res.setTimeout(ctx.state.transport.stallMs)
}

async function sendStream(
  ctx: KoaContext,
  { type, run, fail }: StreamReply,
  session: StreamSession | undefined,
): Promise<void> {
  const { streams, logger } = ctx.state.transport
  const caching = type === eventStream && { 'Cache-Control': 'no-cache' }
  const client = new ClientStream(ctx, { 'Content-Type': type, ...caching })
  // its client has the whole answer, and would wait for the end before its connection's next one
  if (ctx.method === 'HEAD') return client.end()
  if (session !== undefined) streams.accept(session, client)
  const writer = session ?? client
  try {
    await run(writer)
  } catch (error) {
    if (fail === undefined) throw error
    if (!writer.destroyed) await fail(publicError(error, logger), writer)
  }
  writer.end()
}

/**
 * A client's request as its handler sees it.
 *
 * @param checked - the parts that the driver has already checked
 * @param signal - fires when nobody wants the answer any more
 */
function httpCall(
  ctx: KoaContext,
  checked: Pick<Call, 'fields' | 'query' | 'params' | 'engines'>,
  signal: AbortSignal,
): Call {
  const { id, keyName, transport } = ctx.state
  const { logger, clock, random, streams } = transport
  return {
    ...checked,
    id,
    path: ctx.path,
    keyName,
    signal,
    logger,
    clock,
    random,
    streams,
    open: (model, options) => {
      const { priority, deadline_ms: deadlineMs } = (checked.fields ?? {}) as CommonFields
      const urgency = defined({ priority, deadlineMs })
      return openModel(checked.engines, model, { until: signal, urgency, ...options })
    },
    header: (name) => ctx.get(name),
    set: (headers) => setHeaders(ctx, headers),
    accepts: (...types) => ctx.accepts(...types),
    get takesGzip() {
      return ctx.acceptsEncodings('gzip', 'identity') === 'gzip'
    },
    get body(): IncomingBody {
      return {
        object: async () => await readJsonBody(ctx),
        list: async () => await readJsonBody(ctx, 'array'),
        stream: ctx.req,
        type: ctx.get('Content-Type'),
        length: ctx.get('Content-Length'),
        allowUpload: () => allowUpload(ctx.req),
        count: (bytes) => transport.bodies.count(ctx, bytes),
      }
    },
  }
}

/** Sets headers of an answer; `Vary` is added to earlier values. */
function setHeaders(ctx: KoaContext, headers: Readonly<Record<string, string>>): void {
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
  return { model: model ?? engines.nameOf(), client }
}
