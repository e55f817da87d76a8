import { CllmError } from '@cllm/core'
import getRawBody from 'raw-body'
import { isDeeperThan } from './security/json-depth.js'
import { jsonErrorPosition } from './json-error-position.js'
import type { KoaContext } from './koa-context.js'

/** A JSON object. */
export type JsonObject = Readonly<Record<string, unknown>>

/**
 * The JSON object in a request's body. A body without a content type is taken for JSON.
 *
 * Throws `unsupported_media_type`, `body_too_large`, or `invalid_json` with the place of the error.
 */
export async function readJsonBody(ctx: KoaContext): Promise<JsonObject> {
  checkContentType(ctx)
  const text = decodeUtf8(await readBody(ctx))
  if (text.trim() === '')
    throw new CllmError('invalid_json', 'Expected a JSON object, instead got no body')
  const value = parseJson(text)
  const { jsonDepthLimit } = ctx.state.transport
  if (isDeeperThan(text, jsonDepthLimit)) {
    const message = `Expected JSON of at most ${jsonDepthLimit} levels, instead got more`
    throw new CllmError('invalid_json', message, { details: { limit: jsonDepthLimit } })
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    const received =
      value === null ? 'null' : Array.isArray(value) ? 'an array' : `a ${typeof value}`
    throw new CllmError('invalid_json', `Expected a JSON object, instead got ${received}`)
  }
  return value as JsonObject
}

function checkContentType(ctx: KoaContext): void {
  const type = ctx.get('Content-Type')
  if (type !== '') {
    const media = ctx.request.type.toLowerCase()
    if (media !== 'application/json' && !media.endsWith('+json'))
      throw unsupported('Content-Type: application/json', type)
    const { charset } = ctx.request
    if (charset !== '' && !/^utf-?8$/i.test(charset)) throw unsupported('charset=utf-8', charset)
  }
  const encoding = ctx.get('Content-Encoding')
  if (encoding !== '' && encoding !== 'identity') {
    throw unsupported('a body without Content-Encoding', encoding)
  }
}

function unsupported(expected: string, received: string): CllmError {
  return new CllmError('unsupported_media_type', `Expected ${expected}, instead got ${received}`)
}

async function readBody(ctx: KoaContext): Promise<Buffer> {
  const limit = ctx.state.transport.bodyLimitBytes
  const length = ctx.get('Content-Length')
  try {
    return await getRawBody(ctx.req, { limit, ...(length === '' ? {} : { length }) })
  } catch (error) {
    if ((error as getRawBody.RawBodyError).type !== 'entity.too.large') throw error
    throw new CllmError(
      'body_too_large',
      `Expected a body of at most ${limit} bytes, instead got more`,
      {
        details: { limit },
        cause: error,
      },
    )
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

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    const position = jsonErrorPosition(text)
    const where =
      position === undefined ? '' : ` at line ${position.line}, column ${position.column}`
    throw new CllmError('invalid_json', `Invalid JSON${where}: ${(error as Error).message}`, {
      ...(position === undefined ? {} : { details: { ...position } }),
      cause: error,
    })
  }
}
