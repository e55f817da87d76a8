import type { BackendLimits } from '@cllm/core'
import type { Share } from '@cllm/simulation'

/** A step to measure: what its sequences compute, by slot, and what the slots held before. */
export interface PlannedStep {
  readonly kind: 'decode' | 'prefill' | 'mixed'
  readonly shares: readonly Share[]
}

/** The longest context that is measured. A context's cost is taken for linear: longer ones would only take longer to fill. */
export const longContext = 1024

/**
 * The steps that tell a machine's costs apart: few and many sequences, short and long contexts, one and
 * several lengths of chunks, all in slots that follow each other. Mixed ones are not fitted: they check the
 * fit. The longest contexts come first, since a slot is shortened for nothing.
 */
export function planSteps({ slots, contextSize, batchSize }: BackendLimits): PlannedStep[] {
  const room = Math.max(0, contextSize - 64) / 2
  const counts = [1, 2, 4, 8, 16, 32].filter((count) => count <= slots)
  const several = counts.filter((count) => count > 1)
  const fewAndMany = [...new Set([...several.slice(0, 1), ...several.slice(-1)])]
  const longest = Math.min(longContext, Math.floor(room))
  const at = (context: number): PlannedStep[] => {
    const sizes = [16, ...(context === 0 ? [48] : []), 64, 128].filter(
      (size) => size <= Math.min(batchSize, room),
    )
    return [
      ...counts.map((count) => step('decode', equal(count, 1, context + 8))),
      ...sizes.map((size) => step('prefill', equal(1, size, context))),
      ...fewAndMany.flatMap((count) =>
        [16, 64]
          .filter((size) => sizes.includes(size) && size + count <= batchSize)
          .map((size) => step('mixed', [...equal(count, 1, 40).slice(1), chunk(size, context)])),
      ),
    ]
  }
  const groups = [[256], [64, 64], [32, 32, 32, 32], [32, 64], [16, 48, 96]]
    .filter((group) => group.length <= slots && sum(group) <= Math.min(batchSize, room))
    .map((group) => step('prefill', shares(group, 0)))
  return [longest, Math.floor(longest / 2), 0].flatMap(at).concat(groups)
}

const step = (kind: PlannedStep['kind'], all: readonly Share[]): PlannedStep => ({
  kind,
  shares: all,
})

function shares(tokens: readonly number[], context: number): Share[] {
  return tokens.map((count, slot) => ({ slot, tokens: count, context }))
}

const equal = (count: number, tokens: number, context: number) =>
  shares(
    Array.from({ length: count }, () => tokens),
    context,
  )

const chunk = (tokens: number, context: number): Share => ({ slot: 0, tokens, context })

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
