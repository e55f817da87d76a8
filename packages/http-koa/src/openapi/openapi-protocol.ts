import { createRequire } from 'node:module'
import type { KoaProtocol, KoaRouter } from '../routes/koa-context.js'
import { defineProtocol } from '../routes/define-protocol.js'
import type { HandledRoute } from '../routes/api-route.js'
import { mountRoutes } from '../routes/mount-routes.js'
import { docsPage } from './docs-page.js'
import { openApiDocument, type OpenApiDocument } from './openapi-document.js'

/** Settings of {@link openApiProtocol}. */
export interface OpenApiProtocolOptions {
  /** The protocols to describe: those of the transport. */
  readonly protocols: readonly KoaProtocol[]
  /** Default: the version of this package. */
  readonly version?: string
}

const { version: packageVersion } = createRequire(import.meta.url)('../../package.json') as {
  readonly version: string
}

/** Made for the first who asks: it takes a tenth of the server's start. */
class Description {
  #document: OpenApiDocument | undefined

  constructor(private readonly describe: () => OpenApiDocument) {}

  get document(): OpenApiDocument {
    return (this.#document ??= this.describe())
  }
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
    summary: 'This description as a page',
    answers: ['text/html'],
    handle(ctx, { document }) {
      ctx.type = 'html'
      ctx.body = docsPage(document)
    },
  },
]

/** `GET /openapi.json`, generated from the schemas that check the requests, and a page at `/docs`. */
export function openApiProtocol({
  protocols,
  version = packageVersion,
}: OpenApiProtocolOptions): KoaProtocol {
  return {
    name: 'openapi',
    routes,
    mount(router: KoaRouter) {
      const others = protocols.filter(({ name }) => name !== 'openapi')
      const described = [...others, { name: 'openapi', routes }]
      mountRoutes(router, routes, new Description(() => openApiDocument(described, version)))
    },
  }
}

/** {@link openApiProtocol} by its name; it describes the protocols that are served beside it. */
export const openApi = defineProtocol({
  name: 'openapi',
  doc: 'Describes every API that is served, as `/openapi.json` and as a page at `/docs`.',
  create: (_options, { protocols }) => openApiProtocol({ protocols }),
})
