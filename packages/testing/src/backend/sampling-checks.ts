import assert from 'node:assert/strict'
import type { LogitProcessor, SamplingParams } from '@cllm/core'
import { type BackendDriver, greedy } from './backend-driver.js'

/** Adds or takes more than any model's logits differ. */
const enough = 100

/** The checks of how tokens are drawn. */
export async function checkSampling(driver: BackendDriver): Promise<void> {
  const { backend, prompt, exact, same } = driver
  const { tokenizer, limits } = backend
  const other = limits.slots - 1
  const draw = async (change: Partial<SamplingParams>) => {
    backend.release(0)
    return await driver.compute(0, prompt, { ...greedy, ...change })
  }
  const random = { ...greedy, temperature: 1, seed: 42 }
  const penalized = {
    ...random,
    topK: 40,
    topP: 0.9,
    minP: 0.01,
    repetitionPenalty: 1.2,
    presencePenalty: 0.5,
    frequencyPenalty: 0.5,
  }

  for (const [name, params] of Object.entries({ random, penalized })) {
    await driver.checkEmpty(`${name} draws are a function of seed and position`, async () => {
      const drawn = await driver.generate(0, prompt, params, 10)
      if (!exact) return
      driver.releaseAll()
      assert.deepEqual(await driver.generate(other, prompt, params, 10), drawn, 'the same again')
      for (const length of [1, 6]) {
        driver.releaseAll()
        const tokens = [...prompt, ...drawn.slice(0, length)]
        const rest = await driver.generate(other, tokens, params, 10 - length)
        assert.deepEqual(rest, drawn.slice(length), `rebuilt elsewhere after ${length} tokens`)
      }
    })
  }

  await driver.checkEmpty('draws do not depend on what else is in the batch', async () => {
    if (!exact || limits.slots < 2 || limits.batchSize < 2) return
    const alone = await driver.generate(0, prompt, random, 8)
    driver.releaseAll()
    const together = await driver.generateTogether([prompt, prompt], random, 8)
    assert.deepEqual(together, [alone, alone])
  })

  await driver.checkEmpty('other seeds draw other tokens', async () => {
    const drawn = new Set<string>()
    for (let seed = 0; seed < 8; seed++) {
      backend.release(0)
      const tokens = await driver.generate(0, prompt, { ...random, temperature: 2, seed }, 4)
      drawn.add(tokens.join())
    }
    assert(drawn.size > 1, '8 seeds at temperature 2 gave the same 4 tokens')
  })

  await driver.checkEmpty('a seed may be any 32-bit number', async () => {
    for (const seed of [0, 2 ** 31, 2 ** 32 - 1]) await draw({ temperature: 1, seed })
  })

  await driver.checkEmpty('one candidate left is the greedy choice', async () => {
    const first = await draw({})
    for (const seed of [1, 2, 3]) {
      const hot = { temperature: 2, seed }
      const cold = { temperature: 0.5, seed }
      const drawn = [await draw({ ...hot, topK: 1 }), await draw({ ...hot, minP: 1 })]
      drawn.push(await draw({ ...cold, topP: 1e-6 }))
      same(drawn, [first, first, first], 'topK 1, minP 1, topP 0.000001')
    }
  })

  await driver.checkEmpty('a logit bias forbids and forces tokens', async () => {
    const first = await draw({})
    const without = await draw({ logitBias: [[first, -enough]] })
    assert.notEqual(without, first, `token ${first} has a bias of ${-enough}`)
    const wanted = prompt.find((token) => token !== first && !tokenizer.isEndOfGeneration(token))
    if (wanted === undefined) return
    const forced = await draw({ logitBias: [[wanted, enough]] })
    assert.equal(forced, wanted, `token ${wanted} has a bias of ${enough}`)
  })

  await driver.checkEmpty('ignoreEos never draws an end-of-generation token', async () => {
    const ids = Array.from({ length: tokenizer.vocabularySize }, (_, token) => token)
    const ends = ids.filter((token) => tokenizer.isEndOfGeneration(token))
    assert(ends.length > 0, 'the vocabulary has an end-of-generation token')
    for (const end of ends.slice(0, 4)) {
      const logitBias = [[end, enough]] as const
      assert.equal(await draw({ logitBias }), end, `end token ${end} has a bias of ${enough}`)
      for (const temperature of [0, 1]) {
        const drawn = await draw({ logitBias, ignoreEos: true, temperature })
        assert(!tokenizer.isEndOfGeneration(drawn), `${drawn} is drawn in spite of ignoreEos`)
      }
    }
  })

  await driver.checkEmpty('a strong repetition penalty draws nothing again', async () => {
    const params = { ...greedy, repetitionPenalty: 1000 }
    const short = prompt.slice(0, 8)
    const all = [...short, ...(await driver.generate(0, short, params, 12))]
    const repeated = all.slice(8).filter((token, index) => all.indexOf(token) < index + 8)
    assert.deepEqual(repeated, [], 'tokens that are drawn again')
  })
}

/** The check of samplers of plug-ins: they see all logits and the place, and decide. */
export async function checkProcessors(driver: BackendDriver): Promise<void> {
  const { backend, prompt } = driver
  if (backend.capabilities.samplers !== true) return
  const { tokenizer } = backend

  await driver.check('samplers of plug-ins see all logits, and change what is drawn', async () => {
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

  await driver.check('no deviation from the largest logit is the greedy choice', async () => {
    const draw = async (params: typeof greedy) =>
      (await driver.drawWith(backend.createSampler(params, prompt), prompt)).token
    const likeliest = await draw(greedy)
    assert.equal(await draw({ ...greedy, temperature: 2, topNSigma: 1e-6 }), likeliest)
  })
}
