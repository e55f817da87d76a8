import assert from 'node:assert/strict'
import type { TokenId } from '@cllm/core'
import { type BackendDriver, greedy } from './backend-driver.js'

const count = 5

/**
 * The check of drafts, right ones and wrong ones at every place, greedy, at random and with penalties:
 * what is drawn is what is drawn one token at a time, up to and with the first token that was not
 * guessed; after `truncate` the same sampler goes on as if nothing had been guessed.
 */
export async function checkDrafts(driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  const random = { ...greedy, temperature: 1, topK: 40, seed: 7 }
  const penalized = { ...random, repetitionPenalty: 1.2, frequencyPenalty: 0.5 }
  for (const params of [greedy, random, penalized]) {
    const free = { ...params, ignoreEos: true }
    driver.releaseAll()
    const expected = await driver.generate(0, prompt, free, count + 2)
    for (let wrongAt = 0; wrongAt <= count; wrongAt++) {
      driver.releaseAll()
      const drafts = expected.slice(0, count).map((token, at) => {
        return at === wrongAt ? otherThan(token, prompt) : token
      })
      const last = prompt.length - 1
      const sampler = backend.createSampler(free, prompt)
      try {
        await driver.compute(0, prompt.slice(0, -1), greedy)
        const outputs = Array.from({ length: count + 1 }, (_, nth) => last + nth)
        const tokens = [...prompt.slice(-1), ...drafts]
        const item = { slot: 0, position: last, tokens, outputs, drafts: count, sampler }
        const [drawn = []] = (await backend.step([item])).outputs
        const positions = drawn.map(({ position }) => position)
        assert.deepEqual(positions, outputs.slice(0, drawn.length), 'positions from the first on')
        if (!driver.exact) continue
        const found = drawn.map(({ token }) => token)
        assert.deepEqual(found, expected.slice(0, wrongAt + 1), `draft ${wrongAt} is wrong`)
        const length = last + drawn.length
        assert.equal(backend.truncate(0, length), length, 'a few tokens can be taken off')
        const position = length
        const next = { slot: 0, position, tokens: found.slice(-1), outputs: [position], sampler }
        const [after = []] = (await backend.step([next])).outputs
        assert.equal(after[0]?.token, expected[wrongAt + 1], 'the sampler goes on')
      } finally {
        sampler.dispose()
      }
    }
  }
}

/** A token of the prompt that is another one. */
function otherThan(token: TokenId, prompt: readonly TokenId[]): TokenId {
  const other = prompt.find((one) => one !== token)
  assert(other !== undefined, 'the prompt has two different tokens')
  return other
}
