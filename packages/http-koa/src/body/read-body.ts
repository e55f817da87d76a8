import type { Readable } from 'node:stream'
import { CllmError } from '@cllm/core'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import type { KoaContext } from '../routes/koa-context.js'
import { isObject, type JsonObject, parsedJson, parseFields } from '../fields/fields.js'
import { expectedField } from '../request/refusals.js'
import { z } from 'zod'
import type { Call } from '../routes/route.js'

const quote = '"'.charCodeAt(0)
const openings = new Set(['{', '['].map((bracket) => bracket.charCodeAt(0)))
const closings = new Set(['}', ']'].map((bracket) => bracket.charCodeAt(0)))

/** Levels of a request's JSON at most, where no other limit is set. */
export const defaultJsonDepth = 100

/**
 * Whether JSON is nested deeper than a limit. Reads the text, since code that works on the parsed
 * value may recurse.
 */
export function isDeeperThan(text: string, limit: number): boolean {
  let depth = 0
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    // An image is megabytes of text, which others would wait for.
    if (code === quote) index = endOfText(text, index)
    else if (openings.has(code)) {
      if (++depth > limit) return true
    } else if (closings.has(code)) depth--
  }
  return false
}

/** Where the text ends whose first quote is here: a quote behind an odd number of backslashes is a part of it. */
function endOfText(text: string, start: number): number {
  let end = text.indexOf('"', start + 1)
  for (; end !== -1; end = text.indexOf('"', end + 1)) {
    let first = end
    while (text[first - 1] === '\\') first--
    if ((end - first) % 2 === 0) return end
  }
  return text.length
}

/**
 * All bytes of a stream.
 *
 * @param length - how many it will be, where that is known
 * @param count - takes the bytes of each part as it comes; what it throws ends the reading
 * @param what - what is too large, in the message
 * @throws `body_too_large` beyond `limit` bytes
 */
export async function readWithin(
  stream: Readable,
  limit: number,
  length: string,
  count: (bytes: number) => void,
  what = 'body',
): Promise<Buffer> {
  const parts: Buffer[] = []
  let bytes = 0
  if (Number(length) <= limit) {
    // a refusal is still to be sent: the stream stays open
    for await (const part of stream.iterator({ destroyOnReturn: false })) {
      bytes += (part as Buffer).length
      if (bytes > limit) break
      count((part as Buffer).length)
      parts.push(part as Buffer)
    }
    if (bytes <= limit) return Buffer.concat(parts)
  }
  const message = `Expected a ${what} of at most ${limit} bytes, instead got more`
  throw new CllmError('body_too_large', message, { details: { limit } })
}

/**
 * The JSON object in a request's body. Any content type is read as JSON in UTF-8, as Ollama and
 * llama-server do: `curl -d` declares a form.
 *
 * It may be packed with gzip, deflate or brotli.
 *
 * @throws `unsupported_media_type`, `body_too_large`, `queue_full` when the bodies of all requests in
 *   progress are too large together, `invalid_json` with the position of the error, or `cancelled`
 *   when the client has left
 */
export async function readJsonBody(ctx: KoaContext, kind?: 'object'): Promise<JsonObject>
/** The same for a JSON array. */
export async function readJsonBody(ctx: KoaContext, kind: 'array'): Promise<readonly unknown[]>
export async function readJsonBody(
  ctx: KoaContext,
  kind: 'object' | 'array' = 'object',
): Promise<unknown> {
  const { bodies, bodyLimitBytes, jsonDepthLimit } = ctx.state.transport
  const count = bodies.count.bind(bodies, ctx)
  // A stream that has been destroyed tells nobody any more.
  count(0)
  const encoding = ctx.get('Content-Encoding').toLowerCase()
  const isPlain = encoding === '' || encoding === 'identity'
  const body = isPlain
    ? await readWithin(ctx.req, bodyLimitBytes, ctx.get('Content-Length'), count)
    : await readPacked(ctx, encoding, count)
  count(0)
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch (cause) {
    const message = 'Expected JSON in UTF-8, instead got bytes that are not UTF-8'
    throw new CllmError('invalid_json', message, { cause })
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw await invalidJson(ctx, kind, text, error as Error)
  }
  checkDepth(text, jsonDepthLimit)
  if (kind === 'array' ? Array.isArray(value) : isObject(value)) return value
  const received = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`
  throw new CllmError('invalid_json', `Expected a JSON ${kind}, instead got ${received}`)
}

/** @throws `invalid_json` where a text has more levels than this */
export function checkDepth(text: string, limit = defaultJsonDepth): void {
  if (!isDeeperThan(text, limit)) return
  const message = `Expected JSON of at most ${limit} levels, instead got more`
  throw new CllmError('invalid_json', message, { details: { limit } })
}

/**
 * The value of JSON that a field of a body holds as a text, which the limit of the body's own depth does
 * not look into.
 *
 * @param what - what the field expects, for the message
 * @throws `invalid_request`
 */
export function parseNested(text: string, field: string, what: string): unknown {
  const value = parsedJson(text)
  if (value === undefined) throw expectedField(field, what)
  if (!isDeeperThan(text, defaultJsonDepth)) return value
  const message = `${field}: expected JSON of at most ${defaultJsonDepth} levels, instead got more`
  throw new CllmError('invalid_request', message, { details: { field, limit: defaultJsonDepth } })
}

const decoders = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress } as const

/** The unpacked body; the limit is for that. */
async function readPacked(ctx: KoaContext, encoding: string, count: (bytes: number) => void) {
  if (!Object.hasOwn(decoders, encoding)) {
    const message = `Expected a Content-Encoding of gzip, deflate or br, instead got ${encoding.slice(0, 40)}`
    throw new CllmError('unsupported_media_type', message)
  }
  // no pipeline: where unpacking ends early, it would end the connection before its answer
  const unpacked = decoders[encoding as keyof typeof decoders]()
  ctx.req.once('error', (error) => unpacked.destroy(error))
  try {
    return await readWithin(ctx.req.pipe(unpacked), ctx.state.transport.bodyLimitBytes, '', count)
  } catch (cause) {
    if (!/^Z_|^ERR_/.test(String((cause as { code?: unknown }).code))) throw cause
    const message = 'The body is not packed as its Content-Encoding says'
    throw new CllmError('invalid_json', message, { cause })
  } finally {
    ctx.req.unpipe(unpacked)
    unpacked.destroy()
  }
}

async function invalidJson(ctx: KoaContext, kind: string, text: string, error: Error) {
  if (text.trim() === '') {
    return new CllmError('invalid_json', `Expected a JSON ${kind}, instead got no body`)
  }
  // Its parser is loaded by the first body that is no JSON.
  const { jsonErrorPosition } = await import('./json-error-position.js')
  const position = jsonErrorPosition(text)
  const where = position === undefined ? '' : ` at line ${position.line}, column ${position.column}`
  const type = ctx.get('Content-Type')
  // a body declared as another type may be meant as that type
  const declared = type === '' || /json/i.test(type) ? '' : ` (Content-Type: ${type})`
  const message = `Invalid JSON${where}: ${error.message}${declared}`
  const details = position && { details: { ...position } }
  return new CllmError('invalid_json', message, { ...details, cause: error })
}

/** The media type of forms with files. */
export const formType = 'multipart/form-data'

/** A file of a form. */
export const file = z
  .custom<File>((value) => value instanceof File, 'a file')
  .meta({ type: 'string', format: 'binary' })

/**
 * The fields of a form in a request's body: files and texts, checked by a schema.
 *
 * @throws `invalid_request` for what is no form, `body_too_large` beyond `limit` bytes
 */
export async function readForm<Schema extends z.ZodObject>(
  { body }: Pick<Call, 'body'>,
  schema: Schema,
  limit: number,
): Promise<z.output<Schema>> {
  const { type } = body
  if (!type.toLowerCase().startsWith(formType)) {
    const got = type === '' ? 'no type' : type.slice(0, 64)
    throw expectedField('file', `${formType} with a file, got ${got}`)
  }
  body.allowUpload()
  const bytes = await readWithin(body.stream, limit, body.length, body.count, 'file')
  try {
    const headers = { 'content-type': type }
    const form = await new Response(bytes as Uint8Array<ArrayBuffer>, { headers }).formData()
    return parseFields(schema, fieldsOf(form))
  } catch (error) {
    if (CllmError.isInstance(error)) throw error
    const message = `The form cannot be read: ${(error as Error).message}`
    throw new CllmError('invalid_request', message, { cause: error })
  }
}

/** Without those that are empty; the parts of a list, such as `include[]`, with commas between them. */
function fieldsOf(form: FormData): Record<string, unknown> {
  const fields = new Map<string, string | File>()
  for (const [key, value] of form) {
    const name = key.replace(/\[\w*\]$/, '')
    const before = fields.get(name)
    const isListed = typeof before === 'string' && typeof value === 'string'
    if (value !== '') fields.set(name, isListed ? `${before},${value}` : value)
  }
  return Object.fromEntries(fields)
}
