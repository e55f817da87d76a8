import { createRequire } from 'node:module'
import type { KoaProtocol, KoaRouter } from '../koa-context.js'
import { docsPage } from './docs-page.js'
import { openApiDocument } from './openapi-document.js'

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

/** `GET /openapi.json`, made from the schemas that check the requests, and a page of it at `/docs`. */
export function openApiProtocol({
  protocols,
  version = packageVersion,
}: OpenApiProtocolOptions): KoaProtocol {
  return {
    name: 'openapi',
    mount(router: KoaRouter) {
      const document = openApiDocument(protocols, version)
      const page = docsPage(document)
      router.get('/openapi.json', (ctx) => {
        ctx.body = document
      })
      router.get('/docs', (ctx) => {
        ctx.type = 'html'
        ctx.body = page
      })
    },
  }
}
