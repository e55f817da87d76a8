import 'reflect-metadata'
import { runUntilIdle } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import {
  BlockChain,
  BlockIndex,
  blockSize,
  minimumWait,
} from '../../../src/engine/kv/block-chain.js'
import type { Sequence } from '../../../src/engine/requests/sequence.js'
import { BlockPrefixIndex, longestMatch } from '../../../src/engine/kv/prefix-index.js'
import type { Slot } from '../../../src/engine/engine-parts.js'
import {
  type RigOptions,
  collect,
  greedy,
  leftovers,
  nothingLeft,
  promptOf,
  rig,
} from '../../rig.js'
import { sequenceOf } from '../../sequences.js'

/** Lists of tokens that often begin alike: each block is one of two. */
const lists = fc.array(
  fc.record({
    blocks: fc.array(fc.nat(1), { maxLength: 6 }),
    rest: fc.array(fc.nat(3), { maxLength: blockSize - 1 }),
    scope: fc.constantFrom('a', 'b'),
  }),
  { minLength: 1, maxLength: 8 },
)

t.test('BlockIndex finds what comparing token by token finds', async (t) => {
  let runs = 0
  let found = 0
  fc.assert(
    fc.property(lists, fc.nat(7), (given, gone) => {
      runs++
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
  t.ok(found > runs / 15)
})

t.test('BlockChain grows with its tokens', (t) => {
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

const slotOf = (id: number): Slot => ({
  id,
  chain: undefined,
  length: 0,
  blocks: 0,
  owner: undefined,
  usedAt: 0,
})

const idle = (index: BlockPrefixIndex, sequence: Sequence) => longestMatch(index, sequence, 'idle')
const running = (index: BlockPrefixIndex, sequence: Sequence) =>
  longestMatch(index, sequence, 'running')

t.test('BlockPrefixIndex: what other slots have too is counted in whole blocks', (t) => {
  const index = new BlockPrefixIndex()
  const [one, two, three] = [slotOf(0), slotOf(1), slotOf(2)]
  const keep = (slot: Slot, tokens: number[]) => {
    slot.length = tokens.length
    index.keep(slot, sequenceOf(tokens))
  }
  t.equal(index.sharedWithOthers(one), 0, 'an empty one has nothing')
  keep(one, promptOf(60))
  t.equal(index.sharedWithOthers(one), 0)
  keep(two, [...promptOf(40), 1, 2])
  t.equal(index.sharedWithOthers(one), 32)
  const sequence = sequenceOf([...promptOf(60), 3])
  sequence.computedTokens = 50
  index.occupy(three, sequence)
  t.equal(index.sharedWithOthers(one), 48, 'as far as a running one has computed')
  t.equal(index.sharedWithOthers(two), 32)
  index.drop(one)
  t.equal(index.sharedWithOthers(one), 0)
  t.end()
})

t.test(
  'BlockPrefixIndex: what a slot keeps can be found to the token, until it is dropped',
  (t) => {
    const index = new BlockPrefixIndex()
    const prompt = promptOf(40)
    const slot = slotOf(0)
    slot.length = 38
    const { version } = index
    index.keep(slot, sequenceOf(prompt))
    t.not(index.version, version, 'a look-up that is remembered is made again')
    t.equal(idle(index, sequenceOf([...prompt, 1, 2])), 38, 'two whole blocks and six tokens')
    t.equal(idle(index, sequenceOf([...prompt.slice(0, 35), 1, 2])), 35)
    t.equal(idle(index, sequenceOf(prompt.slice(0, 33))), 32, 'the last token is computed anew')
    t.equal(idle(index, sequenceOf(prompt.slice(0, 15))), 0, 'less than a block is not found')
    t.equal(idle(index, sequenceOf(promptOf(40, 1))), 0)
    t.equal(idle(index, sequenceOf(prompt, { scope: 'other' })), 0, 'nor by another tenant')
    t.equal(idle(index, sequenceOf(prompt, { cache: false })), 0)
    t.equal(running(index, sequenceOf(prompt)), 0, 'it is not running')
    t.same([...index.matches(sequenceOf([...prompt, 1]), 'idle')], [{ slot, shared: 38 }])
    index.drop(slot)
    t.equal(idle(index, sequenceOf([...prompt, 1])), 0)
    t.end()
  },
)

t.test('BlockPrefixIndex: what a running sequence has computed and will compute', (t) => {
  const index = new BlockPrefixIndex()
  const producer = sequenceOf(promptOf(100))
  const slot = slotOf(1)
  slot.owner = producer
  producer.state = 'prefilling'
  index.occupy(slot, producer)
  const consumer = sequenceOf([...promptOf(90), 1, 2, 3])
  t.equal(running(index, consumer), 0, 'nothing is computed yet')
  t.same(index.planned(consumer), { sequence: producer, shared: 80 }, 'five blocks of 16')
  t.equal(index.planned(sequenceOf(promptOf(90, 1))), undefined)

  producer.computedTokens = 50
  index.grow(slot, producer)
  t.equal(running(index, consumer), 50)
  t.equal(index.planned(consumer)?.sequence, producer)
  producer.computedTokens = 100
  index.grow(slot, producer)
  t.equal(running(index, consumer), 90)
  t.equal(index.planned(consumer), undefined, 'there is nothing left to wait for')

  const short = sequenceOf(promptOf(minimumWait - 1, 2))
  const other = slotOf(2)
  other.owner = short
  short.state = 'prefilling'
  index.occupy(other, short)
  t.equal(index.planned(sequenceOf([...promptOf(minimumWait - 1, 2), 1])), undefined, 'too short')

  index.drop(slot)
  t.equal(running(index, consumer), 0)
  t.end()
})

t.test('BlockPrefixIndex finds the longest prefix that any slot keeps', async (t) => {
  let runs = 0
  let found = 0
  fc.assert(
    fc.property(lists, fc.array(fc.nat(8)), (given, dropped) => {
      runs++
      const sequences = given.map(({ blocks, rest, scope }) => {
        const tokens = blocks.flatMap((kind) =>
          Array.from({ length: blockSize }, (_, at) => at * kind),
        )
        return sequenceOf([...tokens, ...rest, 9], { scope })
      })
      const [asked, ...others] = sequences
      if (asked === undefined) return
      const index = new BlockPrefixIndex()
      const slots = others.map((sequence, id) => {
        const slot = { ...slotOf(id), length: sequence.tokens.length }
        index.keep(slot, sequence)
        return slot
      })
      const gone = new Set(dropped)
      for (const slot of slots) if (gone.has(slot.id)) index.drop(slot)
      const shared = others.map(({ tokens, request: { scope } }, id) => {
        if (gone.has(id) || scope !== asked.request.scope) return 0
        const limit = Math.min(tokens.length, asked.tokens.length - 1)
        let same = 0
        while (same < limit && tokens[same] === asked.tokens[same]) same++
        return same
      })
      const longest = Math.max(0, ...shared)
      const expected = longest < blockSize ? 0 : longest
      if (idle(index, asked) !== expected) {
        throw new Error(`found ${idle(index, asked)} instead of ${expected}`)
      }
      if (expected > 0) found++
    }),
    { numRuns: 300 },
  )
  t.ok(found > runs / 15, 'often there was one')
})

/** Every gap between slots in use makes a step 5 ms longer. */
const layoutMs = (used: readonly number[]): number =>
  5 * Math.max(0, used.filter((slot) => !used.includes(slot - 1)).length - 1)

/** Three requests run in the slots 0, 1 and 2, then the middle one ends. */
async function withGap(options: RigOptions, maxTokens = 150) {
  const made = rig({
    slots: 4,
    layoutMs,
    stepMs: (batch) => {
      const tokens = batch.reduce((sum, item) => sum + item.tokens.length, 0)
      return 10 + tokens + layoutMs(batch.map(({ slot }) => slot))
    },
    copyMs: () => 40,
    ...options,
  })
  const answers = ['low', 'middle', 'high'].map((id, family) =>
    collect(made.client.submit({ ...greedy(promptOf(30, family), maxTokens), id })),
  )
  await runUntilIdle(made.clock, 1300)
  made.client.cancel('middle')
  return { made, answers }
}

const movesOf = ({ backend }: Awaited<ReturnType<typeof withGap>>['made']) =>
  backend.operations.filter(({ type }) => type === 'copyPrefix')

t.test('sequences come together when the gap has cost as much as the move', async (t) => {
  const { made, answers } = await withGap({})
  const stepsBefore = made.backend.steps.length
  const [low, , high] = await made.run(Promise.all(answers))
  t.equal(low?.tokens.length, 150)
  t.equal(high?.tokens.length, 150)
  t.match(movesOf(made), [{ from: 0, to: 3 }], 'into the slot that holds nothing')
  const apart = made.backend.steps
    .slice(stepsBefore)
    .filter(({ batch }) => batch.some(({ slot }) => slot === 0)).length
  t.ok(apart >= 2 && apart <= 40, `it moved after ${apart} steps`)
  const undisturbed = rig({ slots: 4 })
  for (const [index, answer] of [low, undefined, high].entries()) {
    if (answer === undefined) continue
    t.same(answer.tokens, (await undisturbed.ask(greedy(promptOf(30, index), 150))).tokens)
  }
  t.match(leftovers(made), nothingLeft)
})

t.test('nobody moves where it is not worth it', async (t) => {
  const cases: [string, RigOptions, number?][] = [
    ['any slots are as good', { layoutMs: () => 0 }],
    ['a copy costs more than all that is left to come', { copyMs: () => 5000 }],
    ['it ends soon', {}, 24],
  ]
  for (const [name, options, maxTokens] of cases) {
    const { made, answers } = await withGap(options, maxTokens)
    await made.run(Promise.all(answers))
    // what a copy costs is learned from the first one
    t.ok(movesOf(made).length <= 1, name)
    t.match(leftovers(made), nothingLeft)
  }
})

t.test('a conversation in whose slot another one is moved is saved before', async (t) => {
  const made = rig({
    slots: 3,
    contextSize: 400,
    layoutMs,
    stepMs: (batch) => {
      const tokens = batch.reduce((sum, item) => sum + item.tokens.length, 0)
      return 10 + tokens + layoutMs(batch.map(({ slot }) => slot))
    },
    copyMs: () => 40,
    stateMs: () => 1,
    options: { cacheRamBytes: 1e6 },
  })
  const [low, middle, high] = [200, 4, 200].map((maxTokens, family) =>
    collect(made.client.submit(greedy(promptOf(100, family), maxTokens))),
  )
  await made.run(middle!)
  await made.run(Promise.all([low, high]))
  t.match(movesOf(made), [{ to: 1 }])
  const { end } = await made.ask(greedy([...promptOf(100, 1), 5], 1))
  t.equal(end?.usage.cachedTokens, 100)
  t.match(leftovers(made), nothingLeft)
})

t.test('a move that fails changes nothing', async (t) => {
  for (const keepMultipleOf of [1, 16]) {
    const { made, answers } = await withGap({ keepMultipleOf })
    const { backend } = made
    const copy = backend.copyPrefix.bind(backend)
    backend.copyPrefix = async (from, to, length) => {
      await copy(from, to, length)
      if (keepMultipleOf === 1) throw new Error('half-way')
      return length - 1
    }
    const [low, , high] = await made.run(Promise.all(answers))
    t.equal(low?.tokens.length, 150)
    t.equal(high?.tokens.length, 150)
    t.match(leftovers(made), nothingLeft)
  }
})

t.test('two move where one alone would change nothing', async (t) => {
  const made = rig({
    slots: 8,
    layoutMs,
    stepMs: (batch) => 10 + 5 * layoutMs(batch.map(({ slot }) => slot)),
    copyMs: () => 40,
  })
  const { client, clock, run } = made
  const answers = Array.from({ length: 8 }, (_, family) =>
    collect(client.submit({ ...greedy(promptOf(30, family), 150), id: String(family) })),
  )
  await runUntilIdle(clock, 1300)
  for (const id of ['2', '3', '6', '7']) client.cancel(id)
  const ended = await run(Promise.all(answers))
  t.equal(movesOf(made).length, 2)
  const last = made.backend.steps.at(-1)?.batch.map(({ slot }) => slot) ?? []
  t.equal(layoutMs(last), 0, `they end in ${last.join()}`)
  for (const family of [0, 1, 4, 5]) t.equal(ended[family]?.tokens.length, 150)
  t.match(leftovers(made), nothingLeft)
})
