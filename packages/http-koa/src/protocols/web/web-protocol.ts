import { CllmError, defined } from '@cllm/core'
import { defineProtocol, KEY_STORE, PROTOCOLS, WEB_PAGE } from '../../routes/define-protocol.js'
import { Reply, bindRoutes, get, type Answer, type Call, type Route } from '../../routes/route.js'
import type { KoaProtocol } from '../../routes/koa-context.js'
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gzip as gzipOf } from 'node:zlib'

/** Settings of {@link webProtocol}. */
export interface WebProtocolOptions {
  /** The folder with the built page, `pageFolder` of `@cllm/web`; default: no page is served. */
  readonly page?: URL
  /** The features for which the page shows tabs: names of protocols, and `keys`; default: all. */
  readonly features?: () => readonly string[]
}

/** Returns the page's files, which are read at the first call. */
type ReadFiles = () => Promise<ReadonlyMap<string, PageFile>>

const policyOf = (scripts: string, connections: string): string =>
  [
    "default-src 'none'",
    `script-src ${scripts}`,
    `connect-src ${connections}`,
    "style-src 'self'",
    "img-src 'self' data: blob:", // images that are attached to a message
    'media-src blob:',
    "font-src 'self'",
    "worker-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')

/** Only the page's own files are loaded and run, as the page shows text from models. */
const pagePolicy = policyOf("'self'", "'self'")

/** The lab's worker also runs code that the user types. It has no access to the page, nor to the network. */
const workerPolicy = policyOf("'self' 'unsafe-eval'", "'none'")

const toPage = new Reply(undefined, { location: 'ui/' })

/** The page is there while models load, and says so. */
const shown = { isQuiet: true, isAlways: true } as const

const routes: readonly Route<ReadFiles>[] = [
  // others may ask for `/` to learn whether the server is ready
  get('/', 'open', 'Shows browsers the page', lead, { ...shown, isHidden: true, isAlways: 'html' }),
  get('/ui', 'open', 'The web page: chat, scheduler, lab, models, keys', sendPage, {
    ...shown,
    answers: ['text/html'],
  }),
  get('/ui/*file', 'open', 'The files of the web page', sendFile, {
    ...shown,
    answers: ['text/javascript', 'text/css', 'image/svg+xml', 'font/woff2'],
  }),
]

function lead(call: Call): Answer {
  call.set({ Vary: 'Accept' })
  return call.accepts('json', 'html') === 'html' ? toPage : undefined
}

/** Redirects to a path with a slash at its end, as the page's files have relative URLs. */
async function sendPage(call: Call, web: ReadFiles) {
  return call.path.endsWith('/') ? await send(call, web, 'index.html') : toPage
}

async function sendFile(call: Call, web: ReadFiles) {
  return await send(call, web, call.params['file'] ?? '')
}

async function send(call: Call, files: ReadFiles, name: string): Promise<Reply> {
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

/** Makes a function that reads the page's files at its first call. */
function lazily(folder: URL, features?: () => readonly string[]): ReadFiles {
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
 * The web page at `/ui`, and at `/` for browsers. Its files need no key: the page asks the user for one and
 * sends it with its requests to the other protocols.
 */
export function webProtocol({ page, features }: WebProtocolOptions = {}): KoaProtocol {
  if (page === undefined) return { name: 'web' }
  return { name: 'web', routes: bindRoutes(routes, lazily(page, features)) }
}

/** {@link webProtocol} as a definition. */
export const web = defineProtocol({
  name: 'web',
  doc: 'The web page under `/ui`, and at `/` for browsers: chat, live view, lab, models, keys.',
  create(_options, services) {
    const [page, keys] = [services.get(WEB_PAGE), services.get(KEY_STORE)]
    const features = (): string[] => {
      const mounted = (services.get(PROTOCOLS) ?? []).filter(({ routes = [] }) =>
        routes.some(({ isHidden }) => isHidden !== true),
      )
      return [...mounted.map(({ name }) => name), ...(keys === undefined ? [] : ['keys'])]
    }
    return webProtocol(defined({ page, features }))
  },
})

const gzip = promisify(gzipOf)

/** A file of the page, ready to be sent. */
interface PageFile {
  /** Such as `text/html; charset=utf-8`. */
  readonly type: string
  readonly etag: string
  readonly plain: Buffer
  /** The compressed file; absent for types that are already compressed. */
  readonly gzip?: Buffer
  /** Whether its name changes with its content, so that browsers may cache it forever. */
  readonly isHashed: boolean
}

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  mjs: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
}

const featureList = '<meta name="cllm-features" content="'

/**
 * Reads the files of a folder, by their paths in it. Files of unknown types are left out. `index.html` gets the list
 * of the server's features, so that the page sends no requests that this server does not serve.
 */
async function readPageFiles(
  folder: URL,
  features: readonly string[] = ['all'],
): Promise<ReadonlyMap<string, PageFile>> {
  const entries = await readdir(folder, { recursive: true })
  const names = entries.map((name) => name.replaceAll('\\', '/'))
  const files = names.map(async (name) => {
    const type = types[name.slice(name.lastIndexOf('.') + 1)]
    if (type === undefined) return []
    const read = await readFile(new URL(name, folder))
    const listed = `${featureList}${features.join(' ')}"`
    const plain =
      name === 'index.html'
        ? Buffer.from(read.toString().replace(`${featureList}all"`, listed))
        : read
    const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 22)
    const file = { type, etag: `"${hash}"`, plain, isHashed: name.startsWith('assets/') }
    if (type.startsWith('font/')) return [[name, file]] as const
    // Asynchronous, so that streams go on meanwhile.
    return [[name, { ...file, gzip: await gzip(plain) }]] as const
  })
  return new Map((await Promise.all(files)).flat())
}
