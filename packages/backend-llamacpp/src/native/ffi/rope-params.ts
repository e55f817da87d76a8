import type { RopeOptions } from '../../llamacpp-options.js'

/** `llama_rope_scaling_type`. */
const ropeScalings = { none: 0, linear: 1, yarn: 2 } as const

/** The members of `llama_context_params` that scale positions; those that are not set keep llama.cpp's default. */
export function ropeParams({ scaling, freqBase, freqScale, yarnOriginalContext }: RopeOptions) {
  return {
    ...(scaling !== undefined && { rope_scaling_type: ropeScalings[scaling] }),
    ...(freqBase !== undefined && { rope_freq_base: freqBase }),
    ...(freqScale !== undefined && { rope_freq_scale: freqScale }),
    ...(yarnOriginalContext !== undefined && { yarn_orig_ctx: yarnOriginalContext }),
  }
}
