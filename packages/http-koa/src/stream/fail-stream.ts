import type { CllmError } from '@cllm/core'
import { publicError } from '../errors/public-error.js'
import type { KoaContext } from '../routes/koa-context.js'
import type { ClientStream } from './client-stream.js'

/**
 * Tells a client that the answer it reads has failed, unless nobody reads it any longer.
 *
 * @param tell - writes the error as the protocol has it
 */
export function failStream(
  ctx: KoaContext,
  stream: ClientStream,
  error: unknown,
  tell: (shown: CllmError) => void,
): void {
  if (!stream.destroyed) tell(publicError(error, ctx.state.transport.logger))
}
