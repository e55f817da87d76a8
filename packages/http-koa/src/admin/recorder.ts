import { CllmError } from '@cllm/core'
import type { KoaContext } from '../koa-context.js'
import type { AdminContext } from './admin-context.js'
import { engineOf } from './engine-of.js'

/** `GET /admin/recorder`: what the flight recorder has of the last minutes, without any text. */
export async function getRecorder(ctx: KoaContext, { directory }: AdminContext): Promise<void> {
  const recording = await engineOf(ctx, directory).recording?.()
  if (recording === undefined) {
    throw new CllmError('unsupported', 'The engine of this server has no flight recorder')
  }
  ctx.body = recording
}
