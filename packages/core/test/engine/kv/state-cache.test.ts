import type { TokenId } from '@cllm/core'
import { runUntilIdle } from '@cllm/core/testing'
import t, { type Test } from 'tap'
import {
  collect,
  expectedTokens,
  greedy,
  leftovers,
  nothingLeft,
  promptOf,
  type Rig,
  rig,
  type RigOptions,
} from '../../rig.js'

/** Time goes with tokens, so that the engine learns what computing costs. */
const stepMs: RigOptions['stepMs'] = (batch) =>
  batch.reduce((ms, { tokens }) => ms + tokens.length, 5)

/** An engine that keeps what its slots lose. */
const caching = (options: RigOptions = {}, cacheRamBytes = 1e6): Rig =>
  rig({
    slots: 2,
    contextSize: 1000,
    stepMs,
    stateMs: (bytes) => bytes / 1000,
    options: { cacheRamBytes },
    ...options,
  })

/** Asks, checks the answer, and returns the conversation with it and how many tokens were found. */
async function ask(t: Test, made: Rig, prompt: readonly TokenId[], change: object = {}) {
  const request = { ...greedy(prompt, 4), ...change }
  const answer = await made.run(collect(made.client.submit(request)))
  t.same(answer.tokens, expectedTokens(made.backend, prompt, 4), 'the answer is the right one')
  return { said: [...prompt, ...answer.tokens], cached: answer.end?.usage.cachedTokens ?? -1 }
}

const ramOf = (made: Rig) => made.engine.statistics().cache!.ram

t.test('a conversation whose slot was given away goes on where it was', async (t) => {
  const made = caching()
  const conversations: TokenId[][] = []
  for (const family of [1, 2, 3, 4, 5]) {
    conversations.push((await ask(t, made, promptOf(100, family))).said)
  }
  // Three slots were lost; what is in the others was saved when there was nothing else to do.
  t.match(ramOf(made), { states: 4, saved: 4, hits: 0, misses: 5 })
  for (const [index, said] of conversations.entries()) {
    const { cached } = await ask(t, made, [...said, ...promptOf(7, 9)])
    t.equal(
      cached,
      said.length - 1,
      `conversation ${index}: all but the token that was not computed`,
    )
  }
  t.match(ramOf(made), { misses: 5, failed: 0, skipped: 0 })
  t.ok(ramOf(made).hits >= 3)
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
})

t.test('a part of what was saved is used, and only by those who may', async (t) => {
  const made = caching({ slots: 1, options: { cacheRamBytes: 1e6, isolateTenants: true } })
  const shared = promptOf(120)
  await ask(t, made, [...shared, ...promptOf(30, 1)], { tenant: 'a' })
  await ask(t, made, promptOf(80, 2), { tenant: 'b' })
  t.equal((await ask(t, made, [...shared, ...promptOf(20, 3)], { tenant: 'b' })).cached, 0)
  t.equal((await ask(t, made, [...shared, ...promptOf(20, 4)], { tenant: 'a' })).cached, 120)
  t.equal((await ask(t, made, [...shared, 9], { tenant: 'a', cache: false })).cached, 0)
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
})

t.test('what does not fit is dropped, the longest unused first', async (t) => {
  const made = caching({ slots: 1 }, 3600)
  const first = await ask(t, made, promptOf(150, 1))
  await ask(t, made, promptOf(150, 2))
  await ask(t, made, promptOf(150, 3))
  t.match(ramOf(made), { states: 1, saved: 2, evictions: 1 })
  t.ok(ramOf(made).bytes <= 3600)
  t.equal((await ask(t, made, [...first.said, 5])).cached, 0, 'the first one is gone')
  await runUntilIdle(made.clock)
})

t.test('a state that cannot be restored is computed again', async (t) => {
  const made = caching({ slots: 1 })
  const { said } = await ask(t, made, promptOf(100, 1))
  await ask(t, made, promptOf(100, 2))
  made.backend.states.restore = async () => {
    throw new Error('no')
  }
  t.equal((await ask(t, made, [...said, 5])).cached, 0)
  t.match(ramOf(made), { hits: 0, failed: 1 })
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
})

t.test('no pause beside requests that decode is longer than a share of a step', async (t) => {
  const made = caching({ slots: 2, stateMs: (bytes) => bytes / 16 })
  const steady = collect(made.client.submit(greedy(promptOf(20, 4), 600)))
  await runUntilIdle(made.clock, made.clock.now() + 100)
  const first = await ask(t, made, promptOf(200, 1))
  // What a save costs is learned from the first ones.
  for (const family of [2, 3, 4, 5, 6, 7, 8]) await ask(t, made, promptOf(200, family))
  t.ok(ramOf(made).saved <= 5, `${ramOf(made).saved} were saved: each of 800 bytes took 50 ms`)
  t.ok(ramOf(made).skipped >= 1)
  t.equal((await ask(t, made, [...first.said, 5])).cached, 203, 'restoring may take longer')
  await made.run(steady)
  await runUntilIdle(made.clock)
})
