import { CllmError } from '@cllm/core'
import { z } from 'zod'
import type { LogLevelControl } from '../../routes/define-protocol.js'
import type { KoaContext } from '../../routes/koa-context.js'
import { parseFields } from '../../fields/parse-fields.js'
import { readJsonBody } from '../../body/read-json-body.js'
import type { AdminContext } from './admin-context.js'

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'silent'] as const

/** The body of `PUT /admin/log-level`. */
export const logLevelSchema = z.object({ level: z.enum(levels, `one of ${levels.join(', ')}`) })

/** `GET /admin/log-level` */
export function getLogLevel(ctx: KoaContext, { log }: AdminContext): void {
  ctx.body = { success: true, data: { level: ensure(log).level } }
}

/** `PUT /admin/log-level`: sets the log level from now on. */
export async function putLogLevel(ctx: KoaContext, admin: AdminContext): Promise<void> {
  const { level } = parseFields(logLevelSchema, await readJsonBody(ctx))
  ensure(admin.log).level = level
  ctx.state.transport.logger.warn({ level }, 'the log level was changed')
  getLogLevel(ctx, admin)
}

function ensure(control: LogLevelControl | undefined): LogLevelControl {
  if (control !== undefined) return control
  throw new CllmError('unsupported', 'The logger of this server has no level that can be changed')
}
