import { createRequire } from 'node:module'
import type { KoaProtocol } from '../routes/koa-context.js'
import { defineProtocol, PROTOCOLS } from '../routes/define-protocol.js'
import { Reply } from '../routes/reply.js'
import { bindRoutes, type Route, get } from '../routes/route.js'
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

const routes: readonly Route<Description>[] = [
  get('/openapi.json', 'open', 'This description', (_call, { document }) => document),
  get(
    '/docs',
    'open',
    'This description as a page',
    (_call, { document }) => new Reply(docsPage(document), { type: 'html' }),
    { answers: ['text/html'] },
  ),
]

/** `GET /openapi.json`, generated from the schemas that check the requests, and a page at `/docs`. */
export function openApiProtocol({
  protocols,
  version = packageVersion,
}: OpenApiProtocolOptions): KoaProtocol {
  const others = () => protocols.filter(({ name }) => name !== 'openapi')
  const description = new Description(() => openApiDocument([...others(), own], version))
  const own: KoaProtocol = { name: 'openapi', routes: bindRoutes(routes, description) }
  return own
}

/** {@link openApiProtocol} by its name; it describes the protocols that are served beside it. */
export const openApi = defineProtocol({
  name: 'openapi',
  doc: 'Describes every API that is served, as `/openapi.json` and as a page at `/docs`.',
  create: (_options, services) => openApiProtocol({ protocols: services.get(PROTOCOLS) ?? [] }),
})
