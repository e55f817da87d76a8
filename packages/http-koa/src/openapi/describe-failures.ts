import { type ErrorCode, errorTable } from '@cllm/core'
import type { JsonObject } from '../fields/fields.js'
import { nativeErrors } from '../errors/error-body.js'
import { schemaOf } from '../fields/fields.js'
import type { KoaProtocol } from '../routes/koa-context.js'
import type { BoundRoute, ErrorFormat } from '../routes/route.js'
import { rateLimitHeaders } from '../security/rate-limits.js'

/** The headers of answers, for the components of a description. */
export const describedHeaders: JsonObject = {
  'X-Request-Id': header('The id of the request, as in the log', 'string'),
  'Retry-After': header('Seconds to wait before a retry', 'integer'),
  ...Object.fromEntries(
    rateLimitHeaders.map((name) => [
      name,
      header(
        'Rate limits of the key: allowed per minute, remaining, seconds until reset',
        'string',
      ),
    ]),
  ),
}

function header(description: string, type: string): JsonObject {
  return { description, schema: { type } }
}

/** References to some of these headers. */
export const headers = (names: readonly string[]): JsonObject =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))

/** The parts of a protocol that are described. */
export type DescribedProtocol = Pick<KoaProtocol, 'name' | 'routes' | 'errors'>

/** The error schema of each protocol, for the components of a description. */
export function describeErrors(protocols: readonly DescribedProtocol[]): JsonObject {
  const worded = protocols.flatMap(({ errors }) =>
    errors?.schema === undefined ? [] : [[errors.name, schemaOf(errors.schema)] as const],
  )
  return { error: schemaOf(nativeErrors.schema), ...Object.fromEntries(worded) }
}

/** The failures that a route may answer with. */
export function describeFailures(
  route: BoundRoute,
  errors: ErrorFormat = nativeErrors,
): JsonObject {
  const { schema: known, name } = route.errors ?? errors
  const schema = { $ref: `#/components/schemas/${known === undefined ? nativeErrors.name : name}` }
  const failure = (description: string, more: readonly string[] = []) => ({
    description,
    headers: headers(['X-Request-Id', ...more]),
    content: { 'application/json': { schema } },
  })
  return {
    ...Object.fromEntries(
      likely(route).map((code) => {
        const { status, description } = errorTable[code]
        return [status, failure(description, status === 429 ? ['Retry-After'] : [])]
      }),
    ),
    default: failure('Any other failure; its code is in docs/errors.md'),
  }
}

/** The likely failures of a route, one code per status. */
function likely({ method, path, access, body, query }: BoundRoute): ErrorCode[] {
  const codes: [applies: boolean, code: ErrorCode][] = [
    [body !== undefined || query !== undefined, 'invalid_request'],
    [access !== 'open', 'unauthenticated'],
    [true, 'origin_not_allowed'],
    [access === 'admin', 'forbidden'],
    [body?.shape['model'] !== undefined, 'model_not_found'],
    [/[:*]/.test(path), 'not_found'],
    [body !== undefined, 'body_too_large'],
    [body !== undefined, 'unsupported_media_type'],
    [method === 'post', 'queue_full'],
    [true, 'head_too_large'],
    [true, 'shutting_down'],
  ]
  return codes.flatMap(([applies, code]) => (applies ? [code] : []))
}
