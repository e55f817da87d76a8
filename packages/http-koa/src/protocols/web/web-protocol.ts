import { CllmError } from '@cllm/core'
import { defineProtocol, KEY_STORE, PROTOCOLS, WEB_PAGE } from '../../routes/define-protocol.js'
import { Reply } from '../../routes/reply.js'
import { bindRoutes, type Route, get } from '../../routes/route.js'
import type { Call } from '../../routes/call.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { type PageFile, readPageFiles } from './page-files.js'

/** Settings of {@link webProtocol}. */
export interface WebProtocolOptions {
  /** The folder with the built page, `pageFolder` of `@cllm/web`; default: no page is served. */
  readonly page?: URL
  /** What the page shows tabs for: protocols by name, and `keys`; default: all that the page has. */
  readonly features?: () => readonly string[]
}

interface WebContext {
  /** Reads the files once, when the first one is asked for. */
  readonly files: () => Promise<ReadonlyMap<string, PageFile>>
}

const policyOf = (scripts: string, connections: string): string =>
  [
    "default-src 'none'",
    `script-src ${scripts}`,
    `connect-src ${connections}`,
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

/** What a model says is shown in the page: nothing but the page's own files is loaded or run. */
const pagePolicy = policyOf("'self'", "'self'")

/** The lab's worker runs orders that are typed in, too. It has no page, and this leaves it no network. */
const workerPolicy = policyOf("'self' 'unsafe-eval'", "'none'")

const toPage = new Reply(undefined, { location: 'ui/' })

const routes: readonly Route<WebContext>[] = [
  get(
    '/',
    'open',
    'Shows browsers the page',
    (call) => {
      call.set({ Vary: 'Accept' })
      return call.accepts('json', 'html') === 'html' ? toPage : undefined
    },
    { isHidden: true },
  ),
  get(
    '/ui',
    'open',
    'The web page: chat, scheduler, lab, models, keys',
    async (call, web) => {
      // The page's files are beside it only below a path that ends so.
      return call.path.endsWith('/') ? await send(call, web, 'index.html') : toPage
    },
    { answers: ['text/html'] },
  ),
  get(
    '/ui/*file',
    'open',
    'The files of the web page',
    async (call, web) => await send(call, web, call.params['file'] ?? ''),
    { answers: ['text/javascript', 'text/css', 'image/svg+xml', 'font/woff2'] },
  ),
]

async function send(call: Call, { files }: WebContext, name: string): Promise<Reply> {
  const file = (await files()).get(name)
  if (file === undefined) throw new CllmError('not_found', `The web page has no file ${name}`)
  const isPacked = file.gzip !== undefined && call.takesGzip
  return new Reply(isPacked ? file.gzip : file.plain, {
    type: file.type,
    headers: {
      'Content-Security-Policy': name.startsWith('assets/lab-worker-') ? workerPolicy : pagePolicy,
      'Cache-Control': file.isHashed ? 'public, max-age=31536000, immutable' : 'no-cache',
      ETag: file.etag,
      Vary: 'Accept-Encoding',
      ...(isPacked && { 'Content-Encoding': 'gzip' }),
    },
  })
}

/** Reads the files of the page when they are first asked for. */
function lazily(folder: URL, features?: () => readonly string[]): WebContext['files'] {
  let reading: Promise<ReadonlyMap<string, PageFile>> | undefined
  return async () => {
    reading ??= readPageFiles(folder, features?.()).catch((cause: unknown) => {
      reading = undefined
      const message = 'The web page is not there: `pnpm build` makes it'
      throw new CllmError('not_found', message, { cause })
    })
    return await reading
  }
}

/**
 * The web page at `/ui`, and at `/` for browsers. Its files need no key: the page asks for one and
 * sends it with what it asks the other protocols.
 */
export function webProtocol({ page, features }: WebProtocolOptions = {}): KoaProtocol {
  if (page === undefined) return { name: 'web' }
  return { name: 'web', routes: bindRoutes(routes, { files: lazily(page, features) }) }
}

/** {@link webProtocol} by its name. */
export const web = defineProtocol({
  name: 'web',
  doc: 'The web page under `/ui`, and at `/` for browsers: chat, live view, lab, models, keys.',
  create(_options, services) {
    const [page, keys] = [services.get(WEB_PAGE), services.get(KEY_STORE)]
    if (page === undefined) return webProtocol()
    const features = (): string[] => {
      const mounted = (services.get(PROTOCOLS) ?? []).filter(({ routes = [] }) =>
        routes.some(({ isHidden }) => isHidden !== true),
      )
      return [...mounted.map(({ name }) => name), ...(keys === undefined ? [] : ['keys'])]
    }
    return webProtocol({ page, features })
  },
})
