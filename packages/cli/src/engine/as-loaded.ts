import type { LoadedModel } from '@cllm/host'
import type { ModelInfo } from '@cllm/core'
import type { EngineProcess } from './spawn-engine.js'

/** An engine's process as a model of a pool; closing it ends the process. */
export function asLoaded({ client, info, ended, kill }: EngineProcess): LoadedModel {
  const bytesOf = ({ details }: ModelInfo) => details?.memoryBytes ?? 0
  const draftBytes = info.draftModel === undefined ? 0 : bytesOf(info.draftModel)
  return {
    client,
    // Weights on a GPU take no RAM.
    memoryBytes: info.capabilities.gpu === false ? bytesOf(info.model) + draftBytes : 0,
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
