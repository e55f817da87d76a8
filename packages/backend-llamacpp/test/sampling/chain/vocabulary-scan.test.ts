import { readFile } from 'node:fs/promises'
import { assert, constantFrom, integer, property } from 'fast-check'
import t from 'tap'
import wabt from 'wabt'
import { PlainScan } from '../../../src/sampling/chain/scan/plain-scan.js'
import { simdModule } from '../../../src/sampling/chain/scan/simd/simd-module.js'
import { SimdScan } from '../../../src/sampling/chain/scan/simd/simd-scan.js'
import {
  blockSize,
  leastLogit,
  type VocabularyScan,
} from '../../../src/sampling/chain/scan/vocabulary-scan.js'
import { noise, peaked } from './logits.js'

t.test('the module is made of its source', async (t) => {
  const folder = new URL('../../../src/sampling/chain/scan/simd/', import.meta.url)
  const text = await readFile(new URL('simd-scan.wat', folder), 'utf8')
  const assembler = await wabt()
  const module = assembler.parseWat('simd-scan.wat', text, { simd: true })
  module.validate()
  const { buffer } = module.toBinary({})
  t.equal(Buffer.from(buffer).toString('base64'), simdModule, 'node assemble-scan.mjs')
})

t.test('both scans find the same', async (t) => {
  t.ok(SimdScan.isSupported())
  assert(
    property(
      integer({ min: 1, max: 1000 }),
      integer(),
      constantFrom(0.3, 1, 4),
      (size, seed, deviation) => {
        const logits = seed % 2 === 0 ? noise(size, seed, deviation) : peaked(size, seed)
        for (let token = 0; token < size; token += 17)
          logits[token] = seed % 3 === 0 ? NaN : -Infinity
        const plain = new PlainScan(size)
        const simd = new SimdScan(size)
        for (const scan of [plain, simd]) scan.load(logits)
        const usable = logits.filter((logit) => logit > -Infinity)
        const largest = usable.reduce((most, logit) => Math.max(most, logit), -Infinity)
        t.equal(plain.findLargest(), largest)
        t.equal(simd.findLargest(), largest)
        if (largest === -Infinity) return
        t.same(simd.maxima, plain.maxima)
        for (const from of [leastLogit, largest - 3, largest]) {
          const expected = [...logits.keys()].filter((id) => logits[id]! >= from)
          for (const scan of [plain, simd]) {
            const count = scan.collect(from)
            t.same([...scan.ids.subarray(0, count)], expected)
            t.same(
              [...scan.listed.subarray(0, count)],
              expected.map((id) => logits[id]),
            )
          }
        }
        const shift = Math.fround(largest / Math.fround(0.7))
        for (const from of [leastLogit, largest - 3]) {
          const totals = [plain, simd].map((scan) => weighed(scan, from, shift))
          t.ok(near(totals[0]!, totals[1]!), 'totals')
          t.ok(
            plain.sums.every((sum, block) => near(sum, simd.sums[block]!)),
            'sums',
          )
          const written = [...plain.weights.keys()].filter(
            (token) => plain.sums[Math.floor(token / blockSize)] !== 0,
          )
          t.ok(
            written.every((token) => near(plain.weights[token]!, simd.weights[token]!)),
            'weights',
          )
        }
        const count = Math.min(plain.collect(leastLogit), simd.collect(leastLogit))
        const sums = [plain, simd].map((scan) => scan.weighListed(count, 1, largest))
        t.ok(near(sums[0]!, sums[1]!), 'of lists')
      },
    ),
    { numRuns: 40, seed: 1 },
  )
})

function weighed(scan: VocabularyScan, from: number, shift: number): number {
  return scan.weigh(from, Math.fround(0.7), shift)
}

/** Equal but for rounding in single precision, and for what is as good as nothing. */
function near(a: number, b: number): boolean {
  return Math.abs(a - b) <= 1.2e-7 * Math.abs(a) + 1e-36
}
