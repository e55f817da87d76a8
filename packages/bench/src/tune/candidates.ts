import type { PolicyFactory } from '../calibrate/model-host.js'
import type { Slo } from '../metrics/run-record.js'
import type { SimulationResult } from '../simulate/simulate-policy.js'

/** A policy with its options. */
export interface Candidate {
  readonly policy: string
  readonly policyOptions: Readonly<Record<string, unknown>>
}

/**
 * Policies that are worth a try: every order with every batching and some of its options. Those that
 * keep limits are tried with the limits of the goodput and without.
 */
export function candidates(
  slo: Slo,
  batchSize: number,
  { batchings, orders }: Pick<PolicyFactory, 'batchings' | 'orders'>,
): Candidate[] {
  const budgets = [64, 128, 256, 512, 1024].filter((tokens) => tokens <= batchSize)
  const options: Readonly<Record<string, readonly Record<string, unknown>[]>> = {
    chunked: budgets.map((tokenBudget) => ({ tokenBudget })),
    static: [4, 8, 16].map((groupSize) => ({ groupSize })),
  }
  // `random` is only a baseline.
  const tried = orders.filter((order) => order.name !== 'random')
  return batchings.flatMap((batching) =>
    tried.flatMap((order) => {
      const policy = `${batching.name}+${order.name}`
      return (options[batching.name] ?? [{}]).flatMap((given) => {
        const limited = withLimits(policy, given, slo, { batchings, orders })
        const all = limited === given ? [given] : [limited, given]
        return all.map((policyOptions) => ({ policy, policyOptions }))
      })
    }),
  )
}

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

/** The configuration of `cllm serve` with a policy, in YAML. */
export function policyYaml(
  { policy, policyOptions, slots, contextSize, kvTokens, batchSize }: SimulationResult,
  plugins: readonly string[],
): string {
  const options = Object.entries(policyOptions).map(([name, value]) => {
    return `    ${name}: ${JSON.stringify(value)}\n`
  })
  return [
    ...(plugins.length > 0 ? ['plugins:\n'] : []),
    ...plugins.map((use) => `  - ${JSON.stringify(use)}\n`),
    `scheduler:\n  policy: ${policy}\n`,
    ...(options.length > 0 ? ['  policy_options:\n', ...options] : []),
    `engine:\n  slots: ${slots}\n  ctx_size: ${contextSize}\n  batch_size: ${batchSize}\n`,
    ...(kvTokens === undefined ? [] : [`  kv_tokens: ${kvTokens}\n`]),
  ].join('')
}
