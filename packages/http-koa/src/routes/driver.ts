import type { EngineDirectory, Logger } from '@cllm/core'
import type { Middleware } from 'koa'
import { Readable } from 'node:stream'
import { type JsonObject, readJsonBody } from '../body/read-json-body.js'
import { publicError } from '../errors/public-error.js'
import { parseFields, readQuery, type UnknownFields } from '../fields/parse-fields.js'
import { expectedField } from '../request/refusals.js'
import { ClientStream } from '../stream/client-stream.js'
import type { Call } from './call.js'
import { HttpCall, setHeaders } from './http-call.js'
import type { KoaContext, KoaState } from './koa-context.js'
import { eventStream, Reply, StreamReply } from './reply.js'
import type { MatchedRoute } from './route-table.js'
import type { BoundRoute } from './route.js'

/**
 * Answers the requests of all routes: reads the body, checks its fields, calls the handler, and sends what
 * it returns. What is thrown before the answer begins is the error handler's; what is thrown later ends
 * the stream in its protocol's words.
 */
export function serveRoutes(
  engines: EngineDirectory,
  unknown: UnknownFields,
): Middleware<KoaState> {
  return async (context, next) => {
    const ctx = context as KoaContext
    for (const matched of ctx.state.match.routes) {
      try {
        const answer = await ask(ctx, matched, engines, unknown)
        if (answer !== undefined) return await send(ctx, answer)
      } catch (error) {
        throw ctx.state.transport.streams.fail(ctx, error)
      }
    }
    await next()
  }
}

async function ask(
  ctx: KoaContext,
  { route, params }: MatchedRoute,
  engines: EngineDirectory,
  unknown: UnknownFields,
): Promise<object | string | undefined> {
  const { streams, logger } = ctx.state.transport
  const query = route.query === undefined ? {} : readQuery(ctx, route.query)
  const fields =
    route.body === undefined
      ? undefined
      : checkFields(route, await readJsonBody(ctx), unknown, logger)
  // A client can leave, come back and stop its stream from here on, before anything waits for the model.
  if (fields !== undefined && isStreamed(route, fields)) streams.expect(ctx)
  const call: Call = new HttpCall(ctx, { fields, query, params, engines })
  return await route.handle(call)
}

const isStreamed = ({ answers = [] }: BoundRoute, fields: JsonObject): boolean =>
  answers.includes('text/event-stream') && (fields['stream'] === true || answers.length === 1)

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
): Readonly<Record<string, unknown>> | undefined {
  if (schema === undefined) return undefined
  const body = reading === undefined ? withoutNulls(given) : given
  if (reading === 'strict') refuseUnknown(body, schema.shape)
  else unknown.warn(body, schema.shape, logger)
  return parseFields(schema, body)
}

function withoutNulls(body: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== null))
}

/** A field that is not known may be a limit that was misspelt. */
function refuseUnknown(body: JsonObject, known: Readonly<Record<string, unknown>>): void {
  const unknown = Object.keys(body).find((field) => !Object.hasOwn(known, field))
  if (unknown === undefined) return
  throw expectedField(unknown.slice(0, 100), `the fields ${Object.keys(known).join(' and ')} only`)
}

async function send(ctx: KoaContext, answer: object | string): Promise<void> {
  if (StreamReply.isInstance(answer)) await sendStream(ctx, answer)
  else if (Reply.isInstance(answer)) sendReply(ctx, answer)
  else ctx.body = answer
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
  // it is sent bit by bit from here on
  if (body instanceof Readable) ctx.res.setTimeout(ctx.state.transport.stallMs)
}

async function sendStream(ctx: KoaContext, { type, run, fail }: StreamReply): Promise<void> {
  const { streams, logger } = ctx.state.transport
  const isResumable = type === eventStream
  if (isResumable) {
    if (ctx.state.session === undefined) streams.expect(ctx)
    streams.accept(ctx)
  }
  const writer = new ClientStream(ctx, {
    'Content-Type': type,
    ...(isResumable && { 'Cache-Control': 'no-cache' }),
  })
  try {
    await run(writer)
  } catch (error) {
    if (fail === undefined) throw error
    if (!writer.destroyed) fail(publicError(error, logger), writer)
  }
  writer.end()
}
