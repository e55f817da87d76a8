import type { Clock, SharedStates } from '@cllm/core'
import type { Test } from 'tap'

/** How states are kept. */
export interface Keeping {
  readonly limitBytes: number
  readonly maxAgeMs: number
  readonly key: string
  readonly clock: Clock
}

const dayMs = 24 * 3_600_000

const head = (scope: string) => ({ key: 'states of a test', scope, partial: false, tokens: [] })

/** Tests what is the same of all places that keep states for several processes; each `make` is one of these. */
export async function testSharedStates(
  t: Test,
  make: (keeping: Keeping) => SharedStates,
): Promise<void> {
  let laterMs = 0
  // As on a machine that slept.
  const clock = { now: () => 0, wall: () => Date.now() + laterMs, at: () => () => {} }
  const keeping = { limitBytes: 1500, maxAgeMs: dayMs, key: 'secret', clock }
  const [one, other, stranger] = [make(keeping), make(keeping), make({ ...keeping, key: 'guess' })]
  const text = async (states: SharedStates, scope: string) => {
    const found = await states.find(head(scope))
    return found && Buffer.from(found.data).toString().slice(0, 5)
  }
  const long = (begin: string) => Buffer.from(begin.padEnd(400))
  t.equal(await text(one, 'a'), undefined)
  t.match(await one.write(head('a'), long('first')), { scope: 'a', bytes: 400 })
  t.equal(await text(other, 'a'), 'first')
  t.equal(await text(other, 'b'), undefined)
  t.equal(await text(stranger, 'a'), undefined, 'of another key')
  await other.write(head('a'), long('next'))
  t.equal(await text(one, 'a'), 'next ')
  await one.write(head('b'), long('other'))
  laterMs = 10
  const before = (await one.find(head('a')))!
  await other.touch(before)
  const { usedAt } = (await one.find(head('a')))!
  t.ok(usedAt > before.usedAt, 'whoever looks sees that it was used')
  t.equal(await one.write(head('c'), Buffer.alloc(2000)), undefined, 'it is too large')
  await one.write(head('c'), long('third'))
  t.same(
    await Promise.all(['a', 'b', 'c'].map(async (scope) => await text(other, scope))),
    ['next ', undefined, 'third'],
    'the longest unused gave way',
  )
  await one.remove((await one.find(head('c')))!)
  t.equal(await text(other, 'c'), undefined)
  laterMs = dayMs + 20
  await one.write(head('d'), long('late'))
  t.equal(await text(one, 'a'), undefined, 'it is too old')
  t.equal(await text(one, 'd'), 'late ')
}
