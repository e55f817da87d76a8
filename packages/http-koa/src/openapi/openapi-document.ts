import type { JsonObject } from '../fields/fields.js'
import { describeOperation } from './describe-operation.js'
import { type DescribedProtocol, describeErrors, describedHeaders } from './describe-failures.js'

/** The description of an API by the OpenAPI specification 3.1. */
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
      // where two have the same route, the first one serves it
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
    // keys are required where the server has any
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

/** `/v1/models/*id` is `/v1/models/{id}` there. */
const templatePath = (path: string): string => path.replace(/[:*](\w+)/g, '{$1}')
