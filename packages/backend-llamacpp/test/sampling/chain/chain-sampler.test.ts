import type { SamplingParams } from '@cllm/core'
import { array, assert, constantFrom, integer, property, record } from 'fast-check'
import { AddonSamplers } from '../../../src/native/addon/addon-samplers.js'
import { ChainSampler } from '../../../src/sampling/chain/chain-sampler.js'
import { seedAt, topKOf } from '../../../src/sampling/chain/sampling-chain.js'
import { Vocabulary } from '../../../src/text/vocabulary.js'
import { loadModel, sampling, tinyModel } from '../../open-tiny.js'
import { drawing, noise, peaked } from './logits.js'
import { referenceDraw } from './reference-draw.js'

import t, { type Test } from 'tap'

const params = record({
  temperature: constantFrom(0, 0.2, 0.7, 1, 3),
  topK: constantFrom(0, 0, 1, 40, 300),
  topP: constantFrom(1, 1, 0.9, 0.5, 0.999),
  minP: constantFrom(0, 0, 0.05, 0.001),
  repetitionPenalty: constantFrom(1, 1, 1.3),
  presencePenalty: constantFrom(0, 0, 0.7),
  frequencyPenalty: constantFrom(0, 0, 0.3),
  typicalP: constantFrom(1, 1, 1, 0.9, 0.5),
  topNSigma: constantFrom(0, 0, 0, 1, 3),
  xtcProbability: constantFrom(0, 0, 0.5, 1),
  xtcThreshold: constantFrom(0.1, 0.01, 0.6),
  dynamicTemperatureRange: constantFrom(0, 0, 0, 0.5, 2),
  dynamicTemperatureExponent: constantFrom(1, 0.5, 2),
  seed: integer({ min: 0, max: 0xffffffff }),
})

function drawingOf(size: number) {
  const vocabulary = { size, endOfGeneration: new Set([3]), check() {} } as unknown as Vocabulary
  return drawing(vocabulary)
}

t.test('draws as the reference does', async () => {
  for (const size of [1, 5, 1000, 70_000]) {
    const { workspace, drawFrom } = drawingOf(size)
    const shape = constantFrom('flat', 'noise', 'peaked')
    const tokens = array(integer({ min: 0, max: size - 1 }), { minLength: 1, maxLength: 100 })
    assert(
      property(params, shape, tokens, integer(), (change, shape, history, seed) => {
        const logits =
          shape === 'peaked' ? peaked(size, seed) : noise(size, seed, shape === 'flat' ? 0.5 : 3)
        const request = sampling({ ...change, logitBias: [[seed & 1 && size - 1, 1.5]] })
        const raw = logits.slice()
        const sampler = new ChainSampler(workspace, request, history)
        const position = history.length - 1
        const drawn = drawFrom(sampler, logits, position, position, history.slice(-1))
        const expected = referenceDraw(
          logits,
          request,
          topKOf(request, size),
          history,
          seedAt(request.seed, position),
        )
        return drawn === expected && logits.every((logit, id) => logit === raw[id])
      }),
      { numRuns: size > 10_000 ? 15 : 300, seed: 1 },
    )
  }
})

t.test('what cannot be drawn', async (t) => {
  const size = 200
  const { workspace, drawFrom } = drawingOf(size)
  const requests: Partial<SamplingParams>[] = [
    { temperature: 0 },
    { temperature: 1 },
    { temperature: 5, topK: 20 },
    { temperature: 5, topP: 0.99 },
    { temperature: 5, minP: 0.01 },
  ]
  for (const change of requests) {
    const logits = new Float32Array(size).fill(-Infinity)
    for (let token = 0; token < size; token += 2) logits[token] = NaN
    const draw = (seed: number) => {
      const sampler = new ChainSampler(workspace, sampling({ ...change, seed }), [7])
      return drawFrom(sampler, logits, 0, 0, [7])
    }
    t.throws(() => draw(1), { code: 'backend_failed' }, 'no token is left')
    logits[70] = -1e30
    t.equal(draw(1), 70, 'one is left')
    logits[71] = -1e30
    const drawn = new Set(Array.from({ length: 40 }, (_, seed) => draw(seed)))
    t.same(
      [...drawn].sort((a, b) => a - b),
      change.temperature === 0 ? [70] : [70, 71],
    )
    logits[72] = Infinity
    t.equal(draw(1), 72, 'an infinite one wins')
  }
})

t.test('probabilities of a draw are of its own temperature, where it moves', async (t) => {
  const [size, near] = [1000, 10]
  const { workspace, drawFrom } = drawingOf(size)
  const logits = new Float32Array(size).fill(-100)
  for (let token = 0; token < near; token++) logits[token] = -token / 2
  const weightsAt = (temperature: number) => {
    const weights = Array.from(logits, (logit) => Math.exp(logit / temperature))
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    return weights.map((weight) => weight / total)
  }
  const entropy = weightsAt(1).reduce((sum, p) => (p > 1e-30 ? sum - p * Math.log(p) : sum), 0)
  const base = { temperature: 1, topK: 0, topP: 1, minP: 0, dynamicTemperatureRange: 0.5 }
  for (const [change, counted] of [
    [{}, size],
    [{ topNSigma: 3 }, size],
    [{ topNSigma: 3, topK: 40 }, 40],
    [{ topK: 40 }, 40],
    [{ topK: near }, near],
  ] as const) {
    const expected = weightsAt(0.5 + entropy / Math.log(counted))
    const sampler = new ChainSampler(workspace, sampling({ ...base, ...change, seed: 5 }), [7])
    const token = drawFrom(sampler, logits, 0, 0, [7], 20)
    const { logprob, top } = sampler.drawn(0)!
    for (const one of [{ token, logprob }, ...top]) {
      const apart = Math.abs(Math.exp(one.logprob) - expected[one.token]!)
      t.ok(apart < 1e-5, `${JSON.stringify(change)}: token ${one.token} is ${apart} off`)
    }
    t.equal(top.length, near)
  }
})

t.test(
  'as many of the likeliest tokens are listed as are wanted, where one is certain, too',
  async (t) => {
    const { workspace, drawFrom } = drawingOf(4)
    const logits = Float32Array.of(1, 3, 2, 0)
    for (const temperature of [0, 1]) {
      const sampler = new ChainSampler(workspace, sampling({ temperature, topK: 1 }), [7])
      for (const count of [0, 1]) {
        const token = drawFrom(sampler, logits, 0, 0, [7], count)
        t.same(sampler.drawn(0), { logprob: 0, top: [{ token, logprob: 0 }].slice(0, count) })
      }
    }
  },
)

t.test('a sampler that was disposed of', async (t) => {
  const { workspace, drawFrom } = drawingOf(4)
  const sampler = new ChainSampler(workspace, sampling(), [])
  sampler.dispose()
  t.throws(() => drawFrom(sampler, new Float32Array(4), 0, 0, [1]), { code: 'backend_failed' })
})

t.test('the same tokens as with the native sampler', async (t) => {
  const { logits, natives, vocabulary } = await decodeTiny(t)
  const { workspace, drawFrom } = drawing(vocabulary)
  const tokens = [5, 9, 9, 200]
  for (const temperature of [0, 0.5, 1, 2, 10]) {
    for (const change of [
      {},
      { topK: 40 },
      { topP: 0.9 },
      { minP: 0.1 },
      { topK: 100, topP: 0.5, minP: 0.02 },
      { repetitionPenalty: 1.5, presencePenalty: 0.5, frequencyPenalty: 0.25 },
      { logitBias: [[5, 3] as const, [6, -Infinity] as const], ignoreEos: true },
    ]) {
      for (let seed = 0; seed < 30; seed++) {
        const request = sampling({ temperature, ...change, seed })
        const native = natives.create(request, tokens)
        native.prepare(3, 3, [200])
        const expected = await native.draw(0)
        native.dispose()
        const sampler = new ChainSampler(workspace, request, tokens)
        const drawn = drawFrom(sampler, logits, 3, 3, [200])
        if (drawn !== expected) t.fail(`${drawn} for ${expected}: ${JSON.stringify(request)}`)
      }
    }
  }
  const sampler = new ChainSampler(workspace, sampling(), tokens)
  drawFrom(sampler, logits, 3, 3, [200])
  for (const token of [0, 5, 700]) {
    const expected = await natives.logprobs(0, token, 20)
    const found = sampler.logprobs(0, token, 20)
    t.ok(Math.abs(found.logprob - expected.logprob) < 1e-3)
    t.same(
      found.top.map((other) => other.token),
      expected.top.map((other) => other.token),
    )
    for (const [rank, { logprob }] of found.top.entries()) {
      t.ok(Math.abs(logprob - expected.top[rank]!.logprob) < 1e-4)
    }
  }
  t.same(sampler.logprobs(0, 0, 0).top, [])
})

/** A tiny model after one token, and what it made of it. */
async function decodeTiny(t: Test) {
  const modelPath = await tinyModel(t)
  const settings = { contextSize: 256, sequences: 1, batchSize: 8, threads: 1 }
  const options = {
    ...settings,
    modelPath,
    gpuLayers: 0,
    mmap: true,
    mlock: false,
    path: 'addon',
  } as const
  const loaded = await loadModel(options)
  const context = await loaded.createContext({
    ...settings,
    flashAttention: 'auto',
    kvCacheType: 'f16',
  })
  if (context === undefined) throw new Error('there is no context')
  await context.decodeBatch([{ sequence: 0, position: 0, tokens: [5], outputs: [0] }])
  const vocabulary = new Vocabulary(loaded.native, loaded.vocabularySize)
  const natives = new AddonSamplers(() => loaded.createSampler(), context, vocabulary)
  const { size } = vocabulary
  const all = natives.take()
  all.apply({ temperature: 1, topK: size, seed: 0 })
  const wanted = [[], false, false, false, size] as const
  const [, , , pairs = []] = await context.sampleToken(0, all.native, false, false, wanted, false)
  natives.give(all)
  const logits = new Float32Array(size).fill(NaN)
  for (let at = 0; at < pairs.length; at += 2) logits[pairs[at]!] = pairs[at + 1]!
  t.notOk(logits.some(Number.isNaN), 'every logit is known')
  t.teardown(async () => {
    natives.dispose()
    await context.dispose()
    await loaded.dispose()
  })
  return { logits, natives, vocabulary }
}
