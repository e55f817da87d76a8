import assert from 'node:assert/strict'
import { type BackendDriver, greedy } from './backend-driver.js'
import { check, type TestContext } from '../test-context.js'

/** The checks of embeddings, which are computed beside everything but steps. */
export async function checkEmbeddings(
  t: TestContext,
  driver: BackendDriver,
  exact: boolean,
): Promise<void> {
  const { backend, prompt } = driver
  await check(t, 'embeds an input beside what is done with slots', async () => {
    const isPossible = backend.capabilities.embeddings && backend.limits.slots > 1
    if (!isPossible || backend.embed === undefined) return
    driver.releaseAll()
    const expected = await driver.generate(0, prompt, greedy, 4)
    const [alone = []] = await backend.embed([prompt])
    const pass = backend.embed([prompt])
    const copied = await backend.copyPrefix(0, 1, prompt.length - 1)
    const [beside = []] = await pass
    assert(alone.length > 0 && alone.length === beside.length, `${beside.length} numbers`)
    for (const [index, number] of alone.entries()) {
      assert(Math.abs(number - (beside[index] ?? NaN)) < 1e-3, 'the same vector as alone')
    }
    const said = await driver.generate(1, prompt, greedy, 4, copied)
    if (exact) assert.deepEqual(said, expected, 'slots keep what they hold')
  })
}
