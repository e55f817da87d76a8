import type { Call } from '../routes/call.js'
import { expectedField } from './refusals.js'

const tenantHeader = 'x-cllm-tenant'
const longestTenant = 256

/**
 * The tenant that a proxy or client names in `x-cllm-tenant`, if any. Throws `invalid_request`.
 */
export function tenantOf(call: Call): string | undefined {
  const tenant = call.header(tenantHeader)
  if (tenant.length <= longestTenant) return tenant === '' ? undefined : tenant
  const expected = `a name of at most ${longestTenant} characters`
  throw expectedField(tenantHeader, `${expected}, instead got ${tenant.length} characters`)
}

/** Whether a client of Anthropic's asks, for whom some routes of OpenAI's answer in another form. */
export const isAnthropic = (call: Pick<Call, 'header'>): boolean =>
  call.header('anthropic-version') !== ''
