import { CllmError, type Forecast, requestId } from '@cllm/core'
import type { KoaContext } from '../routes/koa-context.js'

const tenantHeader = 'x-cllm-tenant'
const longestTenant = 256
const forecastHeader = 'x-cllm-forecast'

/**
 * The id of a request: the client's `x-request-id` if it is 1 to 128 letters, digits and `.:_-`, else a
 * new one. The answer's `X-Request-Id` has it, even when the request is refused.
 */
export function identify(ctx: KoaContext): string {
  const given = ctx.get('x-request-id')
  const id = /^[\w.:-]{1,128}$/.test(given) ? given : requestId(ctx.state.transport.random)
  ctx.set('X-Request-Id', id)
  return id
}

/**
 * The tenant that a proxy or client names in `x-cllm-tenant`, if any. Throws `invalid_request`.
 */
export function tenantOf(ctx: KoaContext): string | undefined {
  const tenant = ctx.get(tenantHeader)
  if (tenant.length <= longestTenant) return tenant === '' ? undefined : tenant
  const expected = `a name of at most ${longestTenant} characters`
  const message = `${tenantHeader}: expected ${expected}, instead got ${tenant.length} characters`
  throw new CllmError('invalid_request', message, { details: { field: tenantHeader } })
}

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
