import assert from 'node:assert/strict'
import { type AppliedAdapter, type TokenId, CllmError } from '@cllm/core'
import { check, type TestContext } from '../test-context.js'
import { type BackendDriver, greedy } from './backend-driver.js'

/** Tokens of each answer. */
const count = 6

/**
 * The checks of adapters.
 *
 * @param path - an adapter of the model that changes what it says; undefined: only what a backend says
 *   of itself is checked
 */
export async function checkAdapters(
  t: TestContext,
  driver: BackendDriver,
  path: string | undefined,
): Promise<void> {
  const { backend, same } = driver
  const { adapters } = backend
  await check(t, 'has adapters if it says so, and refuses what is none', async () => {
    const missing = 'no/such/adapter'
    const error: unknown = await adapters?.load(missing).catch((error: unknown) => error)
    if (adapters === undefined) return
    assert(CllmError.isInstance(error), 'a file that is not there is a CllmError')
    assert(error.message.includes(missing), `the message names the file: ${error.message}`)
  })
  if (adapters === undefined || path === undefined) return
  await check(t, 'adapters change what is said, each step for itself', async () => {
    const adapter = await adapters.load(path)
    const again = await adapters.load(path)
    assert.equal(again.key, adapter.key, 'the same file has the same key')
    const full = [{ adapter, scale: 1 }]
    const opposite = [{ adapter, scale: -1 }]
    const lists = [[], full, opposite, []]
    driver.releaseAll()
    const alone: TokenId[][] = []
    for (const list of lists) alone.push(...(await inTurns(driver, [list])))
    const [base, changed] = alone
    assert.notDeepEqual(changed, base, 'with the adapter it says something else')
    same(alone[3], base, 'and without it again what it said')
    const together = lists.slice(0, backend.limits.slots)
    const expected = alone.slice(0, together.length)
    same(await inTurns(driver, together), expected, 'beside others as alone')
    await assertNotMixed(driver, full)
    again.dispose()
    same(await inTurns(driver, [full]), [changed], 'another was disposed of')
    adapter.dispose()
    same(await inTurns(driver, [[]]), [base], 'and all')
    driver.releaseAll()
  })
}

/** Greedy answers with each of the lists of adapters, a step of each in turn, each in its slot. */
async function inTurns(
  driver: BackendDriver,
  lists: readonly (readonly AppliedAdapter[])[],
): Promise<TokenId[][]> {
  const { backend, prompt } = driver
  driver.releaseAll()
  const sequences = lists.map((adapters, slot) => ({
    slot,
    more: adapters.length === 0 ? {} : { adapters },
    tokens: [...prompt],
    sampler: backend.createSampler({ ...greedy, ignoreEos: true }, prompt),
  }))
  for (let drawn = 0; drawn < count; drawn++) {
    for (const { slot, more, tokens, sampler } of sequences) {
      const from = drawn === 0 ? 0 : tokens.length - 1
      tokens.push((await driver.advance(slot, tokens, sampler, { from, more })).token)
    }
  }
  for (const { sampler } of sequences) sampler.dispose()
  return sequences.map(({ tokens }) => tokens.slice(prompt.length))
}

async function assertNotMixed(
  driver: BackendDriver,
  adapters: readonly AppliedAdapter[],
): Promise<void> {
  if (driver.backend.limits.slots < 2) return
  driver.releaseAll()
  const item = { position: 0, tokens: driver.prompt.slice(0, 2), outputs: [] }
  const mixed = [
    { ...item, slot: 0, adapters },
    { ...item, slot: 1 },
  ]
  await assert.rejects(driver.backend.step(mixed), 'a step has the same adapters for all')
}
