import { definePlugin, type Plugin, silentLogger, systemClock } from '@cllm/core'
import { createLlamaCppBackend, type LlamaCppDependencies } from './create-llamacpp-backend.js'
import { checkLlamaCppOptions, type LlamaCppOptions } from './llamacpp-options.js'

/** The plugin that registers this backend as `llamacpp`, with the given clock and logger. */
export function createLlamaCppPlugin(dependencies: LlamaCppDependencies): Plugin {
  return definePlugin({
    name: '@cllm/backend-llamacpp',
    apiVersion: 1,
    register(host) {
      host.registerBackend('llamacpp', (options) =>
        createLlamaCppBackend(
          checkLlamaCppOptions(options as unknown as LlamaCppOptions),
          dependencies,
        ),
      )
    },
  })
}

/** The plugin with the system's clock and without a log. */
export const llamaCppPlugin: Plugin = createLlamaCppPlugin({
  clock: systemClock,
  logger: silentLogger,
})
