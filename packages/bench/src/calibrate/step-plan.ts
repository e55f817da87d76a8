import type { BackendLimits } from '@cllm/core'
import type { Share } from '@cllm/scheduler/simulation'

/** A step to measure: what its sequences compute, in slots 0, 1, …, and what the slots held before. */
export interface PlannedStep {
  readonly kind: 'decode' | 'prefill' | 'mixed'
  readonly shares: readonly Share[]
}

/**
 * The steps that tell a machine's costs apart: few and many sequences, short and long contexts, one
 * and several lengths of chunks. Mixed ones are not fitted: they check the fit.
 */
export function planSteps({ slots, contextSize, batchSize }: BackendLimits): PlannedStep[] {
  const longest = Math.max(0, contextSize - 64)
  const contexts = [0, Math.floor(longest / 4), Math.floor(longest / 2)]
  const counts = [1, 2, 4, 8, 16, 32].filter((count) => count <= slots)
  const sizes = [16, 64, 128, 256, 512].filter((size) => size <= batchSize && size <= longest / 2)
  const decode = counts.flatMap((count) =>
    contexts.map((context): PlannedStep => ({
      kind: 'decode',
      shares: equal(count, 1, context + 8),
    })),
  )
  const prefill = sizes.flatMap((size) =>
    contexts.map((context): PlannedStep => ({ kind: 'prefill', shares: equal(1, size, context) })),
  )
  const groups = [
    [64, 64],
    [32, 32, 32, 32],
    [32, 64],
    [16, 48, 96],
    [16, 32, 64, 80],
  ]
    .filter((group) => group.length <= slots && sum(group) <= Math.min(batchSize, longest / 2))
    .map((group): PlannedStep => ({ kind: 'prefill', shares: shares(group, 0) }))
  const mixed = counts.slice(1).flatMap((count) =>
    sizes
      .filter((size) => size + count <= batchSize)
      .slice(0, 3)
      .map((size): PlannedStep => {
        const [chunk] = equal(1, size, contexts[1] ?? 0)
        return { kind: 'mixed', shares: [chunk as Share, ...equal(count, 1, 40).slice(1)] }
      }),
  )
  return [...decode, ...prefill, ...groups, ...mixed]
}

function shares(tokens: readonly number[], context: number): Share[] {
  return tokens.map((count, slot) => ({ slot, tokens: count, context }))
}

const equal = (count: number, tokens: number, context: number) =>
  shares(
    Array.from({ length: count }, () => tokens),
    context,
  )

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
