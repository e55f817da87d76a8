import assert from 'node:assert/strict'
import type { OutputLogprobs, TokenLogprob, SamplingParams, TokenId } from '@cllm/core'
import { type BackendDriver, greedy } from './backend-driver.js'

/** The most that may be asked for. */
const most = 20

/** How far logarithms of the same draw may lie apart, where nothing is computed in another order. */
const tolerance = 1e-3

/** The check of the log probabilities of drawn tokens. */
export async function checkLogprobs(driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  await driver.check('log probabilities of a draw are those it was drawn with', async () => {
    if (backend.capabilities.drawLogprobs !== true) return
    const sampler = backend.createSampler(greedy, prompt)
    const { token, logprobs } = await driver.drawWith(sampler, prompt, { drawLogprobs: 3 })
    assert(logprobs !== undefined, 'they come with the token when asked for')
    assert.equal(logprobs.top[0]?.token, token, 'the greedy choice is listed first')
    assert(logprobs.top.length <= 3, 'no more are listed than were asked for')
    assert(logprobs.logprob <= tolerance, 'logarithms are 0 or less')
  })
  if (!backend.capabilities.logprobs) return
  const ask = async (params: SamplingParams, logprobs?: number) => {
    const more = logprobs === undefined ? {} : { logprobs }
    return await driver.drawWith(backend.createSampler(params, prompt), prompt, more)
  }

  await driver.check(
    'log probabilities are those of the model, whatever a request changes',
    async () => {
      assert.equal((await ask(greedy)).logprobs, undefined, 'none come unasked')
      const { token, logprobs: plain } = await ask(greedy, most)
      assertDistribution(plain, Math.min(most, backend.tokenizer.vocabularySize))
      assert.equal(plain.top[0]?.token, token, 'the greedy choice is the likeliest token')
      assert.equal(plain.top[0]?.logprob, plain.logprob, 'and is as likely as the list says')
      const none = await ask(greedy, 0)
      assert.deepEqual(none.logprobs?.top, [], 'none are listed where 0 were asked for')
      const changed = { temperature: 2, topK: 5, repetitionPenalty: 1.5, seed: 3 }
      const logitBias = [[plain.top[1]!.token, 4] as const]
      const drawn = await ask({ ...greedy, ...changed, logitBias }, most)
      assertDistribution(drawn.logprobs, plain.top.length)
      if (!driver.exact) return
      assertSame(drawn.logprobs.top, plain.top)
      const listed = plain.top.find((one) => one.token === drawn.token)
      if (listed !== undefined) assertSame([{ ...listed, ...drawn.logprobs }], [listed])
    },
  )
}

function assertDistribution(
  logprobs: OutputLogprobs | undefined,
  count: number,
): asserts logprobs is OutputLogprobs {
  assert(logprobs !== undefined, 'log probabilities come with the token when asked for')
  const { logprob, top } = logprobs
  assert.equal(top.length, count, 'as many of the likeliest tokens as were asked for')
  assert.equal(new Set(top.map(({ token }) => token)).size, count, 'each token is listed once')
  const all = top.map((one) => one.logprob)
  assert(logprob <= tolerance && all.every((one) => one <= tolerance), 'logarithms are 0 or less')
  const sorted = all.toSorted((a, b) => b - a)
  assert.deepEqual(all, sorted, 'the likeliest token comes first')
  const sum = all.reduce((total, one) => total + Math.exp(one), 0)
  assert(sum <= 1 + tolerance, `probabilities sum up to at most 1, instead got ${sum}`)
}

function assertSame(actual: readonly TokenLogprob[], expected: readonly TokenLogprob[]): void {
  for (const [index, { token, logprob }] of expected.entries()) {
    const apart = Math.abs((actual[index]?.logprob ?? NaN) - logprob)
    assert(apart <= tolerance, `token ${token} has ${logprob}, and ${actual[index]?.logprob} too`)
  }
}

/** A bias that makes any token the likeliest. */
const enough = 1000

/** The scores of known tokens: those that a draw of the same token reports. */
export async function checkScores(driver: BackendDriver): Promise<void> {
  const { backend } = driver
  if (backend.capabilities.promptLogprobs !== true) return
  const tokens = driver.prompt
  // Where batches of other sizes round differently, logarithms lie further apart.
  const most = driver.exact ? tolerance : 0.2

  await driver.check('scores known tokens as it does drawn ones', async () => {
    const drawn: number[] = []
    for (let length = 1; length < tokens.length; length++) {
      drawn.push(await forcedLogprob(driver, tokens.slice(0, length), tokens[length]!))
    }
    for (const size of [tokens.length, 5]) {
      const chunk = Math.min(size, backend.limits.batchSize)
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
