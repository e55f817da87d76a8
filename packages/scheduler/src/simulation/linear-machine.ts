import { stepFeatures } from '../cost-model.js'
import type { MachineModel } from './machine-model.js'

/**
 * Costs of a machine as `cllm bench calibrate` fits them, in milliseconds:
 *
 *     decode  = base + each · sequences + read · context
 *     prefill = base + again · (lengths − 1) + each · tokens + read · Σ tokens · context
 *
 * A step with both costs the sum; see `CostModel`.
 */
export interface LinearCosts {
  readonly decode: { readonly base: number; readonly each: number; readonly read: number }
  readonly prefill: {
    readonly base: number
    readonly again: number
    readonly each: number
    readonly read: number
  }
  /** Copying tokens between slots. */
  readonly copy: { readonly base: number; readonly each: number }
  /** What passes between two steps. */
  readonly betweenSteps: number
}

/** A machine with fitted costs. */
export function linearMachine(
  costs: LinearCosts,
  about: Pick<MachineModel, 'name' | 'about' | 'chunkMultiple'>,
): MachineModel {
  const coefficients = coefficientsOf(costs)
  return {
    ...about,
    stepMs(shares) {
      const decoding: number[] = []
      const chunks: { tokens: number; context: number }[] = []
      for (const { tokens, context } of shares) {
        if (tokens === 1) decoding.push(context + 1)
        else chunks.push({ tokens, context })
      }
      const features = stepFeatures(decoding, chunks)
      let milliseconds = costs.betweenSteps
      for (let index = 0; index < features.length; index++) {
        milliseconds += (features[index] ?? 0) * (coefficients[index] ?? 0)
      }
      return milliseconds
    },
    copyMs: (tokens) => costs.copy.base + costs.copy.each * tokens,
  }
}

/** The costs of a step in the order of `stepFeatures`. */
export function coefficientsOf({ decode, prefill }: LinearCosts): number[] {
  const { base, again, each, read } = prefill
  return [decode.base, decode.each, decode.read, base, again, each, read]
}
