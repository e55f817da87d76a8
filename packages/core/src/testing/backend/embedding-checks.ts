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
  if (backend.capabilities.generates === false) {
    await check(t, 'a model that writes no text has embeddings', async () => {
      assert(backend.capabilities.embeddings && backend.embed !== undefined, 'it has them')
      const [first = [], second = []] = [
        ...(await backend.embed([prompt])),
        ...(await backend.embed([prompt])),
      ]
      assert(first.length > 0 && first.length === second.length, `${first.length} numbers`)
      for (const [index, number] of first.entries()) {
        assert(Math.abs(number - (second[index] ?? NaN)) < 1e-3, 'the same vector each time')
      }
    })
    return
  }
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
