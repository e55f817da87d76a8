import { access, rm, rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { partsOf } from '@cllm/backend-llamacpp/sample-file'
import { CllmError } from '@cllm/core'
import {
  checkFetched,
  checkGguf,
  type ExpectedFile,
  projectorName,
  replaceFile,
} from '../model-files.js'
import { type FetchOptions, fetchOnce } from './fetch-once.js'

/** Milliseconds that the host may take to answer. */
const usualPatienceMs = 15_000

/**
 * The path of a model on Hugging Face, fetched if it is not in the folder for downloads.
 *
 * @param spec - `hf:owner/repository[:quantization]`
 * @throws `model_unavailable`, or the signal's reason
 */
export async function fetchFromHuggingFace(spec: string, options: FetchOptions): Promise<string> {
  if (!/^hf:[^\s/:]+\/[^\s/:]/.test(spec)) {
    const message = `${spec} is not a Hugging Face model: expected hf:owner/repository[:quantization]`
    throw new CllmError('model_unavailable', message, { details: { spec } })
  }
  const { cacheFolder } = options
  const find = async () => await findDownloaded(spec, cacheFolder)
  const path = join(cacheFolder, spec.replaceAll(/[^\w.-]+/g, '_'))
  return await fetchOnce(path, spec, options, find, async ({ env, signal, onProgress }) => {
    onProgress({ kind: 'start', model: spec, source: 'Hugging Face' })
    const given = { env, signal, model: spec, onProgress }
    return await fetchChecked(spec, path, given, async (fetched, projector) => {
      if (projector !== undefined && !options.textOnly) {
        const fileName = projectorName(fetched)
        const target = join(cacheFolder, fileName)
        onProgress({ kind: 'start', model: fileName, source: 'Hugging Face' })
        const named = { ...given, model: fileName, fileName }
        const keep = async (file: string) => await replaceFile(file, target)
        await fetchChecked(projector, target, named, keep)
      }
      // a file is found by its name only when it was checked; the first one names the model
      for (const file of partsOf(fetched).toReversed()) {
        await replaceFile(file, join(cacheFolder, basename(file)))
      }
      return join(cacheFolder, basename(fetched))
    })
  })
}

/** The path of a model from an earlier {@link download}. Uses no network. */
async function findDownloaded(uri: string, directory: string): Promise<string | undefined> {
  const { resolveModelFile } = await import('@cllm/backend-llamacpp/node-llama-cpp')
  const offline = { directory, download: false, cli: false } as const
  return await resolveModelFile(uri, offline).catch(() => undefined)
}

/** How a file is fetched and checked. */
interface FetchCheckedOptions extends Pick<FetchOptions, 'env' | 'signal' | 'onProgress'> {
  /** Name of the file. Default: derived from the URI. */
  readonly fileName?: string
  /** The model, as it is shown. */
  readonly model: string
  /** The known hash of the file; default: the one that the host gives. */
  readonly expected?: ExpectedFile | undefined
}

/** The folder for an interrupted download from Hugging Face, to resume it. */
export const resumeFolder = (target: string): string => `${target}.resume`

/**
 * Downloads a model, and compares the SHA-256 of each file with the known one, or with the one that the host gave
 * before. Reports when a hash is unknown.
 *
 * @param target - its {@link resumeFolder} is removed at the end; a download that was interrupted, or not kept, stays
 *   in it, to be continued
 * @param keep - moves away the files that it keeps; gets the model's projector, if there is one
 * @throws the errors of {@link download}, `model_unavailable` for a file with another hash
 */
export async function fetchChecked<T>(
  uri: string,
  target: string,
  options: FetchCheckedOptions,
  keep: (file: string, projector?: string) => Promise<T>,
): Promise<T> {
  const directory = resumeFolder(target)
  const remove = async () => await rm(directory, { recursive: true, force: true })
  const { expected } = options
  const known: Published = expected ? { hashes: [expected] } : await askPublished(uri, options)
  const path = await download(uri, directory, options)
  try {
    await check(path, known.hashes, options)
  } catch (error) {
    // A file that was refused would be refused again.
    if (!options.signal.aborted) await remove()
    throw error
  }
  const kept = await keep(path, known.projector)
  await remove()
  return kept
}

async function check(
  path: string,
  hashes: readonly (ExpectedFile | undefined)[],
  { model, onProgress, signal }: FetchCheckedOptions,
): Promise<void> {
  const files = partsOf(path)
  for (const file of files) await checkGguf(file)
  if (files.some((_, index) => hashes[index] === undefined)) {
    return onProgress({ kind: 'unchecked', model })
  }
  onProgress({ kind: 'checking' })
  for (const [index, file] of files.entries()) await checkFetched(file, hashes[index]!, signal)
}

/**
 * Fetches a GGUF from Hugging Face with node-llama-cpp's downloader.
 *
 * @param uri - `hf:owner/repository[:quantization]` or `hf:owner/repository/file[#commit]`
 * @returns the file's path
 * @throws `model_unavailable` with the host's answer, or the signal's reason
 */
async function download(
  uri: string,
  directory: string,
  { fileName, env, signal, onProgress }: FetchCheckedOptions,
): Promise<string> {
  const { resolveModelFile } = await import('@cllm/backend-llamacpp/node-llama-cpp')
  const endpoint = hubEndpoint(env)
  await reach(endpoint, signal)
  try {
    const path = await resolveModelFile(uri, {
      directory,
      ...(fileName === undefined ? {} : { fileName }),
      endpoints: { huggingFace: endpoint },
      ...(env['HF_TOKEN'] ? { tokens: { huggingFace: env['HF_TOKEN'] } } : {}),
      deleteTempFileOnCancel: false,
      signal,
      cli: false,
      onProgress: ({ downloadedSize: receivedBytes, totalSize: totalBytes }) =>
        onProgress({ kind: 'bytes', receivedBytes, totalBytes }),
    })
    signal.throwIfAborted() // a cancelled download resolves as if it were complete
    await access(path)
    return path
  } catch (cause) {
    await rmdir(directory).catch(() => {}) // unless there is something to continue
    signal.throwIfAborted()
    throw new CllmError('model_unavailable', `${(cause as Error).message} (${uri})`, { cause })
  }
}

// The downloader itself retries an unreachable host forever
async function reach(endpoint: string, signal: AbortSignal): Promise<void> {
  try {
    await fetch(endpoint, {
      method: 'HEAD',
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(usualPatienceMs)]),
    })
  } catch (cause) {
    signal.throwIfAborted()
    const { message, cause: why } = cause as Error
    const reason = why instanceof Error ? why.message : message
    throw new CllmError('model_unavailable', `cannot reach ${endpoint}: ${reason}`, { cause })
  }
}

/** How to ask Hugging Face. */
interface HubAccess extends Pick<FetchOptions, 'env' | 'signal'> {
  /** Milliseconds to wait for an answer; default: 15,000. */
  readonly patienceMs?: number
}

/** The host to fetch from, with a slash at its end. */
export function hubEndpoint(env: NodeJS.ProcessEnv): string {
  const given = env['HF_ENDPOINT'] || env['MODEL_ENDPOINT'] || 'https://huggingface.co/'
  return given.endsWith('/') ? given : `${given}/`
}

/** What Hugging Face publishes about a model; empty if the host does not say it, as some mirrors do not. */
interface Published {
  /** The SHA-256 of each of its files, and the size if the host gives it. */
  readonly hashes: readonly (ExpectedFile | undefined)[]
  /** The projector that a repository has for it, as `hf:owner/repository/file`. */
  readonly projector?: string | undefined
}

/**
 * Asks for the hashes and the projector before the model is fetched.
 *
 * @param uri - `hf:owner/repository[:quantization]` or `hf:owner/repository/file[#commit]`
 */
async function askPublished(uri: string, access: HubAccess): Promise<Published> {
  const named = /^hf:([^/]+\/[^/:#]+)(?:\/([^#]+)(?:#(.+))?|:(.+))?$/.exec(uri)
  if (named === null) return { hashes: [] }
  const [, repository = '', file, revision = 'main', tag = 'latest'] = named
  const known =
    file === undefined
      ? await manifestOf(repository, tag, access)
      : { model: file, projector: undefined }
  const parts = known.model === undefined ? [] : partsOf(known.model)
  const hashes = parts.map(
    async (part) =>
      await hashOf(`${repository}/resolve/${encoded(revision)}/${paths(part)}`, access),
  )
  const projector = known.projector && `hf:${repository}/${known.projector}`
  return { hashes: await Promise.all(hashes), projector }
}

async function hashOf(path: string, access: HubAccess): Promise<ExpectedFile | undefined> {
  const answer = await askHub(path, { method: 'HEAD', redirect: 'manual' }, access)
  const sha256 = answer?.headers.get('x-linked-etag')?.replaceAll('"', '')
  if (sha256 === undefined || !/^[0-9a-f]{64}$/.test(sha256)) return undefined
  const bytes = Number(answer?.headers.get('x-linked-size') ?? Number.NaN)
  return Number.isInteger(bytes) ? { sha256, bytes } : { sha256 }
}

/** The file that a quantization means, as the downloader asks for it, and its projector. */
async function manifestOf(repository: string, tag: string, access: HubAccess) {
  // The host names the file only to llama.cpp.
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
  { env, signal, patienceMs = usualPatienceMs }: HubAccess,
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
