import { createLlamaCppBackend } from '@cllm/backend-llamacpp'
import {
  CllmError,
  createEngine,
  hostEngine,
  loadPlugins,
  PluginRegistry,
  registerPlugin,
  systemClock,
} from '@cllm/core'
import { fallbackPolicy, schedulerPlugin } from '@cllm/scheduler'
import { createLogger } from '../logger.js'
import { availableMemory } from './available-memory.js'
import type { EngineSettings, LogLevelMessage, StartMessage } from './engine-settings.js'
import { parentChannel } from './process-channel.js'
import { warmUp } from './warm-up.js'

// Ctrl-C reaches the whole process group; when the engine ends is the parent's decision.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => {})
process.once('disconnect', () => process.exit(0))
process.once('message', (message) => void start((message as StartMessage).settings))

const channel = parentChannel(process)

async function start(settings: EngineSettings): Promise<void> {
  try {
    const logger = createLogger(settings.log)
    process.on('message', (message: LogLevelMessage | { readonly type: 'other' }) => {
      if (message.type === 'log-level') logger.level = message.level
    })
    const registry = new PluginRegistry()
    await registerPlugin(schedulerPlugin, registry)
    await loadPlugins(settings.plugins, { from: settings.pluginsFolder, registry })
    const policy = registry.createPolicy(settings.policy, settings.policyOptions)
    const surroundings = {
      clock: systemClock,
      logger,
      availableMemory: () => availableMemory(settings.heldBytes),
    }
    const backend = await createLlamaCppBackend(settings.backend, surroundings)
    await warmUp(backend)
    const { options } = settings
    const engine = createEngine({ backend, policy, fallbackPolicy, logger, options })
    hostEngine(engine, registry, channel)
  } catch (error) {
    channel.send({ type: 'failed', error: CllmError.from(error).serialize() })
    process.disconnect()
  }
}
