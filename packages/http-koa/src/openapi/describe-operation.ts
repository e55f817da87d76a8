import type { z } from 'zod'
import type { JsonObject } from '../fields/fields.js'
import { schemaOf } from '../fields/fields.js'
import type { BoundRoute, ErrorFormat } from '../routes/route.js'
import { rateLimitHeaders } from '../security/rate-limits.js'
import { describeFailures, headers } from './describe-failures.js'

/** One route of a protocol as OpenAPI has it. */
export function describeOperation(
  tag: string,
  route: BoundRoute,
  errors: ErrorFormat | undefined,
): JsonObject {
  const { method, path, summary, access, body, answers = ['application/json'] } = route
  const name = path.replace(/\W+/g, ' ').trim().replaceAll(' ', '_')
  const parameters = [...pathParameters(route), ...queryParameters(route)]
  return {
    operationId: `${tag}_${method}_${name === '' ? 'root' : name}`.replaceAll('-', '_'),
    tags: [tag],
    summary,
    ...(access === 'open' ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: { required: true, content: content(['application/json'], schemaOf(body)) },
        }),
    responses: {
      200: {
        description: 'The answer',
        headers: headers(
          method === 'post' ? ['X-Request-Id', ...rateLimitHeaders] : ['X-Request-Id'],
        ),
        content: content(answers, {}),
      },
      ...describeFailures(route, errors),
    },
  }
}

const content = (types: readonly string[], schema: JsonObject): JsonObject =>
  Object.fromEntries(types.map((type) => [type, { schema }]))

const pathParameters = ({ path }: BoundRoute): JsonObject[] =>
  Array.from(path.matchAll(/[:*](\w+)/g), ([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))

const queryParameters = ({ query }: BoundRoute): JsonObject[] =>
  Object.entries(query?.shape ?? {}).map(([name, schema]) => ({
    name,
    in: 'query',
    schema: schemaOf(schema as z.ZodType),
  }))
