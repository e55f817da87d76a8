import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import { CllmError } from '@cllm/core'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import type { KoaContext } from '../routes/koa-context.js'
import { isObject, type JsonObject, parsedJson, parseFields } from '../fields/fields.js'
import { expectedField } from '../request/refusals.js'
import { z } from 'zod'
import type { Call } from '../routes/route.js'

/** The most values in JSON: parsing tens of millions takes gigabytes and blocks the server for a minute. */
const mostValues = 2 ** 20

/** The deepest nesting of a request's JSON, by default. */
export const defaultJsonDepth = 100

/**
 * The limit that a JSON text exceeds, if any: of nesting levels, or of values. Scans the text before it is parsed, as
 * parsing may take long, and code that works on the parsed value may recurse.
 */
export function exceededBy(text: string, levels: number): string | undefined {
  let [depth, values] = [0, 0]
  for (let index = 0; index < text.length; index++) {
    const sign = text[index]
    // Skips texts at once: images are megabytes, and scanning them would delay other requests.
    if (sign === '"') index = endOfText(text, index)
    else if (sign === '}' || sign === ']') depth--
    else if (sign === ',' || sign === '{' || sign === '[') {
      if (sign !== ',' && ++depth > levels) return `${levels} levels`
      // the first value behind a bracket has no comma
      if (++values === mostValues) return `${mostValues} values`
    }
  }
  return undefined
}

/** The index of the quote that ends the JSON text beginning here: one behind an even number of backslashes. */
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
 * Reads all bytes of a stream.
 *
 * @param length - the expected number of bytes, or an empty text if unknown
 * @param count - called with the number of bytes of each part; an error that it throws ends the reading
 * @param what - the name of what is too large, for the message
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
    // the stream stays open, so that a refusal can still be sent
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
 * Reads the JSON object in a request's body. Any content type is read as JSON in UTF-8, as by Ollama and
 * llama-server, since `curl -d` declares a form.
 *
 * The body may be compressed with gzip, deflate or brotli.
 *
 * @throws `unsupported_media_type`, `body_too_large`, `queue_full` when the bodies of all requests in
 *   progress are too large together, `invalid_json` with the position of the error, or `cancelled`
 *   when the client has left
 */
export async function readJsonBody(ctx: KoaContext, kind?: 'object'): Promise<JsonObject>
/** Reads the JSON array in a request's body, with the same errors. */
export async function readJsonBody(ctx: KoaContext, kind: 'array'): Promise<readonly unknown[]>
export async function readJsonBody(
  ctx: KoaContext,
  kind: 'object' | 'array' = 'object',
): Promise<unknown> {
  const { bodies, bodyLimitBytes, jsonDepthLimit } = ctx.state.transport
  const count = bodies.count.bind(bodies, ctx)
  // Throws if the client has left: reading a destroyed stream would wait forever.
  count(0)
  const encoding = ctx.get('Content-Encoding').toLowerCase()
  const isPlain = encoding === '' || encoding === 'identity'
  const body = isPlain
    ? await readWithin(ctx.req, bodyLimitBytes, ctx.get('Content-Length'), count)
    : await readPacked(ctx, encoding, count)
  count(0)
  if (!isUtf8(body)) {
    const message = 'Expected JSON in UTF-8, instead got bytes that are not UTF-8'
    throw new CllmError('invalid_json', message)
  }
  const text = new TextDecoder().decode(body)
  checkExtent(text, jsonDepthLimit)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw await invalidJson(ctx, kind, text, error as Error)
  }
  if (kind === 'array' ? Array.isArray(value) : isObject(value)) return value
  const received = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`
  throw new CllmError('invalid_json', `Expected a JSON ${kind}, instead got ${received}`)
}

/** @throws `invalid_json` if a text has more nesting levels than `levels`, or too many values to be parsed */
export function checkExtent(text: string, levels: number): void {
  const limit = exceededBy(text, levels)
  if (limit === undefined) return
  throw new CllmError('invalid_json', `Expected JSON of at most ${limit}, instead got more`)
}

/**
 * The value of JSON that a field of a body contains as a text. It needs limits of its own, as the check of the body
 * skips texts.
 *
 * @param what - what the field expects, for the message
 * @throws `invalid_request`
 */
export function parseNested(text: string, field: string, what: string): unknown {
  const limit = exceededBy(text, defaultJsonDepth)
  if (limit !== undefined) throw expectedField(field, `JSON of at most ${limit}, instead got more`)
  const value = parsedJson(text)
  if (value === undefined) throw expectedField(field, what)
  return value
}

const decoders = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress } as const

/** The decompressed body; the limit applies to its decompressed size. */
async function readPacked(ctx: KoaContext, encoding: string, count: (bytes: number) => void) {
  if (!Object.hasOwn(decoders, encoding)) {
    const message = `Expected a Content-Encoding of gzip, deflate or br, instead got ${encoding.slice(0, 40)}`
    throw new CllmError('unsupported_media_type', message)
  }
  // no pipeline: if decompression ended early, it would close the connection before the answer
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
  // Its parser is only loaded when a body is not JSON.
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

/** The most parts of a form, and bytes of each part's head: reading a million would block the server for long. */
const mostParts = 100
const headBytes = 16 * 1024

/** A file of a form. */
export const file = z
  .custom<File>((value) => value instanceof File, 'a file')
  .meta({ type: 'string', format: 'binary' })

/**
 * Reads the fields of a form in a request's body: files and texts, checked by a schema.
 *
 * @throws `invalid_request` for a body that is not a form, `body_too_large` beyond `limit` bytes
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
  const [, boundary = ''] = /;\s*boundary="?((?<=")[^"]*|[^\s";]*)/i.exec(type) ?? []
  checkParts(bytes, `--${boundary}`)
  // with exactly the boundary that was checked
  const headers = { 'content-type': `${formType}; boundary="${boundary}"` }
  const response = new Response(bytes as Uint8Array<ArrayBuffer>, { headers })
  const form = await response.formData().catch((cause: Error) => {
    throw new CllmError('invalid_request', `The form cannot be read: ${cause.message}`, { cause })
  })
  return parseFields(schema, fieldsOf(form))
}

/** @throws `invalid_request` for a form that would take long to read */
function checkParts(bytes: Buffer, mark: string): void {
  // the last mark ends the form
  let parts = -1
  for (let at = bytes.indexOf(mark); at !== -1; at = bytes.indexOf(mark, at + 1)) {
    const head = bytes.subarray(at, at + headBytes)
    const isFine = head.length < headBytes || head.includes('\r\n\r\n')
    if (++parts <= mostParts && isFine) continue
    const limits = `${mostParts} parts with heads of at most ${headBytes} bytes`
    throw new CllmError('invalid_request', `Expected a form of at most ${limits}, instead got more`)
  }
}

/** The fields that are not empty; parts with the same name, such as `include[]`, are joined with commas. */
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
