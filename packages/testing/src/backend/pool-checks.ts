import assert from 'node:assert/strict'
import { type BackendDriver, greedy } from './backend-driver.js'

/** Checks that `freeTokens` says how much fits into KV cells that all slots share, and that it does. */
export async function checkPool(driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  const { slots, contextSize, kvTokens = 0, batchSize } = backend.limits
  assert(kvTokens >= contextSize, `kvTokens is ${kvTokens}, a slot takes ${contextSize}`)
  const free = (expected: number, when: string) =>
    assert.equal(backend.freeTokens, expected, `freeTokens ${when}`)
  free(kvTokens, 'of empty slots')
  await driver.compute(0, prompt, greedy)
  const left = kvTokens - prompt.length
  free(left, 'behind a prompt')
  if (slots > 1) {
    const copied = await backend.copyPrefix(0, 1, prompt.length)
    free(left, 'behind a copy')
    backend.release(0)
    free(kvTokens - copied, 'while the copy is there')
    backend.release(1)
    await driver.compute(0, prompt, greedy)
  }
  const kept = backend.truncate(0, prompt.length - 1)
  free(kvTokens - kept, 'behind a cut')
  driver.releaseAll()
  free(kvTokens, 'of slots that were emptied')
  if (slots * contextSize <= kvTokens || kvTokens > 4096) return
  const token = prompt[0]!
  for (let slot = 0, some = backend.freeTokens ?? 0; some > 0; slot++) {
    const most = Math.min(contextSize, some)
    for (let position = 0; position < most; position += batchSize) {
      const tokens = Array.from({ length: Math.min(batchSize, most - position) }, () => token)
      await driver.step([{ slot, position, tokens, outputs: [] }])
    }
    some -= most
  }
  free(0, 'of a full pool')
  const rest = kvTokens % contextSize
  const slot = Math.floor(kvTokens / contextSize)
  await assert.rejects(
    backend.step([{ slot, position: rest, tokens: [token], outputs: [] }]),
    'a token beyond kvTokens makes the step fail',
  )
  free(0, 'behind a step that failed')
}
