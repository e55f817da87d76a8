import { z } from 'zod'
import type { KoaProtocol } from '../koa-context.js'
import type { JsonObject } from '../read-json-body.js'
import type { ApiRoute } from '../request/api-route.js'

/** The description of an API by the OpenAPI specification 3.1. */
export interface OpenApiDocument {
  readonly openapi: '3.1.0'
  readonly info: { readonly title: string; readonly version: string; readonly description: string }
  readonly tags: readonly { readonly name: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, JsonObject>>>>
}

/** Describes the routes of protocols, from the schemas that check their requests. */
export function openApiDocument(
  protocols: readonly Pick<KoaProtocol, 'name' | 'routes'>[],
  version: string,
): OpenApiDocument {
  const paths: Record<string, Record<string, JsonObject>> = {}
  for (const { name, routes = [] } of protocols) {
    for (const route of routes) {
      const operations = (paths[templatePath(route.path)] ??= {})
      // where two claim a path, the first one has it
      operations[route.method] ??= operation(name, route)
    }
  }
  return {
    openapi: '3.1.0',
    info: { title: 'cLLM', version, description: 'Every API of this server.' },
    tags: protocols.filter(({ routes }) => routes !== undefined).map(({ name }) => ({ name })),
    paths,
  }
}

/** `/v1/models/*id` is `/v1/models/{id}` there. */
const templatePath = (path: string): string => path.replace(/[:*](\w+)/g, '{$1}')

function operation(tag: string, { method, path, summary, body, answers }: ApiRoute): JsonObject {
  const parameters = Array.from(path.matchAll(/[:*](\w+)/g), ([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: { type: 'string' },
  }))
  const content = (types: readonly string[], schema: JsonObject) =>
    Object.fromEntries(types.map((type) => [type, { schema }]))
  const name = path.replace(/\W+/g, ' ').trim().replaceAll(' ', '_')
  return {
    operationId: `${tag}_${method}_${name === '' ? 'root' : name}`.replaceAll('-', '_'),
    tags: [tag],
    summary,
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(body === undefined
      ? {}
      : {
          requestBody: { required: true, content: content(['application/json'], schemaOf(body)) },
        }),
    responses: {
      200: { description: 'The answer', content: content(answers ?? ['application/json'], {}) },
      ...(body === undefined
        ? {}
        : { 400: { description: 'A field is wrong; the body says which' } }),
      default: { description: 'A failure, in the words of this API' },
    },
  }
}

function schemaOf(schema: z.ZodObject): JsonObject {
  const { $schema: _, ...described } = z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'any',
  })
  return described
}
