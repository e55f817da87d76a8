import { CllmError, type Logger } from '@cllm/core'

/**
 * The error that a client is shown. An error that is not a {@link CllmError}, in this process or the
 * engine's, is a defect: its message and stack go to the log only. Server errors are logged.
 */
export function publicError(error: unknown, logger: Logger): CllmError {
  if (!CllmError.isInstance(error) || error.code === 'internal') {
    logger.error({ err: error }, 'request failed')
    return new CllmError('internal', 'Internal error. The log of the server has the cause', {
      cause: error,
    })
  }
  if (error.status === 500) logger.error({ err: error }, 'request failed')
  else logger.debug({ code: error.code, refusal: error.message }, 'request refused')
  return error
}
