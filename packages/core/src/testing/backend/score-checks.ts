import assert from 'node:assert/strict'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import { check, type TestContext } from '../test-context.js'
import { type BackendDriver, greedy } from './backend-driver.js'

/** A bias that makes any token the likeliest. */
const enough = 1000

/** How far logarithms may lie apart: where batches of other sizes round differently, further. */
const tolerance = { exact: 1e-3, rounded: 0.2 }

/** The scores of known tokens: those that a draw of the same token reports. */
export async function checkScores(
  t: TestContext,
  driver: BackendDriver,
  exact: boolean,
): Promise<void> {
  const { backend } = driver
  if (backend.capabilities.promptLogprobs !== true) return
  const tokens = driver.prompt
  const most = exact ? tolerance.exact : tolerance.rounded

  await check(t, 'scores known tokens as it does drawn ones', async () => {
    const drawn: number[] = []
    for (let length = 1; length < tokens.length; length++) {
      drawn.push(await forcedLogprob(driver, tokens.slice(0, length), tokens[length]!))
    }
    for (const chunk of [tokens.length, 5].map((size) =>
      Math.min(size, backend.limits.batchSize),
    )) {
      driver.releaseAll()
      const scored = await driver.score(0, tokens, chunk)
      assert.equal(scored.length, tokens.length - 1)
      for (const [index, { logprob, top }] of scored.entries()) {
        const apart = Math.abs(logprob - drawn[index]!)
        assert(apart <= most, `token ${index + 1} is scored ${logprob}, drawn ${drawn[index]}`)
        assert.equal(top.length, 3, 'as many of the likeliest tokens as were asked for')
        assert(top[0]!.logprob >= logprob - most, 'no token is likelier than the likeliest')
      }
    }
    driver.releaseAll()
  })
}

/** The log probability that is reported for a token which a bias makes the drawn one. */
async function forcedLogprob(
  driver: BackendDriver,
  tokens: readonly TokenId[],
  token: TokenId,
): Promise<number> {
  const params = { ...greedy, logitBias: [[token, enough] as const] }
  const sampler = driver.backend.createSampler(params, tokens)
  const drawn = await driver.drawWith(sampler, tokens, { logprobs: 0 })
  assert.equal(drawn.token, token, `token ${token} has a bias of ${enough}`)
  assert(drawn.logprobs !== undefined, 'log probabilities come with the token when asked for')
  return drawn.logprobs.logprob
}
