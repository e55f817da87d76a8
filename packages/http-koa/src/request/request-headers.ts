import type { Forecast } from '@cllm/core'
import type { Call } from '../routes/call.js'
import { expectedField } from './refusals.js'

const tenantHeader = 'x-cllm-tenant'
const longestTenant = 256
const forecastHeader = 'x-cllm-forecast'

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

/** Whether the client asks for a queue forecast: `x-cllm-forecast: true`. */
export function isForecastWanted(call: Call): boolean {
  return call.header(forecastHeader).toLowerCase() === 'true'
}

/**
 * Sets the forecast headers, with the id that `/requests/{id}` takes. With several generations in one
 * answer, the last one counts.
 */
export function tellForecast(call: Call, id: string, { position, firstTokenMs }: Forecast): void {
  call.set({
    'X-Cllm-Request-Id': id,
    'X-Queue-Position': String(position),
    'X-Predicted-TTFT-Ms': String(Math.round(firstTokenMs)),
  })
}
