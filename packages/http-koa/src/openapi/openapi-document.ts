import { type ErrorCode, errorTable } from '@cllm/core'
import type { z } from 'zod'
import { formType } from '../body/read-body.js'
import { nativeErrors } from '../errors/error-body.js'
import { type JsonObject, schemaOf } from '../fields/fields.js'
import type { KoaProtocol } from '../routes/koa-context.js'
import type { BoundRoute, ErrorFormat } from '../routes/route.js'
import { rateLimitHeaders } from '../security/rate-limits.js'

/** The description of an API as of the OpenAPI specification 3.1. */
export interface OpenApiDocument {
  readonly openapi: '3.1.0'
  readonly info: {
    readonly title: string
    readonly version: string
    readonly description: string
    readonly license: JsonObject
  }
  readonly servers: readonly JsonObject[]
  readonly security: readonly JsonObject[]
  readonly tags: readonly { readonly name: string; readonly description: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>
  readonly components: JsonObject
}

/** Describes the routes of protocols, from the schemas that check their requests. */
export function openApiDocument(
  protocols: readonly DescribedProtocol[],
  version: string,
): OpenApiDocument {
  const paths: Record<string, Record<string, JsonObject>> = {}
  for (const { name, routes = [], errors } of protocols) {
    for (const route of routes) {
      if (route.isHidden === true) continue
      const operations = (paths[templatePath(route.path)] ??= {})
      // if two protocols have the same route, the first one serves it
      operations[route.method] ??= describeOperation(name, route, errors)
    }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'cLLM',
      version,
      description: 'Every API of this server.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: '/' }],
    // no key, or one in either header: keys are only required if the server has any
    security: [{}, { bearer: [] }, { header: [] }],
    tags: protocols
      .filter(({ routes = [] }) => routes.some(({ isHidden }) => isHidden !== true))
      .map(({ name }) => ({ name, description: `The routes of the protocol ${name}` })),
    paths,
    components: {
      securitySchemes: {
        bearer: { type: 'http', scheme: 'bearer' },
        header: { type: 'apiKey', in: 'header', name: 'x-api-key' },
      },
      headers: describedHeaders,
      schemas: describeErrors(protocols),
    },
  }
}

/** A path in OpenAPI's form: `/v1/models/*id` becomes `/v1/models/{id}`. */
const templatePath = (path: string): string => path.replace(/[:*](\w+)/g, '{$1}')

const header = (description: string, type: string): JsonObject => ({
  description,
  schema: { type },
})

const limits = 'Rate limits of the key: allowed per minute, remaining, seconds until reset'

/** The headers of answers, as components of the description. */
const describedHeaders: JsonObject = {
  'X-Request-Id': header('The id of the request, as in the log', 'string'),
  'Retry-After': header('Seconds to wait before a retry', 'integer'),
  ...Object.fromEntries(rateLimitHeaders.map((name) => [name, header(limits, 'string')])),
}

/** References to some of these headers. */
const headers = (names: readonly string[]): JsonObject =>
  Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))

/** The properties of a protocol that the description needs. */
export type DescribedProtocol = Pick<KoaProtocol, 'name' | 'routes' | 'errors'>

/** The error schema of each protocol, as components of the description. */
function describeErrors(protocols: readonly DescribedProtocol[]): JsonObject {
  const worded = protocols.flatMap(({ errors }) =>
    errors?.schema === undefined ? [] : [[errors.name, schemaOf(errors.schema)] as const],
  )
  return { error: schemaOf(nativeErrors.schema), ...Object.fromEntries(worded) }
}

/** Describes the errors that a route may answer with. */
function describeFailures(route: BoundRoute, errors: ErrorFormat = nativeErrors): JsonObject {
  const { schema: known, name } = route.errors ?? errors
  const schema = { $ref: `#/components/schemas/${known === undefined ? nativeErrors.name : name}` }
  const failure = (description: string, more: readonly string[] = []) => ({
    description,
    headers: headers(['X-Request-Id', ...more]),
    content: content([jsonType], schema),
  })
  const expected = likely(route).map((code) => {
    const { status, description } = errorTable[code]
    const isTimed = status === 429 || status === 503
    return [status, failure(description, isTimed ? ['Retry-After'] : [])] as const
  })
  return {
    ...Object.fromEntries(expected),
    default: failure('Any other failure; its code is in docs/errors.md'),
  }
}

/** The likely errors of a route, one code per status. */
function likely({ method, path, access, body, form, query }: BoundRoute): ErrorCode[] {
  const takes = body !== undefined || form !== undefined
  const codes: [applies: boolean, code: ErrorCode][] = [
    [takes || query !== undefined, 'invalid_request'],
    [access !== 'open', 'unauthenticated'],
    [true, 'origin_not_allowed'],
    [access === 'admin' || access === 'metrics', 'forbidden'],
    [(body ?? form)?.shape['model'] !== undefined, 'model_not_found'],
    [/[:*]/.test(path), 'not_found'],
    [takes, 'body_too_large'],
    [body !== undefined, 'unsupported_media_type'],
    [method === 'post', 'queue_full'],
    [true, 'head_too_large'],
    [true, 'shutting_down'],
  ]
  return codes.flatMap(([applies, code]) => (applies ? [code] : []))
}

/** Describes a route as an OpenAPI operation. */
function describeOperation(tag: string, route: BoundRoute, errors: ErrorFormat | undefined) {
  const { method, path, summary, access, form, body = form } = route
  const { answers = [jsonType], statuses = [200] } = route
  const name = path.replace(/\W+/g, ' ').trim().replaceAll(' ', '_')
  const parameters = [...pathParameters(route), ...queryParameters(route)]
  const takes = body && content([form === undefined ? jsonType : formType], schemaOf(body))
  const success = {
    description: 'The answer',
    headers: headers(['X-Request-Id', ...(method === 'post' ? rateLimitHeaders : [])]),
    content: content(answers, {}),
  }
  return {
    operationId: `${tag}_${method}_${name === '' ? 'root' : name}`.replaceAll('-', '_'),
    tags: [tag],
    summary,
    ...(access === 'open' ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(takes && { requestBody: { required: true, content: takes } }),
    responses: {
      ...Object.fromEntries(statuses.map((status) => [status, success])),
      ...describeFailures(route, errors),
    },
  }
}

const jsonType = 'application/json'

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
    ...(!(schema as z.ZodType).isOptional() && { required: true }),
    schema: schemaOf(schema as z.ZodType),
  }))
