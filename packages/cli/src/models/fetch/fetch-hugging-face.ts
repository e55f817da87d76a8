import { access } from 'node:fs/promises'
import { CllmError } from '@cllm/core'
import { checkFetched, type ExpectedFile } from './check-file.js'
import type { FetchProgress } from './fetch-progress.js'
import { hubEndpoint, partsOf, publishedHashes } from './published-hash.js'

/** How to fetch a file from Hugging Face. */
export interface FetchHuggingFaceOptions {
  /** Folder for the file. An interrupted download in it is resumed. */
  readonly directory: string
  /** Name of the file. Default: derived from the URI. */
  readonly fileName?: string
  /** `HF_ENDPOINT` sets a mirror, `HF_TOKEN` gives access to private repositories. */
  readonly env: NodeJS.ProcessEnv
  readonly signal: AbortSignal
  readonly onBytes: (receivedBytes: number, totalBytes: number) => void
}

const REACH_TIMEOUT_MS = 15_000

/**
 * Fetches a GGUF from Hugging Face with node-llama-cpp's downloader.
 *
 * @param uri - `hf:owner/repository[:quantization]` or `hf:owner/repository/file[#commit]`
 * @returns the file's path
 * @throws `model_unavailable` with the host's answer, or the signal's reason
 */
async function fetchHuggingFace(uri: string, options: FetchHuggingFaceOptions): Promise<string> {
  const { directory, fileName, env, signal, onBytes } = options
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
      onProgress: ({ downloadedSize, totalSize }) => onBytes(downloadedSize, totalSize),
    })
    signal.throwIfAborted() // a cancelled download resolves as if it were complete
    await access(path)
    return path
  } catch (cause) {
    signal.throwIfAborted()
    throw new CllmError('model_unavailable', `${(cause as Error).message} (${uri})`, { cause })
  }
}

/** How to fetch a file from Hugging Face and check it. */
export interface FetchCheckedOptions extends FetchHuggingFaceOptions {
  /** The model, as it is shown. */
  readonly model: string
  /** What is known of the file; default: what the host says of it. */
  readonly expected?: ExpectedFile | undefined
  readonly onProgress: (progress: FetchProgress) => void
}

/**
 * Calls {@link fetchHuggingFace}, and compares the SHA-256 of each file with what is known of it, or
 * with what the host has said before. Where nothing is known, that is told.
 *
 * @throws the errors of `fetchHuggingFace`, `model_unavailable` for a file that is another one
 */
export async function fetchChecked(uri: string, options: FetchCheckedOptions): Promise<string> {
  const { expected, model, onProgress, signal } = options
  const hashes = expected === undefined ? await publishedHashes(uri, options) : [expected]
  const path = await fetchHuggingFace(uri, options)
  const files = partsOf(path)
  if (files.some((_, index) => hashes[index] === undefined)) {
    onProgress({ kind: 'unchecked', model })
    return path
  }
  onProgress({ kind: 'checking' })
  for (const [index, file] of files.entries()) await checkFetched(file, hashes[index]!, signal)
  return path
}

/** The path of a model from an earlier {@link fetchHuggingFace}. Uses no network. */
export async function findHuggingFace(uri: string, directory: string): Promise<string | undefined> {
  const { resolveModelFile } = await import('@cllm/backend-llamacpp/node-llama-cpp')
  return await resolveModelFile(uri, { directory, download: false, cli: false }).catch(
    () => undefined,
  )
}

// The downloader itself retries an unreachable host forever
async function reach(endpoint: string, signal: AbortSignal): Promise<void> {
  try {
    await fetch(endpoint, {
      method: 'HEAD',
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(REACH_TIMEOUT_MS)]),
    })
  } catch (error) {
    signal.throwIfAborted()
    const { message, cause } = error as Error
    const reason = cause instanceof Error ? cause.message : message
    throw new CllmError('model_unavailable', `cannot reach ${endpoint}: ${reason}`, {
      cause: error,
    })
  }
}
