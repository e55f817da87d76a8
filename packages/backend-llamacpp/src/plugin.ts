import { defineBackend, definePlugin, type Plugin } from '@cllm/core'
import { type LlamaCppDependencies, llamaCppOptionsSchema } from './llamacpp-options.js'

/**
 * The plugin that registers this backend as `llamacpp`. The native library is loaded with the first
 * model, not with the plugin.
 *
 * @param dependencies services and limits besides the clock and the logger, which the registry passes
 */
export function createLlamaCppPlugin(
  dependencies: Omit<LlamaCppDependencies, 'clock' | 'logger'> = {},
): Plugin {
  return definePlugin({
    name: '@cllm/backend-llamacpp',
    apiVersion: 1,
    register(host) {
      host.registerBackend(
        defineBackend({
          name: 'llamacpp',
          doc: 'GGUF models on llama.cpp.',
          options: llamaCppOptionsSchema,
          isTrusted: true,
          async create(options, context) {
            const { createLlamaCppBackend } = await import('./create-llamacpp-backend.js')
            return await createLlamaCppBackend(options, { ...dependencies, ...context })
          },
        }),
      )
    },
  })
}

/** The plugin for a process without limits of its own on memory and cores. */
export const llamaCppPlugin: Plugin = createLlamaCppPlugin()
