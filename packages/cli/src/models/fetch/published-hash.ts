import type { ExpectedFile } from '../model-files.js'

/** Where to ask Hugging Face. */
export interface HubAccess {
  /** `HF_ENDPOINT` sets a mirror, `HF_TOKEN` gives access to private repositories. */
  readonly env: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  /** Milliseconds to wait for an answer; default: 15,000. */
  readonly patienceMs?: number
}

const askTimeoutMs = 15_000

/** The host to fetch from, with a slash at its end. */
export function hubEndpoint(env: NodeJS.ProcessEnv): string {
  const given = env['HF_ENDPOINT'] || env['MODEL_ENDPOINT'] || 'https://huggingface.co/'
  return given.endsWith('/') ? given : `${given}/`
}

/** What Hugging Face says of a model; nothing where the host does not say it, as some mirrors do not. */
export interface Published {
  /** The SHA-256, and the size where that is said, too, of each of its files. */
  readonly hashes: readonly (ExpectedFile | undefined)[]
  /** The projector that a repository has for it, as `hf:owner/repository/file`. */
  readonly projector?: string | undefined
}

/**
 * Asks for it before the model is fetched.
 *
 * @param uri - `hf:owner/repository[:quantization]` or `hf:owner/repository/file[#commit]`
 */
export async function askPublished(uri: string, access: HubAccess): Promise<Published> {
  const named = /^hf:([^/]+\/[^/:#]+)(?:\/([^#]+)(?:#(.+))?|:(.+))?$/.exec(uri)
  if (named === null) return { hashes: [] }
  const [, repository = '', file, revision = 'main', tag = 'latest'] = named
  const known = file === undefined ? await manifestOf(repository, tag, access) : { model: file }
  const parts = known.model === undefined ? [] : partsOf(known.model)
  const hashes = parts.map(
    async (part) =>
      await hashOf(`${repository}/resolve/${encoded(revision)}/${paths(part)}`, access),
  )
  const projector = known.projector && `hf:${repository}/${known.projector}`
  return { hashes: await Promise.all(hashes), projector }
}

/** A model's files by the name of the first one. */
export function partsOf(first: string): readonly string[] {
  const [, stem, count] = /^(.*)-00001-of-(\d{5})\.gguf$/.exec(first) ?? []
  if (stem === undefined) return [first]
  return Array.from(
    { length: Number(count) },
    (_, index) => `${stem}-${String(index + 1).padStart(5, '0')}-of-${count}.gguf`,
  )
}

async function hashOf(path: string, access: HubAccess): Promise<ExpectedFile | undefined> {
  const answer = await askHub(path, { method: 'HEAD', redirect: 'manual' }, access)
  const sha256 = answer?.headers.get('x-linked-etag')?.replaceAll('"', '')
  if (sha256 === undefined || !/^[0-9a-f]{64}$/.test(sha256)) return undefined
  const bytes = Number(answer?.headers.get('x-linked-size') ?? Number.NaN)
  return Number.isInteger(bytes) ? { sha256, bytes } : { sha256 }
}

/** The file that a quantization means, as the downloader asks for it, and its projector. */
async function manifestOf(
  repository: string,
  tag: string,
  access: HubAccess,
): Promise<{ readonly model?: string | undefined; readonly projector?: string | undefined }> {
  // only llama.cpp is told the file
  const headers = { 'User-Agent': 'llama-cpp' }
  const answer = await askHub(`v2/${repository}/manifests/${encoded(tag)}`, { headers }, access)
  const manifest = (await answer?.json().catch(() => undefined)) as
    | Record<string, { rfilename?: unknown }>
    | undefined
  const nameOf = (kind: string) => {
    const name = manifest?.[kind]?.rfilename
    return typeof name === 'string' ? name : undefined
  }
  return { model: nameOf('ggufFile'), projector: nameOf('mmprojFile') }
}

/** The answer of the hub to a request for a path; undefined: it has none, or does not answer in time. */
export async function askHub(
  path: string,
  init: RequestInit,
  { env, signal, patienceMs = askTimeoutMs }: HubAccess,
): Promise<Response | undefined> {
  const token = env['HF_TOKEN']
  const headers = new Headers(init.headers)
  if (token) headers.set('Authorization', `Bearer ${token}`)
  const limits = { signal: AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]) }
  try {
    const answer = await fetch(`${hubEndpoint(env)}${path}`, { ...init, ...limits, headers })
    return answer.status < 400 ? answer : undefined
  } catch {
    signal.throwIfAborted()
    return undefined
  }
}

const encoded = encodeURIComponent
const paths = (path: string): string => path.split('/').map(encoded).join('/')
