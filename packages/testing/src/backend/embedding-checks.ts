import assert from 'node:assert/strict'
import { type BackendCheck, type BackendDriver, greedy } from './backend-driver.js'
import { check, type TestContext } from '../test-context.js'

/** The checks of embeddings, which are computed beside everything but steps. */
export const checkEmbeddings: BackendCheck = async (t, driver) => {
  const { backend, prompt } = driver
  if (backend.capabilities.generates === false) {
    await check(t, 'a model that writes no text has embeddings', async () => {
      assert(backend.embed !== undefined, 'it has them')
      const [first = [], second = []] = [
        ...(await backend.embed([prompt])),
        ...(await backend.embed([prompt])),
      ]
      assertSame(second, first, 'the same vector each time')
    })
    await checkSeveral(t, driver)
    return
  }
  await check(t, 'embeds an input beside what is done with slots', async () => {
    if (backend.embed === undefined) return
    driver.releaseAll()
    const expected = await driver.generate(0, prompt, greedy, 4)
    const [alone = []] = await backend.embed([prompt])
    const pass = backend.embed([prompt])
    const other = backend.limits.slots > 1 ? 1 : 0
    const length = prompt.length - 1
    const copied = other === 0 ? 0 : await backend.copyPrefix(0, other, length)
    const [beside = []] = await pass
    assertSame(beside, alone, 'the same vector as alone')
    const said = other === 0 ? expected : await driver.generate(other, prompt, greedy, 4, copied)
    driver.same(said, expected, 'slots keep what they hold')
  })
  await checkSeveral(t, driver)
}

/** Two inputs of one call have the vectors that they have alone. */
async function checkSeveral(t: TestContext, { backend, prompt }: BackendDriver): Promise<void> {
  await check(t, 'embeds several inputs at once as each alone', async () => {
    const { embeddingInputs = 1, embeddingTokens = Infinity } = backend.limits
    const inputs = [prompt, prompt.slice(0, Math.ceil(prompt.length / 2))]
    const count = inputs.flat().length
    if (backend.embed === undefined) return
    if (embeddingInputs < inputs.length || count > embeddingTokens) return
    const together = await backend.embed(inputs)
    assert.equal(together.length, inputs.length, 'there is one vector per input')
    for (const [index, input] of inputs.entries()) {
      const [alone = []] = await backend.embed([input])
      assertSame(together[index] ?? [], alone, 'the same vector as alone')
    }
  })
}

function assertSame(actual: readonly number[], expected: readonly number[], message: string): void {
  assert(expected.length > 0 && actual.length === expected.length, `${actual.length} numbers`)
  for (const [index, number] of expected.entries()) {
    assert(Math.abs(number - (actual[index] ?? NaN)) < 1e-3, message)
  }
}
