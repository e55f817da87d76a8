import type { SamplerDefinition } from '../contracts/definition.js'

/** Types a sampler's `create` by its options, and returns the definition as it is. */
export function defineSampler<Options>(
  sampler: SamplerDefinition<Options>,
): SamplerDefinition<Options> {
  return sampler
}
