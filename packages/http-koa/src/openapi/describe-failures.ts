import { type ErrorCode, errorTable } from '@cllm/core'
import { nativeErrors } from '../errors/error-body.js'
import { errorOwner } from '../errors/error-owner.js'
import type { JsonObject } from '../body/read-json-body.js'
import type { ApiRoute } from '../routes/api-route.js'
import { isForAdmins, isOpen } from '../security/authenticate.js'
import { rateLimitHeaders } from '../security/rate-limits.js'
import type { DescribedProtocol } from './openapi-document.js'
import { schemaOf } from '../fields/schema-of.js'

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

/** The error schema of each protocol, for the components of a description. */
export function describeErrors(protocols: readonly DescribedProtocol[]): JsonObject {
  const worded = protocols.flatMap(({ name, errors }) =>
    errors?.schema === undefined ? [] : [[`${name}-error`, schemaOf(errors.schema)] as const],
  )
  return { error: schemaOf(nativeErrors.schema), ...Object.fromEntries(worded) }
}

/** The failures that a route may answer with. */
export function describeFailures(
  route: ApiRoute,
  protocols: readonly DescribedProtocol[],
): JsonObject {
  const owner = errorOwner(protocols, route.path)
  const name = owner?.errors?.schema === undefined ? 'error' : `${owner.name}-error`
  const schema = { $ref: `#/components/schemas/${name}` }
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
function likely({ method, path, body, query }: ApiRoute): ErrorCode[] {
  const codes: [applies: boolean, code: ErrorCode][] = [
    [body !== undefined || query !== undefined, 'invalid_request'],
    [!isOpen(method, path), 'unauthenticated'],
    [true, 'origin_not_allowed'],
    [isForAdmins(method, path), 'forbidden'],
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
