import { createRequire } from 'node:module'
import type { KoaProtocol } from '../routes/koa-context.js'
import { defineProtocol, PROTOCOLS } from '../routes/define-protocol.js'
import { Reply } from '../routes/reply.js'
import { bindRoutes, type Route, get } from '../routes/route.js'
import { docsPage, docsScript } from './docs-page.js'
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

/** Makes the description for the first who asks: it takes a tenth of the server's start. */
type Describe = () => OpenApiDocument

const routes: readonly Route<Describe>[] = [
  get('/openapi.json', 'open', 'This description', (_call, describe) => describe()),
  get(
    '/docs',
    'open',
    'This description as a page',
    (_call, describe) => new Reply(docsPage(describe()), { type: 'html' }),
    { answers: ['text/html'] },
  ),
  get('/docs/send.js', 'open', "That page's script", () => new Reply(docsScript, { type: 'js' }), {
    isHidden: true,
    isQuiet: true,
  }),
]

/** `GET /openapi.json`, generated from the schemas that check the requests, and a page at `/docs`. */
export function openApiProtocol({
  protocols,
  version = packageVersion,
}: OpenApiProtocolOptions): KoaProtocol {
  const others = () => protocols.filter(({ name }) => name !== 'openapi')
  let made: OpenApiDocument | undefined
  const describe = () => (made ??= openApiDocument([...others(), own], version))
  const own: KoaProtocol = { name: 'openapi', routes: bindRoutes(routes, describe) }
  return own
}

/** {@link openApiProtocol} by its name; it describes the protocols that are served beside it. */
export const openApi = defineProtocol({
  name: 'openapi',
  doc: 'Describes every API that is served, as `/openapi.json` and as a page at `/docs`.',
  create: (_options, services) => openApiProtocol({ protocols: services.get(PROTOCOLS) ?? [] }),
})
