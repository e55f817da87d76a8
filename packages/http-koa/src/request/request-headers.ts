import type { Call } from '../routes/call.js'
import { expectedField } from './refusals.js'

const tenantHeader = 'x-cllm-tenant'
/** Characters of a tenant's or session's name at most. */
export const longestName = 256

/**
 * The tenant that a proxy or client names in `x-cllm-tenant`, if any. Throws `invalid_request`.
 */
export function tenantOf(call: Call): string | undefined {
  const tenant = call.header(tenantHeader)
  if (tenant.length <= longestName) return tenant === '' ? undefined : tenant
  const expected = `a name of at most ${longestName} characters`
  throw expectedField(tenantHeader, `${expected}, instead got ${tenant.length} characters`)
}

/** Whether a client of Anthropic's asks, for whom some routes of OpenAI's answer in another form. */
export const isAnthropic = (call: Pick<Call, 'header'>): boolean =>
  call.header('anthropic-version') !== ''
