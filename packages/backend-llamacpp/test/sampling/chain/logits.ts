import { mixBits, type TokenId } from '@cllm/core'
import type { ChainSampler } from '../../../src/sampling/chain/chain-sampler.js'
import { SamplerWorkspace } from '../../../src/sampling/chain/sampler-workspace.js'
import type { Vocabulary } from '../../../src/text/vocabulary.js'

/** A number from 0 to 1 for each seed and index. */
function uniform(seed: number, index: number): number {
  return (mixBits((mixBits(seed) + Math.imul(index, 0x9e3779b9)) | 0) + 0.5) / 2 ** 32
}

/** Nearly normal noise, as the logits of a model with random weights. */
export function noise(size: number, seed: number, deviation: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: size }, (_, index) => {
    let sum = -2
    for (let part = 0; part < 4; part++) sum += uniform(seed, index * 4 + part)
    return sum * Math.sqrt(3) * deviation
  })
}

/** A few tokens far above the noise, as the logits of a trained model. */
export function peaked(size: number, seed: number): Float32Array<ArrayBuffer> {
  const logits = noise(size, seed, 2.5)
  for (let rank = 0; rank < Math.min(size, 200); rank++) {
    const token = Math.floor(uniform(seed + 1, rank) * size)
    logits[token] = 18 - 2 * Math.log(1 + rank) + uniform(seed + 2, rank)
  }
  return logits
}

/** What samplers work on, and draws from logits that a test has. */
export function drawing(vocabulary: Vocabulary) {
  let given = new Float32Array(0)
  const context = { logits: () => given, logitsAddress: () => undefined }
  const workspace = new SamplerWorkspace(context, vocabulary, { encode: () => [] })
  const drawFrom = (
    sampler: ChainSampler,
    logits: Float32Array<ArrayBuffer>,
    position: number,
    start: number,
    tokens: readonly TokenId[],
    listed?: number,
  ): TokenId => {
    given = logits
    sampler.prepare(position, start, tokens)
    return sampler.draw(0, listed)
  }
  return { workspace, drawFrom }
}
