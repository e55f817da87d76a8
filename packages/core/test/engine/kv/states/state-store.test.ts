import t from 'tap'
import { BlockChain } from '../../../../src/engine/kv/block-chain.js'
import { type SavedState, unused } from '../../../../src/engine/kv/states/state-index.js'
import { sizeFor } from '../../../../src/engine/kv/states/state-memory.js'
import { StateStore } from '../../../../src/engine/kv/states/state-store.js'

const short = 200_000
const long = 400_000

/** A store with a state of `long` bytes and the one of `short` that it goes on from. */
function made(limit: number, now = () => 0) {
  const asked: number[] = []
  const make = (bytes: number) => new ArrayBuffer(bytes)
  const makeReady = async (bytes: number) => {
    asked.push(bytes)
    return make(bytes)
  }
  const store = new StateStore(limit, { now }, () => 1, { make, makeReady })
  const stateOf = (tokens: number[], bytes: number): SavedState => {
    const chain = new BlockChain(tokens, '')
    const data = store.room(bytes, tokens.length)
    if (data === undefined) throw new Error(`no room for ${bytes} bytes`)
    return { chain, partial: false, bytes, data, ...unused() }
  }
  const older = stateOf([1, 2], short)
  store.add(older)
  return { store, asked, stateOf, older, longer: stateOf([1, 2, 3, 4], long) }
}

/** What both take, and most of one more. */
const limit = sizeFor(short) + 1.75 * sizeFor(long)

t.test('memory of a state that a longer one replaces counts when more is made ready', (t) => {
  const { store, asked, older, longer } = made(limit)
  store.add(longer, [older])
  t.equal(store.memory.freeBytes, sizeFor(short), 'it is given back at once')
  store.expect(long)
  t.strictSame(asked, [], 'there is no room for more beside it')

  const wider = made(sizeFor(short) + 3 * sizeFor(long))
  wider.store.add(wider.longer, [wider.older])
  wider.store.expect(long)
  t.strictSame(wider.asked, [sizeFor(long)], 'where there is, it is made')
  t.end()
})

t.test('so does that of one that was still read when it was removed', (t) => {
  const { store, asked, older, longer } = made(limit)
  older.holds++
  store.add(longer, [older])
  t.equal(store.memory.freeBytes, 0, 'it is not given back while it is read')
  older.holds--
  store.expect(long)
  t.equal(store.memory.freeBytes, sizeFor(short))
  t.strictSame(asked, [])
  t.end()
})

t.test('a state whose program is gone is dropped before others', (t) => {
  const { store, older, longer } = made(limit)
  store.add({ ...longer, program: { returnChance: () => 0.01 } as never })
  t.ok(store.room(long, 4), 'the one that was used last leaves')
  t.same([...store.states], [older])
  t.end()
})

t.test('nothing is dropped for a state that has no room beside those that must stay', (t) => {
  const { store, older, longer } = made(limit)
  longer.kept = { until: Infinity, tenant: '' }
  store.add(longer)
  t.equal(store.room(1.5 * long, 4, [older]), undefined)
  t.ok(store.prepare(1.5 * long), 'nor is it waited for')
  t.ok(store.states.has(older) && store.states.has(longer))
  t.equal(store.evictions, 0)
  t.end()
})

t.test('what was kept until now takes nothing of its tenant’s share', (t) => {
  let now = 0
  // Two of three fit into a quarter.
  const { store, older, stateOf } = made(10 * sizeFor(short), () => now)
  const keep = (state: SavedState, until: number) => {
    store.add(state)
    store.keep(state, { until, tenant: 'a' })
  }
  store.keep(older, { until: 10, tenant: 'a' })
  const other = stateOf([5], short)
  keep(other, 100)
  now = 20
  store.renew(older)
  keep(stateOf([6], short), 100)
  t.ok(other.kept)
  keep(stateOf([7], short), 100)
  t.notOk(other.kept, 'a third one takes the place of the first')
  t.end()
})
