import type { LoadedModel } from '@cllm/core'
import type { EngineProcess } from './spawn-engine.js'

/** An engine's process as a model of a pool; closing it ends the process. */
export function asLoaded({ client, info, ended, kill }: EngineProcess): LoadedModel {
  const { memoryBytes } = info.model.details ?? {}
  return {
    client,
    // Weights on a GPU take no RAM.
    memoryBytes: info.capabilities.gpu === false ? Number(memoryBytes ?? 0) : 0,
    gone: ended,
    async close() {
      try {
        await client.close()
      } finally {
        kill()
        await ended
      }
    },
  }
}
