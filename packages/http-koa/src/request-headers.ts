import { CllmError, type Forecast, requestId } from '@cllm/core'
import type { KoaContext } from './koa-context.js'

const tenantHeader = 'x-cllm-tenant'
const longestTenant = 256
const forecastHeader = 'x-cllm-forecast'

/**
 * The id of a request: the client's `x-request-id` where that is 1 to 128 letters, digits and `.:_-`,
 * otherwise a new one. The answer's `X-Request-Id` says it, also when the request is refused.
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

/** Whether the client wants to know when its turn comes: `x-cllm-forecast: true`. */
export function isForecastWanted(ctx: KoaContext): boolean {
  return ctx.get(forecastHeader).toLowerCase() === 'true'
}

/** Says so. Of several generations in one answer it is the last place that counts. */
export function tellForecast(ctx: KoaContext, { position, firstTokenMs }: Forecast): void {
  ctx.set({
    'X-Queue-Position': String(position),
    'X-Predicted-TTFT-Ms': String(Math.round(firstTokenMs)),
  })
}
