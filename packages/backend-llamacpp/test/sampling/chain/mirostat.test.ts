import { assert, constantFrom, integer, property } from 'fast-check'
import t from 'tap'
import { Candidates } from '../../../src/sampling/chain/candidates/candidates.js'
import { SimdScan } from '../../../src/sampling/chain/scan/simd/simd-scan.js'
import { Mirostat } from '../../../src/sampling/chain/steps/mirostat.js'
import { noise, peaked } from './logits.js'

/** The entropy of the likeliest tokens in bits. */
function entropyOf(sorted: readonly number[], count: number, temperature: number): number {
  const weights = sorted
    .slice(0, count)
    .map((logit) => Math.exp((logit - sorted[0]!) / temperature))
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return weights.reduce(
    (sum, weight) => sum - (weight === 0 ? 0 : (weight / total) * Math.log2(weight / total)),
    0,
  )
}

t.test('as many tokens as have the expected surprise', async () => {
  assert(
    property(
      constantFrom(1, 30, 3000),
      integer(),
      constantFrom(0, 0.5, 2, 5, 100),
      constantFrom(0.5, 1, 3),
      (size, seed, tau, temperature) => {
        const logits = seed % 2 === 0 ? noise(size, seed, 1) : peaked(size, seed)
        const scan = new SimdScan(size)
        scan.load(logits)
        const candidates = new Candidates(scan)
        candidates.begin()
        new Mirostat(tau, temperature).apply(candidates)
        const sorted = [...logits].sort((a, b) => b - a)
        const kept = candidates.size
        const isLow = kept === 1 || entropyOf(sorted, kept, temperature) <= tau + 1e-6
        const isMost = kept === size || entropyOf(sorted, kept + 1, temperature) > tau - 1e-6
        return isLow && isMost && candidates.isSorted
      },
    ),
    { numRuns: 200, seed: 1 },
  )
})
