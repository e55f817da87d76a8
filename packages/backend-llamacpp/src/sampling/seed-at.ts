import { mixBits } from '@cllm/core'

/** llama.cpp draws a random seed when it is given this one. */
const randomSeed = 0xffffffff

/** The golden ratio in 32 bits: odd, so that a product with it is a bijection. */
const golden = 0x9e3779b9

/**
 * The seed of the draw after `position`: a hash of both, one-to-one in the position, so that two
 * positions of a request never share a seed. The mixer is MurmurHash3's (A. Appleby).
 */
export function seedAt(seed: number, position: number): number {
  const hash = mixBits((mixBits(seed) + Math.imul(position, golden)) | 0)
  return hash === randomSeed ? 0 : hash
}
