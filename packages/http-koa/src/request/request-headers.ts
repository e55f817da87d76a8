import type { Forecast } from '@cllm/core'
import type { KoaContext } from '../routes/koa-context.js'
import { expectedField } from './expected-field.js'

const tenantHeader = 'x-cllm-tenant'
const longestTenant = 256
const forecastHeader = 'x-cllm-forecast'

/** The id of a request, which the transport has given it: that of its log lines and of `X-Request-Id`. */
export const requestIdOf = (ctx: KoaContext): string => ctx.response.get('X-Request-Id')

/**
 * The tenant that a proxy or client names in `x-cllm-tenant`, if any. Throws `invalid_request`.
 */
export function tenantOf(ctx: KoaContext): string | undefined {
  const tenant = ctx.get(tenantHeader)
  if (tenant.length <= longestTenant) return tenant === '' ? undefined : tenant
  const expected = `a name of at most ${longestTenant} characters`
  throw expectedField(tenantHeader, `${expected}, instead got ${tenant.length} characters`)
}

/** Whether a client of Anthropic's asks, for whom some routes of OpenAI's answer in another form. */
export const isAnthropic = (ctx: Pick<KoaContext, 'get'>): boolean =>
  ctx.get('anthropic-version') !== ''

/** Whether the client asks for a queue forecast: `x-cllm-forecast: true`. */
export function isForecastWanted(ctx: KoaContext): boolean {
  return ctx.get(forecastHeader).toLowerCase() === 'true'
}

/**
 * Sets the forecast headers, with the id that `/requests/{id}` takes. With several generations in one
 * answer, the last one counts.
 */
export function tellForecast(
  ctx: KoaContext,
  id: string,
  { position, firstTokenMs }: Forecast,
): void {
  ctx.set({
    'X-Cllm-Request-Id': id,
    'X-Queue-Position': String(position),
    'X-Predicted-TTFT-Ms': String(Math.round(firstTokenMs)),
  })
}
