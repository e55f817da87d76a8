import { createRequire } from 'node:module'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import type { HandledRoute } from '../request/api-route.js'
import { mountRoutes } from '../request/mount-routes.js'
import { docsPage } from './docs-page.js'
import { openApiDocument, type OpenApiDocument } from './openapi-document.js'

/** Settings of {@link openApiProtocol}. */
export interface OpenApiProtocolOptions {
  /** What is described: the protocols that the transport serves. */
  readonly protocols: readonly KoaProtocol[]
  /** Default: the version of this package. */
  readonly version?: string
}

const { version: packageVersion } = createRequire(import.meta.url)('../../package.json') as {
  readonly version: string
}

interface Description {
  readonly document: OpenApiDocument
  readonly page: string
}

const routes: readonly HandledRoute<Description>[] = [
  {
    method: 'get',
    path: '/openapi.json',
    summary: 'This description',
    handle: (ctx, { document }) => void (ctx.body = document),
  },
  {
    method: 'get',
    path: '/docs',
    summary: 'The same as a page',
    answers: ['text/html'],
    handle(ctx, { page }) {
      ctx.type = 'html'
      ctx.body = page
    },
  },
]

/** `GET /openapi.json`, made from the schemas that check the requests, and a page of it at `/docs`. */
export function openApiProtocol({
  protocols,
  version = packageVersion,
}: OpenApiProtocolOptions): KoaProtocol {
  return {
    name: 'openapi',
    routes,
    mount(router: KoaRouter) {
      const described = [...protocols, { name: 'openapi', routes }]
      const document = openApiDocument(described, version)
      mountRoutes(router, routes, { document, page: docsPage(document) })
    },
  }
}
