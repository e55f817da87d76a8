import t from 'tap'
import { DrawRandom } from '../../../src/sampling/chain/random/draw-random.js'
import { MersenneTwister } from '../../../src/sampling/chain/random/mersenne-twister.js'

t.test('the outputs of std::mt19937', async (t) => {
  const twister = new MersenneTwister()
  const first = (seed: number, count: number) => {
    twister.seed(seed)
    return Array.from({ length: count }, () => twister.next())
  }
  // the standard's default seed, whose 10,000th output it names; these are its first
  t.same(first(5489, 4), [3499211612, 581869302, 3890346734, 3586334585])
  t.same(first(0, 3), [2357136044, 2546248239, 3071714933])
  t.same(first(0xffffffff, 3), [419326371, 479346978, 3918654476])
  t.same(first(5489, 227).length, 227)
  t.throws(() => twister.next(), RangeError)
})

t.test('the numbers that llama.cpp makes of them', async (t) => {
  const random = new DrawRandom()
  random.seed(5489)
  t.equal(random.uniform(), (3499211612 + 581869302 * 2 ** 32) / 2 ** 64)
  t.equal(random.uniform(), (3890346734 + 3586334585 * 2 ** 32) / 2 ** 64)
  t.equal(random.chance(), Math.fround(3499211612) / 2 ** 32, 'of a generator of its own')
  t.equal(random.chance(), Math.fround(581869302) / 2 ** 32)
  random.seed(5489)
  t.equal(random.chance(), Math.fround(3499211612) / 2 ** 32, 'a seed begins anew')
})
