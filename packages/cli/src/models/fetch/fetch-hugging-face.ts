import { access, readdir, rm, rmdir } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { CllmError } from '@cllm/core'
import { projectorName, replaceFile, checkFetched, type ExpectedFile } from '../model-files.js'
import type { FetchOptions } from './fetch-once.js'
import { askPublished, hubEndpoint, partsOf, type Published } from './published-hash.js'
import { fetchOnce } from './fetch-once.js'

/** How to fetch a file from Hugging Face and check it. */
interface FetchHuggingFaceOptions extends Pick<FetchOptions, 'env' | 'signal' | 'onProgress'> {
  /** Name of the file. Default: derived from the URI. */
  readonly fileName?: string
  /** The model, as it is shown. */
  readonly model: string
  /** What is known of the file; default: what the host says of it. */
  readonly expected?: ExpectedFile | undefined
}

const REACH_TIMEOUT_MS = 15_000

/**
 * Fetches a GGUF from Hugging Face with node-llama-cpp's downloader.
 *
 * @param uri - `hf:owner/repository[:quantization]` or `hf:owner/repository/file[#commit]`
 * @returns the file's path
 * @throws `model_unavailable` with the host's answer, or the signal's reason
 */
async function fetchHuggingFace(
  uri: string,
  directory: string,
  { fileName, env, signal, onProgress }: FetchHuggingFaceOptions,
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
    signal.throwIfAborted()
    throw new CllmError('model_unavailable', `${(cause as Error).message} (${uri})`, { cause })
  }
}

/** Keeps an interrupted download from Hugging Face, to resume it. */
export const resumeFolder = (target: string): string => `${target}.resume`

/**
 * Calls {@link fetchHuggingFace}, and compares the SHA-256 of each file with what is known of it, or
 * with what the host has said before. Where nothing is known, that is told.
 *
 * @param target - its {@link resumeFolder} is removed at the end; what was interrupted stays in it, to be
 *   continued
 * @param keep - moves away what it keeps; is told the model's projector, if there is one
 * @throws the errors of `fetchHuggingFace`, `model_unavailable` for a file that is another one
 */
export async function fetchChecked<T>(
  uri: string,
  target: string,
  options: FetchHuggingFaceOptions,
  keep: (file: string, projector?: string) => Promise<T>,
): Promise<T> {
  const directory = resumeFolder(target)
  try {
    const { expected } = options
    const known: Published = expected ? { hashes: [expected] } : await askPublished(uri, options)
    const path = await fetchHuggingFace(uri, directory, options)
    await check(path, known.hashes, options)
    const kept = await keep(path, known.projector)
    await rm(directory, { recursive: true, force: true })
    return kept
  } catch (error) {
    const files = await readdir(directory).catch(() => [])
    // a whole file that was refused is of no use: a part of one is
    const isPartial = files.some((file) => !file.endsWith('.gguf'))
    if (isPartial || options.signal.aborted) await rmdir(directory).catch(() => {})
    else await rm(directory, { recursive: true, force: true })
    throw error
  }
}

async function check(
  path: string,
  hashes: readonly (ExpectedFile | undefined)[],
  { model, onProgress, signal }: FetchHuggingFaceOptions,
): Promise<void> {
  const files = partsOf(path)
  if (files.some((_, index) => hashes[index] === undefined)) {
    return onProgress({ kind: 'unchecked', model })
  }
  onProgress({ kind: 'checking' })
  for (const [index, file] of files.entries()) await checkFetched(file, hashes[index]!, signal)
}

/** The path of a model from an earlier {@link fetchHuggingFace}. Uses no network. */
async function findHuggingFace(uri: string, directory: string): Promise<string | undefined> {
  const { resolveModelFile } = await import('@cllm/backend-llamacpp/node-llama-cpp')
  return await resolveModelFile(uri, { directory, download: false, cli: false }).catch(
    () => undefined,
  )
}

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
  const find = async () => await findHuggingFace(spec, cacheFolder)
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
        await fetchChecked(projector, target, named, async (file) => {
          await replaceFile(file, target)
        })
      }
      // a file is found by its name only when it was checked; the first one names the model
      for (const file of partsOf(fetched).toReversed()) {
        await replaceFile(file, join(cacheFolder, basename(file)))
      }
      return join(cacheFolder, basename(fetched))
    })
  })
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
