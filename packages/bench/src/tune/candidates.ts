import type { PolicyFactory } from '../model-host.js'
import type { Slo } from '../metrics/slo.js'

/** A policy with its options. */
export interface Candidate {
  readonly policy: string
  readonly policyOptions: Readonly<Record<string, unknown>>
}

/** Policies that are worth a try: every order with every batching and some of its options. */
export function candidates(
  { itl }: Slo,
  batchSize: number,
  { batchings, orders }: Pick<PolicyFactory, 'batchings' | 'orders'>,
): Candidate[] {
  const budgets = [64, 128, 256, 512, 1024].filter((tokens) => tokens <= batchSize)
  const targets = itl === undefined ? [] : [0.5, 0.8].map((share) => Math.round(share * itl))
  const options: Readonly<Record<string, readonly Record<string, unknown>[]>> = {
    chunked: budgets.map((tokenBudget) => ({ tokenBudget })),
    adaptive: [{}, ...targets.map((targetStepMs) => ({ targetStepMs }))],
    static: [4, 8, 16].map((groupSize) => ({ groupSize })),
  }
  // `random` is only a baseline.
  const tried = orders.filter((order) => order.name !== 'random')
  return batchings.flatMap((batching) =>
    tried.flatMap((order) =>
      (options[batching.name] ?? [{}]).map((policyOptions) => {
        return { policy: `${batching.name}+${order.name}`, policyOptions }
      }),
    ),
  )
}
