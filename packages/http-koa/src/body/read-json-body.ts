import { type Readable, pipeline } from 'node:stream'
import { CllmError } from '@cllm/core'
import getRawBody from 'raw-body'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import { refuseGone } from './body-budget.js'
import type { KoaContext } from '../routes/koa-context.js'
import { isObject } from '../fields/fields.js'

const [quote, backslash] = ['"'.charCodeAt(0), '\\'.charCodeAt(0)]
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
  let isInText = false
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (isInText) {
      if (code === backslash) index++
      else if (code === quote) isInText = false
    } else if (code === quote) isInText = true
    else if (openings.has(code)) {
      if (++depth > limit) return true
    } else if (closings.has(code)) depth--
  }
  return false
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
  let onData = (_part: Buffer): void => {}
  const refused = new Promise<never>((_resolve, reject) => {
    onData = (part) => {
      try {
        count(part.length)
      } catch (error) {
        // What still comes is not kept.
        stream.removeAllListeners('data')
        stream.pause()
        reject(error)
      }
    }
  })
  stream.on('data', onData)
  try {
    const whole = getRawBody(stream, { limit, ...(length === '' ? {} : { length }) })
    return await Promise.race([whole, refused])
  } catch (error) {
    if ((error as getRawBody.RawBodyError).type !== 'entity.too.large') throw error
    const message = `Expected a ${what} of at most ${limit} bytes, instead got more`
    throw new CllmError('body_too_large', message, { details: { limit }, cause: error })
  } finally {
    stream.off('data', onData)
  }
}

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>

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
export async function readJsonBody(ctx: KoaContext): Promise<JsonObject> {
  const value = await readJson(ctx, 'object')
  if (isObject(value)) return value
  throw wrongKind('object', value)
}

/** The same for a JSON array. */
export async function readJsonList(ctx: KoaContext): Promise<readonly unknown[]> {
  const value = await readJson(ctx, 'array')
  if (Array.isArray(value)) return value
  throw wrongKind('array', value)
}

function wrongKind(expected: string, value: unknown): CllmError {
  const received = value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`
  return new CllmError('invalid_json', `Expected a JSON ${expected}, instead got ${received}`)
}

async function readJson(ctx: KoaContext, kind: string): Promise<unknown> {
  // A stream that has been destroyed tells nobody any more.
  refuseGone(ctx)
  const body = await readBody(ctx, bodyOf(ctx))
  refuseGone(ctx)
  const text = decodeUtf8(body)
  if (text.trim() === '')
    throw new CllmError('invalid_json', `Expected a JSON ${kind}, instead got no body`)
  const value = await parseJson(text, ctx)
  const { jsonDepthLimit } = ctx.state.transport
  if (isDeeperThan(text, jsonDepthLimit)) {
    const message = `Expected JSON of at most ${jsonDepthLimit} levels, instead got more`
    throw new CllmError('invalid_json', message, { details: { limit: jsonDepthLimit } })
  }
  return value
}

const decoders = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress } as const

/** What a body is read through: its own stream, or what unpacks it. */
function bodyOf(ctx: KoaContext): Readable {
  const encoding = ctx.get('Content-Encoding').toLowerCase()
  if (encoding === '' || encoding === 'identity') return ctx.req
  if (!Object.hasOwn(decoders, encoding)) {
    const message = `Expected a Content-Encoding of gzip, deflate or br, instead got ${encoding.slice(0, 40)}`
    throw new CllmError('unsupported_media_type', message)
  }
  const decoder = decoders[encoding as keyof typeof decoders]()
  // what goes wrong on the way is thrown where it is read
  return pipeline(ctx.req, decoder, () => {})
}

async function readBody(ctx: KoaContext, stream: Readable): Promise<Buffer> {
  const limit = ctx.state.transport.bodyLimitBytes
  const isPacked = stream !== ctx.req
  const length = isPacked ? '' : ctx.get('Content-Length')
  try {
    // the limit is for what is unpacked
    return await readWithin(stream, limit, length, ctx.state.transport.bodies.begin(ctx))
  } catch (error) {
    if (isPacked && /^Z_|^ERR_/.test(String((error as { code?: unknown }).code))) {
      throw new CllmError('invalid_json', 'The body is not packed as its Content-Encoding says', {
        cause: error,
      })
    }
    throw error
  }
}

function decodeUtf8(body: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(body)
  } catch (error) {
    throw new CllmError(
      'invalid_json',
      'Expected JSON in UTF-8, instead got bytes that are not UTF-8',
      {
        cause: error,
      },
    )
  }
}

async function parseJson(text: string, ctx: KoaContext): Promise<unknown> {
  try {
    return JSON.parse(text)
  } catch (error) {
    // Its parser is loaded by the first body that is no JSON.
    const { jsonErrorPosition } = await import('./json-error-position.js')
    const position = jsonErrorPosition(text)
    const where =
      position === undefined ? '' : ` at line ${position.line}, column ${position.column}`
    const type = ctx.get('Content-Type')
    // a body declared as another type may be meant as that type
    const declared = type === '' || /json/i.test(type) ? '' : ` (Content-Type: ${type})`
    const message = `Invalid JSON${where}: ${(error as Error).message}${declared}`
    throw new CllmError('invalid_json', message, {
      ...(position === undefined ? {} : { details: { ...position } }),
      cause: error,
    })
  }
}
