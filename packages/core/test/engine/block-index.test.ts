import * as fc from 'fast-check'
import t from 'tap'
import { BlockChain, blockSize } from '../../src/engine/block-chain.js'
import { BlockIndex } from '../../src/engine/block-index.js'

/** Lists of tokens that often begin alike: each block is one of two. */
const lists = fc.array(
  fc.record({
    blocks: fc.array(fc.nat(1), { maxLength: 6 }),
    rest: fc.array(fc.nat(3), { maxLength: blockSize - 1 }),
    scope: fc.constantFrom('a', 'b'),
  }),
  { minLength: 1, maxLength: 8 },
)

t.test('it finds what comparing token by token finds', async (t) => {
  let found = 0
  fc.assert(
    fc.property(lists, fc.nat(7), (given, gone) => {
      const all = given.map(({ blocks, rest, scope }) => {
        const tokens = blocks.flatMap((kind) =>
          Array.from({ length: blockSize }, (_, at) => at * kind),
        )
        return { tokens: [...tokens, ...rest], scope }
      })
      const [asked, ...others] = all
      if (asked === undefined) return
      const chains = others.map(({ tokens, scope }) => new BlockChain(tokens, scope))
      const index = new BlockIndex<number>()
      for (const [at, { hashes }] of chains.entries()) index.add(at, hashes, 0, hashes.length)
      const lost = chains[gone]?.hashes ?? []
      // the second half of one that was cut, or all of one that was emptied
      const from = gone % 2 === 0 ? 0 : Math.floor(lost.length / 2)
      index.remove(gone, lost, from, lost.length)

      const shared = others.map(({ tokens, scope }, at) => {
        const held = at === gone ? from * blockSize : tokens.length
        const limit = Math.min(held, asked.tokens.length)
        let same = 0
        while (scope === asked.scope && same < limit && tokens[same] === asked.tokens[same]) same++
        return Math.floor(same / blockSize)
      })
      const most = Math.max(0, ...shared)
      const { hashes } = new BlockChain(asked.tokens, asked.scope)
      t.equal(index.depth(hashes), most)
      const holders = shared.flatMap((depth, at) => (most > 0 && depth === most ? [at] : []))
      t.same(
        [...index.holders(hashes, most)].toSorted((a, b) => a - b),
        holders,
      )
      if (most > 0) found++
    }),
    { numRuns: 300 },
  )
  t.ok(found > 20)
})

t.test('a chain grows with its tokens', (t) => {
  const tokens = Array.from({ length: 40 }, (_, index) => index)
  const chain = new BlockChain(tokens, '')
  const before = [...chain.hashes]
  t.equal(before.length, 2)
  tokens.push(...Array.from({ length: 10 }, () => 7))
  t.same(chain.hashes.slice(0, 2), before)
  t.same(chain.hashes, new BlockChain(tokens, '').hashes)
  t.equal(new Set(chain.hashes).size, 3)
  t.end()
})
