import type { CommandIo } from '../../commands/command-io.js'
import type { LoadedConfig } from '../../config/load-config.js'
import { availableMemory } from '../../engine/memory/available-memory.js'
import { backendNameOf, llamaCpp } from '../../engine/to-engine-settings.js'
import { cacheFolder } from '../cache-folder.js'
import { catalog, DEFAULT_MODEL, findEntry } from '../catalog/catalog.js'
import { chooseModel } from '../choose-model.js'

/** The model that stands for a choice of the server. */
const auto = 'auto'

/**
 * The configuration with a model in place of `auto`, which it names on standard error with the
 * reason. Unchanged where models are named. Repeats what the catalog advises about the single model.
 */
export async function withChosenModel(loaded: LoadedConfig, io: CommandIo): Promise<LoadedConfig> {
  if (Object.keys(loaded.config.models.served).length > 0) return loaded
  const chosen = loaded.config.model.spec === auto ? await choose(loaded, io) : loaded
  const { spec } = chosen.config.model
  const advice = findEntry(catalog, spec)?.advice
  if (advice !== undefined) io.stderr.write(`${spec}: ${advice}\n`)
  return chosen
}

async function choose(loaded: LoadedConfig, io: CommandIo): Promise<LoadedConfig> {
  const { config } = loaded
  const { model, models, engine } = config
  const isLlamaCpp = backendNameOf(config, {}) === llamaCpp
  const { spec, reason } = isLlamaCpp
    ? await chooseModel({
        env: io.env,
        cacheFolder: models.cache ?? cacheFolder({ env: io.env }),
        available: availableMemory(),
        slots: engine.slots,
        contextSize: engine.ctx_size === auto ? undefined : engine.ctx_size,
        signal: io.signal,
      })
    : { spec: DEFAULT_MODEL, reason: 'the backend is a plug-in’s' }
  io.stderr.write(`serving ${spec}: ${reason}\n`)
  return { ...loaded, config: { ...config, model: { ...model, spec } } }
}
