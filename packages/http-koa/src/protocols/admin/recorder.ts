import { CllmError } from '@cllm/core'
import type { KoaContext } from '../../routes/koa-context.js'
import { engineInMemory, modelOf, neverLoaded } from '../../engines/model-queries.js'
import type { AdminContext } from './admin-context.js'

/**
 * `GET /admin/recorder`: the flight recorder's last minutes, without any text. For a model that was
 * unloaded, the state when it was unloaded.
 */
export async function getRecorder(ctx: KoaContext, { directory }: AdminContext): Promise<void> {
  const model = modelOf(ctx)
  const engine = engineInMemory(directory, model)
  const { recording: kept, info } = directory.status(model)
  if (engine === undefined && kept === undefined && info === undefined) {
    throw neverLoaded(directory, model)
  }
  const recording = engine === undefined ? kept : await engine.recording?.()
  if (recording === undefined) {
    throw new CllmError('unsupported', 'The engine of this server has no flight recorder')
  }
  ctx.body = recording
}
