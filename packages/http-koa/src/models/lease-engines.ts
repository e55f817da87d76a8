import type { EngineDirectory } from '@cllm/core'
import { abortOnClose } from '../abort-on-close.js'
import type { KoaContext } from '../koa-context.js'

/** The engines for one request: what it has used stays in memory until its answer has gone out. */
export function leaseEngines(directory: EngineDirectory, ctx: KoaContext): EngineDirectory {
  let until: AbortSignal | undefined
  return {
    list: () => directory.list(),
    nameOf: (id) => directory.nameOf(id),
    status: (id) => directory.status(id),
    unload: async (id) => await directory.unload(id),
    open(id, options) {
      until ??= abortOnClose(ctx)
      return directory.open(id, { until, ...options })
    },
  }
}
