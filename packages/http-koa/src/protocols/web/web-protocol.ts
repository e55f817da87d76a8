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
  /** What the page shows tabs for: protocols by name, and `keys`; default: all that the page has. */
  readonly features?: () => readonly string[]
}

/** Reads the files once, when the first one is asked for. */
type ReadFiles = () => Promise<ReadonlyMap<string, PageFile>>

const policyOf = (scripts: string, connections: string): string =>
  [
    "default-src 'none'",
    `script-src ${scripts}`,
    `connect-src ${connections}`,
    "style-src 'self'",
    "img-src 'self' data: blob:", // what is attached to a question
    'media-src blob:',
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

const routes: readonly Route<ReadFiles>[] = [
  get('/', 'open', 'Shows browsers the page', lead, { isHidden: true, isQuiet: true }),
  get('/ui', 'open', 'The web page: chat, scheduler, lab, models, keys', sendPage, {
    answers: ['text/html'],
    isQuiet: true,
  }),
  get('/ui/*file', 'open', 'The files of the web page', sendFile, {
    answers: ['text/javascript', 'text/css', 'image/svg+xml', 'font/woff2'],
    isQuiet: true,
  }),
]

function lead(call: Call): Answer {
  call.set({ Vary: 'Accept' })
  return call.accepts('json', 'html') === 'html' ? toPage : undefined
}

/** The page's files are beside it only below a path that ends with a slash. */
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

/** Reads the files of the page when they are first asked for. */
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
 * The web page at `/ui`, and at `/` for browsers. Its files need no key: the page asks for one and
 * sends it with what it asks the other protocols.
 */
export function webProtocol({ page, features }: WebProtocolOptions = {}): KoaProtocol {
  if (page === undefined) return { name: 'web' }
  return { name: 'web', routes: bindRoutes(routes, lazily(page, features)) }
}

/** {@link webProtocol} by its name. */
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

/** A file of the page, as it is sent. */
interface PageFile {
  /** Such as `text/html; charset=utf-8`. */
  readonly type: string
  readonly etag: string
  readonly plain: Buffer
  /** Absent of what is compressed already. */
  readonly gzip?: Buffer
  /** Whether its name changes with its content, so that browsers may keep it for good. */
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
 * The files of a folder, by their paths in it. Files of other types are left out. `index.html` lists the server's
 * features, so that the page asks for nothing that this server lacks.
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
    const isHashed = name.startsWith('assets/')
    const file = { type, etag: `"${hash}"`, plain, isHashed }
    if (type.startsWith('font/')) return [[name, file]] as const
    // Streams go on meanwhile.
    return [[name, { ...file, gzip: await gzip(plain) }]] as const
  })
  return new Map((await Promise.all(files)).flat())
}
