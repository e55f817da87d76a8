import assert from 'node:assert/strict'
import type { LogitProcessor } from '@cllm/core'
import { check, type TestContext } from '../test-context.js'
import { type BackendDriver, greedy } from './backend-driver.js'

/** The check of samplers of plug-ins: they see all logits and the place, and decide. */
export async function checkProcessors(t: TestContext, driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  if (backend.capabilities.samplers !== true) return
  const { tokenizer } = backend

  await check(t, 'samplers of plug-ins see all logits, and change what is drawn', async () => {
    const wanted = prompt.find((token) => !tokenizer.isEndOfGeneration(token)) ?? 0
    const seen: unknown[] = []
    const first: LogitProcessor = {
      apply(logits, { position, tokens }) {
        seen.push([logits.length, position, [...tokens]])
        logits.fill(-Infinity)
      },
    }
    const second: LogitProcessor = { apply: (logits) => void (logits[wanted] = 1) }
    for (const temperature of [0, 1]) {
      const params = { ...greedy, temperature }
      const sampler = backend.createSampler(params, prompt, prompt.length, [first, second])
      const { token } = await driver.drawWith(sampler, prompt)
      assert.equal(token, wanted, 'all others are forbidden, then this one is allowed')
    }
    const place = [tokenizer.vocabularySize, prompt.length - 1, [...prompt]]
    assert.deepEqual(seen, [place, place], 'the vocabulary, the position and all tokens up to it')
  })

  await check(t, 'no deviation from the largest logit is the greedy choice', async () => {
    const draw = async (params: typeof greedy) =>
      (await driver.drawWith(backend.createSampler(params, prompt), prompt)).token
    const likeliest = await draw(greedy)
    assert.equal(await draw({ ...greedy, temperature: 2, topNSigma: 1e-6 }), likeliest)
  })
}
