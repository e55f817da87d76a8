import { type ErrorCode, errorTable } from '@cllm/core'
import { nativeErrors } from '../error-body.js'
import type { JsonObject } from '../read-json-body.js'
import type { ApiRoute } from '../request/api-route.js'
import { isForAdmins, isOpen } from '../security/authenticate.js'
import { rateLimitHeaders } from '../security/rate-limits.js'
import type { DescribedProtocol } from './openapi-document.js'
import { schemaOf } from './schema-of.js'

/** The headers of answers, for the components of a description. */
export const describedHeaders: JsonObject = {
  'X-Request-Id': header('The id of the request, in the log too', 'string'),
  'Retry-After': header('Seconds after which it may be tried again', 'integer'),
  ...Object.fromEntries(
    rateLimitHeaders.map((name) => [
      name,
      header(
        'Where keys have limits: what is allowed in a minute, what is left of it, until when',
        'string',
      ),
    ]),
  ),
}

function header(description: string, type: string): JsonObject {
  return { description, schema: { type } }
}

/** Some of those headers, for an answer that has them. */
export const headers = (names: readonly string[]): JsonObject =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))

/** What failures look like in each protocol's words, for the components of a description. */
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
  const owner = protocols.find(({ errors }) => errors?.covers(route.path))
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

/** The failures that clients of this route meet, one code for each status. */
function likely({ method, path, body, query }: ApiRoute): ErrorCode[] {
  const codes: [applies: boolean, code: ErrorCode][] = [
    [body !== undefined || query !== undefined, 'invalid_request'],
    [!isOpen(method, path), 'unauthenticated'],
    [isForAdmins(path), 'forbidden'],
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
