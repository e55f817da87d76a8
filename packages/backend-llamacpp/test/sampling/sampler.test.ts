import type { SamplingParams } from '@cllm/core'
import { assert, asyncProperty, constantFrom, integer, property, record } from 'fast-check'
import t from 'tap'
import { AddonSamplers } from '../../src/native/addon/addon-samplers.js'
import type {
  AddonContext,
  NativeSampler,
  NativeSamplerConfig,
} from '../../src/native/addon/addon-bindings.js'
import { nucleusCandidates, seedAt } from '../../src/sampling/chain/sampling-chain.js'
import type { Vocabulary } from '../../src/text/vocabulary.js'
import { generate, loadModel, openTiny, sampling, tinyModel } from '../open-tiny.js'

t.test('draws are a function of seed, position and history', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('It was a dark and stormy night')
  const draw = async (params: Partial<SamplingParams>, known: readonly number[] = []) => {
    backend.release(0)
    const count = 24 - known.length
    return (
      await generate(backend, [{ slot: 0, tokens: [...tokens, ...known], params, count }])
    )[0]!
  }
  const params = record({
    temperature: constantFrom(0, 0.5, 1, 2),
    topK: constantFrom(0, 1, 20),
    topP: constantFrom(1, 0.9),
    minP: constantFrom(0, 0.02),
    repetitionPenalty: constantFrom(1, 1.3),
    presencePenalty: constantFrom(0, 1.5, -1),
    frequencyPenalty: constantFrom(0, 0.7),
    seed: integer({ min: 0, max: 0xffffffff }),
  })
  await assert(
    asyncProperty(params, integer({ min: 1, max: 23 }), async (params, from) => {
      const whole = await draw(params)
      const rest = await draw(params, whole.slice(0, from))
      t.same([...whole.slice(0, from), ...rest], whole, `continued from token ${from}`)
      t.same(await draw(params), whole, 'asked again')
    }),
    { numRuns: 40, seed: 1 },
  )
  const drawn = new Set<string>()
  for (let seed = 0; seed < 8; seed++) drawn.add((await draw({ seed, temperature: 1 })).join())
  t.equal(drawn.size, 8, 'other seeds draw others')
})

t.test('several outputs of one item know the tokens before each', async (t) => {
  const backend = await openTiny(t)
  const params = sampling({ temperature: 0, repetitionPenalty: 1e6 })
  const tokens = backend.tokenizer.encode('a b c d a b c d e')
  const single: number[] = []
  for (const [position, token] of tokens.entries()) {
    const sampler = backend.createSampler(params, tokens.slice(0, position + 1))
    const batch = [{ slot: 0, position, tokens: [token], outputs: [position], sampler }]
    single.push((await backend.step(batch)).outputs[0]![0]!.token)
    sampler.dispose()
  }
  const sampler = backend.createSampler(params, tokens)
  const outputs = tokens.map((_, position) => position)
  const batch = [{ slot: 1, position: 0, tokens, outputs, sampler }]
  const { outputs: drawn } = await backend.step(batch)
  t.same(
    drawn[0]!.map(({ token }) => token),
    single,
  )
})

t.test('a used sampler shows no trace of the request before', async (t) => {
  const clean = await openTiny(t)
  const used = await openTiny(t, { modelPath: clean.model.path! })
  const tokens = clean.tokenizer.encode('Dear Sir')
  const before: Partial<SamplingParams>[] = [
    { logitBias: [[7, 1000]] },
    { repetitionPenalty: 2, presencePenalty: 2, frequencyPenalty: 2 },
    { temperature: 0, ignoreEos: true },
    { temperature: 2, topK: 3, topP: 0.5, minP: 0.1 },
  ]
  const after: Partial<SamplingParams>[] = [
    { temperature: 1 },
    { temperature: 0 },
    { temperature: 1, topP: 0.9 },
    { temperature: 1, repetitionPenalty: 1.2 },
  ]
  for (const first of before) {
    for (const second of after) {
      const request = { slot: 0, tokens, count: 12 }
      await generate(used, [{ ...request, params: { ...first, seed: 5 } }])
      used.release(0)
      clean.release(0)
      t.same(
        await generate(used, [{ ...request, params: second }]),
        await generate(clean, [{ ...request, params: second }]),
      )
      used.release(0)
    }
  }
})

t.test('biases and penalties', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('some words')
  const draw = async (params: Partial<SamplingParams>, count = 10) => {
    backend.release(0)
    return (await generate(backend, [{ slot: 0, tokens, params, count }]))[0]!
  }
  const end = backend.tokenizer.encode('<|im_end|>')[0]!
  t.ok(backend.tokenizer.isEndOfGeneration(end))
  t.same(await draw({ logitBias: [[end, 1000]] }, 2), [end, end])
  for (const temperature of [0, 1]) {
    const drawn = await draw({ logitBias: [[end, 1000]], ignoreEos: true, temperature }, 40)
    t.notOk(drawn.some((token) => backend.tokenizer.isEndOfGeneration(token)))
    const forced = await draw(
      {
        logitBias: [
          [9, 700],
          [9, 300],
          [8, 900],
        ],
        temperature,
      },
      3,
    )
    t.same(forced, [9, 9, 9], 'biases of one token add up')
  }
  const [likeliest] = await draw({ temperature: 0 }, 1)
  t.not((await draw({ temperature: 0, logitBias: [[likeliest!, -Infinity]] }, 1))[0], likeliest)
  for (const id of [-1, 768, 1.5]) {
    t.throws(() => backend.createSampler(sampling({ logitBias: [[id, 1]] }), []), {
      code: 'invalid_token',
    })
  }

  for (const params of [{ repetitionPenalty: 1e9 }, { presencePenalty: 1e6 }]) {
    const all = [...tokens, ...(await draw({ temperature: 0, ...params }, 150))]
    const within = (window: number) =>
      all.filter((token, at) => at >= tokens.length && all.slice(at - window, at).includes(token))
    t.same(within(64 - 1), [], 'nothing comes again within 64 tokens')
    t.ok(within(149).length > 0, 'after 64 tokens it may')
  }
  const counts = new Map<number, number>()
  for (const token of await draw({ temperature: 0, frequencyPenalty: 1 }, 60)) {
    counts.set(token, (counts.get(token) ?? 0) + 1)
  }
  const plain = new Map<number, number>()
  for (const token of await draw({ temperature: 0 }, 60)) {
    plain.set(token, (plain.get(token) ?? 0) + 1)
  }
  t.ok(Math.max(...counts.values()) <= Math.max(...plain.values()))
  t.ok(counts.size >= plain.size)
})

t.test('the configuration of the native sampler', async (t) => {
  const made: NativeSamplerConfig[][] = []
  let disposed = 0
  const create = () => {
    const configs: NativeSamplerConfig[] = []
    made.push(configs)
    const native: NativeSampler = {
      applyConfig: (config) => void configs.push({ ...config }),
      dispose: () => void disposed++,
    }
    return native
  }
  const context = { sampleToken: async () => [1, 0, 0, [1, 0], 1] } as unknown as AddonContext
  const ofSize = (size: number) =>
    ({ size, endOfGeneration: new Set([3]), check() {} }) as unknown as Vocabulary
  const large = new AddonSamplers(create, context, ofSize(151_936))
  const small = new AddonSamplers(create, context, ofSize(32_000))
  const told = (samplers: AddonSamplers, params: Partial<SamplingParams>, times = 1) => {
    const sampler = samplers.create(sampling(params), [1, 2, 3])
    for (let at = 0; at < times; at++) sampler.prepare(3, 3, [9])
    sampler.dispose()
    return made.flatMap((configs) => configs.splice(0))
  }
  t.match(told(large, { topP: 0.9 })[0], { topK: nucleusCandidates })
  t.match(told(large, { topP: 0.9, topK: 40_000 })[0], { topK: 40_000 })
  t.notOk('topK' in told(small, { topP: 0.9 })[0]!, 'small vocabularies are not cut')
  t.notOk('topK' in told(large, { temperature: 1 })[0]!, 'nor is what needs no order')
  t.equal(told(small, { temperature: 0 }, 5).length, 1, 'greedy draws are configured once')
  const seed = seedAt(1, 3)
  const seeds = told(small, {}, 2).map((config) => config.seed)
  t.same(seeds.slice(-3), [seed, (seed ^ 1) >>> 0, seed], 'the same seed again goes over another')
  const penalized = told(small, { temperature: 0, presencePenalty: 1 })
  t.same(penalized[0]!.repeatPenaltyTokens, Uint32Array.of(1, 2, 3, 9))
  t.match(told(small, { ignoreEos: true })[0], {
    tokenBiasKeys: Uint32Array.of(3),
    tokenBiasValues: Float32Array.of(-Infinity),
  })
  t.equal(made.length, 2, 'all this with one native sampler for each')
  t.throws(() => {
    const sampler = small.create(sampling({ presencePenalty: 1 }), [1])
    sampler.prepare(5, 5, [1])
  }, /knows 1 tokens/)
  const { length } = made
  await large.logprobs(0, 1, 0)
  large.dispose()
  t.equal(disposed, 1 + made.length - length, 'the one that reads, too')
})

t.test('seeds', async (t) => {
  const uint32 = integer({ min: 0, max: 0xffffffff })
  assert(
    property(uint32, uint32, uint32, (seed, one, other) => {
      const hash = seedAt(seed, one)
      const valid = Number.isInteger(hash) && hash >= 0 && hash < 0xffffffff
      return valid && (one === other || hash !== seedAt(seed, other))
    }),
    { numRuns: 2000 },
  )
  const shares = new Map<number, number>()
  for (let seed = 0; seed < 64; seed++) {
    for (let position = 0; position < 256; position++) {
      const top = seedAt(seed, position) >>> 28
      shares.set(top, (shares.get(top) ?? 0) + 1)
    }
  }
  t.equal(shares.size, 16)
  t.ok(chiSquare([...shares.values()]) < 37.7, 'evenly spread (p > 0.001)')
})

t.test('draws follow the distribution, over positions and over seeds', async (t) => {
  const modelPath = await tinyModel(t)
  const settings = { contextSize: 256, sequences: 1, batchSize: 8, threads: 1 }
  const loaded = await loadModel({
    ...settings,
    modelPath,
    gpuLayers: 0,
    mmap: true,
    mlock: false,
    path: 'addon',
  })
  const context = (await loaded.createContext({
    ...settings,
    flashAttention: 'auto',
    kvCacheType: 'f16',
  }))!
  await context.decodeBatch([{ sequence: 0, position: 0, tokens: [5], outputs: [0] }])
  const vocabulary = { size: 768, endOfGeneration: new Set(), check() {} } as unknown as Vocabulary
  const samplers = new AddonSamplers(() => loaded.createSampler(), context, vocabulary)
  // so hot that the eight likeliest are equally likely
  const params = { temperature: 1e6, topK: 8 }
  for (const [seedStep, positionStep] of [
    [0, 1],
    [1, 0],
    [0, 2],
  ] as const) {
    const counts = new Map<number, number>()
    let same = 0
    let last = -1
    for (let nth = 0; nth < 4000; nth++) {
      const seed = 7 + nth * seedStep
      const sampler = samplers.create(sampling({ ...params, seed }), [])
      sampler.prepare(nth * positionStep, nth * positionStep, [5])
      const token = await sampler.draw(0)
      sampler.dispose()
      counts.set(token, (counts.get(token) ?? 0) + 1)
      if (token === last) same++
      last = token
    }
    t.equal(counts.size, 8)
    t.ok(chiSquare([...counts.values()]) < 24.3, 'evenly drawn (p > 0.001)')
    t.ok(Math.abs(same - 500) < 3.3 * Math.sqrt(500 * (7 / 8)), 'neighbours are independent')
  }
  samplers.dispose()
  await context.dispose()
  await loaded.dispose()
})

function chiSquare(counts: readonly number[]): number {
  const expected = counts.reduce((total, count) => total + count, 0) / counts.length
  return counts.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0)
}

t.test("logprobs are the model's own, whatever the sampling", async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('It was a dark and stormy night')
  const ask = async (params: Parameters<typeof sampling>[0], logprobs?: number) => {
    backend.release(0)
    const sampler = backend.createSampler(sampling(params), tokens)
    const outputs = [tokens.length - 1]
    const item = { slot: 0, position: 0, tokens, outputs, sampler }
    const step = await backend.step([logprobs === undefined ? item : { ...item, logprobs }])
    sampler.dispose()
    return step.outputs[0]![0]!
  }
  t.equal((await ask({ temperature: 0 })).logprobs, undefined, 'not asked for')
  const greedy = await ask({ temperature: 0 }, 20)
  const { top, logprob } = greedy.logprobs!
  t.equal(top.length, 20)
  t.equal(top[0]?.token, greedy.token)
  t.equal(top[0]?.logprob, logprob)
  t.same(
    top.map((other) => other.logprob),
    top.map((other) => other.logprob).toSorted((a, b) => b - a),
  )
  t.same((await ask({ temperature: 0 }, 0)).logprobs, { logprob, top: [] })
  const hot = await ask({ temperature: 5, seed: 3, topK: 40, repetitionPenalty: 1.5 }, 20)
  t.same(hot.logprobs?.top, top, 'of the distribution before temperature, penalties and cuts')

  await t.test('of a draw: after temperature, penalties, bias and cuts', async (t) => {
    const drawn = async (params: Parameters<typeof sampling>[0], count = 20) => {
      backend.release(0)
      const sampler = backend.createSampler(sampling(params), tokens)
      const outputs = [tokens.length - 1]
      const item = { slot: 0, position: 0, tokens, outputs, sampler, drawLogprobs: count }
      const step = await backend.step([item])
      sampler.dispose()
      const { token, logprobs } = step.outputs[0]![0]!
      return { token, ...logprobs! }
    }
    const near = (a: number, b: number) => Math.abs(a - b) < 2e-3
    const sumOf = (list: readonly { logprob: number }[]) =>
      list.reduce((sum, { logprob }) => sum + Math.exp(logprob), 0)
    const certain = await drawn({ temperature: 0 })
    t.same(certain.top, [{ token: top[0]!.token, logprob: 0 }])
    t.equal(certain.logprob, 0)
    for (const temperature of [1, 3]) {
      const five = await drawn({ temperature, topK: 5, topP: 1, seed: 9 })
      t.same(
        five.top.map(({ token }) => token),
        top.slice(0, 5).map(({ token }) => token),
      )
      t.ok(near(sumOf(five.top), 1), 'what a cut leaves is all there is')
      const ratio = (top[0]!.logprob - top[4]!.logprob) / temperature
      t.ok(near(five.top[0]!.logprob - five.top[4]!.logprob, ratio), `temperature ${temperature}`)
      t.equal(five.top.find(({ token }) => token === five.token)?.logprob, five.logprob)
    }
    const whole = await drawn({ temperature: 1, topK: 0, topP: 1, seed: 9 })
    t.ok(
      whole.top.every(({ logprob }, at) => near(logprob, top[at]!.logprob)),
      'nothing is cut',
    )
    const moved = await drawn({
      temperature: 0.8,
      dynamicTemperatureRange: 0.5,
      topK: 5,
      logitBias: [[top[0]!.token, -Infinity]],
    })
    t.notOk(moved.top.some(({ token }) => token === top[0]!.token))
    t.ok(near(sumOf(moved.top), 1))
    t.same((await drawn({ temperature: 1 }, 0)).top, [])
  })

  // every token's probability, one forced draw at a time
  let sum = 0
  const near = (a: number, b: number) => Math.abs(a - b) < 2e-3
  for (let token = 0; token < backend.tokenizer.vocabularySize; token++) {
    const forced = await ask({ temperature: 0, logitBias: [[token, 100]] }, 0)
    t.equal(forced.token, token)
    const { logprob } = forced.logprobs!
    sum += Math.exp(logprob)
    const listed = top.find((other) => other.token === token)
    if (listed) t.ok(near(listed.logprob, logprob), `token ${token}`)
  }
  t.ok(near(sum, 1), `they sum up to ${sum}`)
})
