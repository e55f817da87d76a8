import { joinLocalWorkers } from '@cllm/cluster'
import type { LoadedModel } from '@cllm/host'
import type { Logger, RouterPolicy } from '@cllm/core'
import { asLoaded, type EngineProcess } from './spawn-engine.js'

/** How engines are joined. */
export interface JoinOptions {
  readonly router: RouterPolicy
  readonly logger: Logger
  /** Bytes of RAM that they hold together. */
  readonly memoryBytes: number
}

/** Several engines of one model as one; closing it ends their processes. */
export function joinEngines(
  engines: readonly EngineProcess[],
  { router, logger, memoryBytes }: JoinOptions,
): LoadedModel {
  const { client, gone } = joinLocalWorkers(
    engines.map((engine, index) => ({
      id: `engine-${index + 1}`,
      client: engine.client,
      info: engine.info,
      gone: engine.ended,
      onUp: (listener) => engine.client.onState((state) => listener(state === 'up')),
    })),
    { router, logger },
  )
  const models = engines.map(asLoaded)
  return {
    client,
    memoryBytes,
    gone,
    async close() {
      await client.close().catch(() => {})
      await Promise.all(models.map(async (model) => await model.close()))
    },
  }
}
