import type { Slo } from '../metrics/slo.js'
import type { PolicyFactory } from '../calibrate/model-host.js'

/**
 * The options of a policy with the limits of the goodput, where it keeps limits and none were given:
 * a server that is asked for a goodput knows its limits as well. A limit on the TPOT counts as one on
 * the ITL: no pause may be longer than the shorter of the two.
 */
export function withLimits(
  policy: string,
  options: Readonly<Record<string, unknown>>,
  { ttft, itl, tpot }: Slo,
  { batchings, orders }: Pick<PolicyFactory, 'batchings' | 'orders'>,
): Readonly<Record<string, unknown>> {
  const gap = Math.min(itl ?? Infinity, tpot ?? Infinity)
  const slo = { ...(ttft !== undefined && { ttft }), ...(gap < Infinity && { itl: gap }) }
  const [batching, order] = policy.split('+')
  const halves = [
    batchings.find(({ name }) => name === batching),
    orders.find(({ name }) => name === order),
  ]
  const takes = halves.some((half) => half?.options !== undefined && 'slo' in half.options.shape)
  if (!takes || 'slo' in options || Object.keys(slo).length === 0) return options
  return { slo, ...options }
}
