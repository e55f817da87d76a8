import { array, assert, constantFrom, integer, property } from 'fast-check'
import t from 'tap'
import { Candidates } from '../../../src/sampling/chain/candidates/candidates.js'
import { RadixSort } from '../../../src/sampling/chain/candidates/radix-sort.js'
import { SimdScan } from '../../../src/sampling/chain/scan/simd/simd-scan.js'
import { noise, peaked } from './logits.js'

const sizes = constantFrom(1, 40, 700, 20_000, 140_000)

function begin(size: number, seed: number): { candidates: Candidates; order: number[] } {
  const logits = seed % 2 === 0 ? noise(size, seed, 2) : peaked(size, seed)
  // some equal ones
  for (let id = 0; id < size; id += 5) logits[id] = Math.round(logits[id]!) + 0
  const scan = new SimdScan(size)
  scan.load(logits)
  const candidates = new Candidates(scan)
  candidates.begin()
  const order = [...logits.keys()].sort((a, b) => logits[b]! - logits[a]! || a - b)
  return { candidates, order }
}

function listed({ ids, size }: Candidates): number[] {
  return [...ids.subarray(0, size)]
}

t.test('the likeliest tokens, in order', async (t) => {
  assert(
    property(
      sizes,
      integer(),
      constantFrom(1, 3, 40, 590, 600, 8192, 60_000),
      (size, seed, count) => {
        const { candidates, order } = begin(size, seed)
        t.equal(candidates.likeliest, order[0])
        candidates.keepTop(count)
        const expected = order.slice(0, count)
        t.equal(candidates.size, expected.length)
        t.ok(candidates.isSorted)
        return same(listed(candidates), expected) && candidates.likeliest === order[0]
      },
    ),
    { numRuns: 60, seed: 1 },
  )
})

t.test('cuts, reorderings and parts', async (t) => {
  assert(
    property(sizes, integer(), (size, seed) => {
      const { candidates, order } = begin(size, seed)
      const { scan } = candidates
      const logitOf = (id: number) => scan.logits[id]!
      const least = logitOf(order[order.length >> 1]!)
      candidates.keepFrom(least)
      const kept = order.filter((id) => logitOf(id) >= least)
      t.ok(
        same(
          listed(candidates),
          kept.toSorted((a, b) => a - b),
        ),
      )
      const front = Math.min(kept.length, 7)
      candidates.sortFirst(front)
      t.ok(same(listed(candidates).slice(0, front), kept.slice(0, front)))
      t.ok(
        same(
          listed(candidates).sort((a, b) => a - b),
          kept.toSorted((a, b) => a - b),
        ),
      )
      candidates.sort()
      t.ok(same(listed(candidates), kept))
      candidates.keepFrom(logitOf(kept[kept.length - 1]!) + 0.5)
      t.ok(candidates.isSorted)
      const left = kept.slice(0, candidates.size)
      t.ok(left.every((id) => logitOf(id) >= logitOf(kept.at(-1)!) + 0.5))
      if (left.length < 4) return
      candidates.dropFirst(1)
      t.equal(candidates.largest, logitOf(left[1]!))
      candidates.keep([2, 0], 2)
      t.same(listed(candidates), [left[3], left[1]])
      t.equal(logitOf(candidates.likeliest), logitOf(left[1]!))
      t.notOk(candidates.isSorted)
    }),
    { numRuns: 40, seed: 1 },
  )
})

t.test('sorting any floats', async () => {
  const sort = new RadixSort()
  const anyFloat = integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }).map((bits) => {
    const [value] = new Float32Array(Int32Array.of(bits).buffer)
    return Number.isNaN(value) ? 0 : value!
  })
  const some = array(anyFloat, { maxLength: 5000, size: 'max' })
  const close = array(constantFrom(-0, 0, 1e-40, -1e-40, 1), { maxLength: 300, size: 'max' })
  for (const values of [some, close]) {
    assert(
      property(values, (values) => {
        const logits = Float32Array.from(values)
        const ids = Int32Array.from(values, (_, index) => index)
        sort.sort(ids, logits, values.length)
        const expected = Float32Array.from(values).sort().reverse()
        return (
          logits.every((logit, index) => logit === expected[index]) &&
          ids.every((id, index) => Math.fround(values[id]!) === logits[index])
        )
      }),
      { numRuns: 60, seed: 1 },
    )
  }
})

function same(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, index) => value === b[index])
}
