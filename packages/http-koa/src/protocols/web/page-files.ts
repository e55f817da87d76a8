import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gzip as gzipOf } from 'node:zlib'

const gzip = promisify(gzipOf)

/** A file of the page, as it is sent. */
export interface PageFile {
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
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
}

/**
 * The files of a folder, by their paths in it. Files of other types are left out. `index.html` lists the server's
 * features, so that the page asks for nothing that this server lacks.
 */
export async function readPageFiles(
  folder: URL,
  features: readonly string[] = ['all'],
): Promise<ReadonlyMap<string, PageFile>> {
  const entries = await readdir(folder, { recursive: true })
  const names = entries.map((name) => name.replaceAll('\\', '/'))
  const files = names.map(async (name) => {
    const type = types[name.slice(name.lastIndexOf('.') + 1)]
    if (type === undefined) return []
    const read = await readFile(new URL(name, folder))
    const plain = name === 'index.html' ? withFeatures(read, features) : read
    const hash = createHash('sha256').update(plain).digest('base64url').slice(0, 22)
    const isHashed = name.startsWith('assets/')
    const file = { type, etag: `"${hash}"`, plain, isHashed }
    if (type.startsWith('font/')) return [[name, file]] as const
    // Streams go on meanwhile.
    return [[name, { ...file, gzip: await gzip(plain) }]] as const
  })
  return new Map((await Promise.all(files)).flat())
}

const featureList = '<meta name="cllm-features" content="'

function withFeatures(page: Buffer, features: readonly string[]): Buffer {
  return Buffer.from(
    page.toString().replace(`${featureList}all"`, `${featureList}${features.join(' ')}"`),
  )
}
