import { ADAPTERS, type Engine, type Logger } from '@cllm/core'
import type { EngineSettings } from './engine-settings.js'

/**
 * Loads the adapters of the settings.
 *
 * @throws what loading one throws, unless those are left out
 */
export async function loadAdapters(
  engine: Engine,
  { adapters = [], skipsAdapters = false }: EngineSettings,
  logger: Logger,
): Promise<void> {
  for (const source of adapters) {
    try {
      await engine.features.get(ADAPTERS).load(source)
    } catch (error) {
      if (!skipsAdapters) throw error
      const { name, path } = source
      logger.error({ name, path, err: error }, 'an adapter cannot be loaded again: it is left out')
    }
  }
}
