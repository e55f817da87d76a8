import { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { LogLevelControl } from '../../routes/define-protocol.js'
import type { Answer, Call, CallOf } from '../../routes/call.js'
import type { AdminContext } from './admin-context.js'

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const

/** The body of `PUT /admin/log-level`. */
export const logLevelSchema = z.object({ level: z.enum(levels, `one of ${levels.join(', ')}`) })

/** `GET /admin/log-level` */
export function getLogLevel(_call: Call, { log }: AdminContext): Answer {
  return { success: true, data: { level: ensure(log).level } }
}

/** `PUT /admin/log-level`: sets the log level from now on. */
export async function putLogLevel(
  call: CallOf<typeof logLevelSchema>,
  admin: AdminContext,
): Promise<Answer> {
  const { level } = call.fields
  ensure(admin.log).level = level
  call.logger.warn({ level }, 'the log level was changed')
  return getLogLevel(call, admin)
}

function ensure(control: LogLevelControl | undefined): LogLevelControl {
  if (control !== undefined) return control
  throw new CllmError('unsupported', 'The logger of this server has no level that can be changed')
}
