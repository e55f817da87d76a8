import { type EngineDirectory, overriding } from '@cllm/core'
import { abortOnClose } from '../stream/abort-on-close.js'
import type { KoaContext } from '../routes/koa-context.js'

/** The engines for one request: a model that it opens stays in memory until its answer is sent. */
export function leaseEngines(directory: EngineDirectory, ctx: KoaContext): EngineDirectory {
  let until: AbortSignal | undefined
  return overriding(directory, {
    open(id, options) {
      until ??= abortOnClose(ctx)
      return directory.open(id, { until, ...options })
    },
  })
}
