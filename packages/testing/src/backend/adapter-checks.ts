import assert from 'node:assert/strict'
import { type AppliedAdapter, type BatchItem, type TokenId, CllmError } from '@cllm/core'
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
  exact: boolean,
): Promise<void> {
  const { backend } = driver
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
    if (exact) assert.deepEqual(alone[3], base, 'and without it again what it said')
    const together = lists.slice(0, backend.limits.slots)
    if (exact) {
      const expected = alone.slice(0, together.length)
      assert.deepEqual(await inTurns(driver, together), expected, 'beside others as alone')
    }
    await assertNotMixed(driver, full)
    again.dispose()
    if (exact) assert.deepEqual(await inTurns(driver, [full]), [changed], 'another was disposed of')
    adapter.dispose()
    if (exact) assert.deepEqual(await inTurns(driver, [[]]), [base], 'and all')
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
    adapters,
    tokens: [...prompt],
    computed: 0,
    sampler: backend.createSampler({ ...greedy, ignoreEos: true }, prompt),
  }))
  const end = prompt.length + count
  while (sequences.some(({ tokens }) => tokens.length < end)) {
    for (const sequence of sequences) {
      const { slot, adapters, tokens, computed, sampler } = sequence
      const part = tokens.slice(computed, computed + backend.limits.batchSize)
      sequence.computed += part.length
      const outputs = sequence.computed === tokens.length ? [tokens.length - 1] : []
      const item: BatchItem = { slot, position: computed, tokens: part, outputs, sampler }
      const more = adapters.length === 0 ? item : { ...item, adapters }
      const [drawn] = await driver.step([more])
      if (drawn?.[0] !== undefined) tokens.push(drawn[0].token)
    }
  }
  for (const { sampler } of sequences) sampler.dispose()
  return sequences.map(({ tokens }) => tokens.slice(prompt.length, end))
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
