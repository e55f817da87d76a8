import {
  type Backend,
  CllmError,
  createEngine,
  type GenerateRequest,
  type Tokenizer,
  silentLogger,
} from '@cllm/core'
import { FakeBackend, FakeTokenizer, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import { collect, expectedTokens, greedy, isDone, promptOf, rig, WatchedBackend } from '../rig.js'

const nothing = (() => undefined) as never
const rejects = async (): Promise<never> => {
  throw new Error('nobody waits for this')
}
const of = (result: object) => (async () => result) as never

t.test('what a backend returns is checked where it returns, and no policy is blamed', async (t) => {
  const wrong: [keyof Backend, Partial<Backend>, RegExp][] = [
    ['truncate', { truncate: nothing }, /tokens kept, from 0 to 40, instead got undefined/],
    ['truncate', { truncate: () => 0.5 }, /instead got 0.5/],
    ['truncate', { truncate: (_slot, length) => length + 1 }, /instead got 41/],
    ['preferSlot', { preferSlot: nothing }, /one of the slots 1,0, instead got undefined/],
    ['layoutMs', { layoutMs: () => NaN }, /milliseconds from 0, instead got NaN/],
    ['createSampler', { createSampler: nothing }, /a sampler with dispose\(\), instead got undef/],
    [
      'createSampler',
      { createSampler: rejects as never },
      /a sampler with dispose\(\), instead got \[obj/,
    ],
    ['truncate', { truncate: rejects as never }, /instead got \[object Promise\]/],
    ['step', { step: of({ outputs: [{ length: 1, 0: { position: 8, token: 1 } }] }) }, /got 0/],
    ['step', { step: of({ outputs: [[]], errors: [] }) }, /a Map as errors/],
    ['step', { step: of({ outputs: [], isInterrupted: true }) }, /isInterrupted after interrupt/],
    [
      'step',
      { step: of({ outputs: [[{ position: 3, token: 1 }]] }) },
      /for position 49, .* position: 3,/,
    ],
  ]
  for (const [call, changed, message] of wrong) {
    const made = rig({
      slots: 2,
      backend: (given) => new WatchedBackend(given),
      fallbackPolicy: () => firstComeFirstServed,
    })
    const { ask, backend, engine } = made
    await ask(greedy(promptOf(60), 3))
    const right = Object.fromEntries(Object.keys(changed).map((key) => [key, undefined]))
    for (const key of Object.keys(changed)) right[key] = backend[key as 'truncate'] as never
    Object.assign(backend, changed)
    const like = [...promptOf(40), ...promptOf(10, 3)]
    const { error } = await ask(greedy(like, 3))
    t.match(error, { code: 'backend_failed', details: { backend: 'fake', call }, message })
    t.match(error?.message, /^The backend of "fake" returned a wrong value: /)
    t.match(engine.statistics(), { policyFaults: 0 }, call)
    Object.assign(backend, right)
    const after = await ask(greedy(promptOf(9, 2), 3))
    t.same(after.tokens, expectedTokens(backend, promptOf(9, 2), 3), 'the next one is well')
    await isDone(t, made)
  }
})

t.test(
  'a wrong count of drafts kept fails the request that drafts, and no other one',
  async (t) => {
    const made = rig({
      options: { speculative: 'ngram' },
      fallbackPolicy: () => firstComeFirstServed,
    })
    const { backend, client, engine, run } = made
    const truncate = backend.truncate.bind(backend)
    backend.truncate = nothing
    const repeats = Array.from({ length: 8 }, () => promptOf(6)).flat()
    const [mine, other] = [greedy(repeats, 60), greedy(promptOf(9, 1), 60)]
    const [failed, whole] = await run(
      Promise.all(
        [mine, { ...other, speculative: false }].map((one) => collect(client.submit(one))),
      ),
    )
    t.match(failed?.error, { code: 'backend_failed', details: { call: 'truncate' } })
    t.same(whole?.tokens, expectedTokens(backend, promptOf(9, 1), 60))
    t.match(engine.statistics(), { policyFaults: 0, requests: { failed: 1, done: 1 } })
    backend.truncate = truncate
    await isDone(t, made)
  },
)

t.test(
  'what a backend or its tokenizer throws fails one request, and names the call',
  async (t) => {
    const boom = () => {
      throw new Error('boom')
    }
    const chat = { prompt: { messages: [{ role: 'user', content: 'hello' }] }, maxTokens: 3 }
    const again = greedy([...promptOf(40), ...promptOf(10, 3)], 3)
    const calls: [string, GenerateRequest, (backend: WatchedBackend) => object][] = [
      ['isEndOfGeneration', { prompt: { text: 'hello' }, maxTokens: 3 }, (one) => one.tokenizer],
      ['encode', { prompt: { text: 'hello' } }, (one) => one.tokenizer],
      ['renderChat', chat, (one) => one.tokenizer],
      ['truncate', again, (one) => one],
      ['shift', { ...greedy(promptOf(60), 9), contextShift: { keep: 1 } }, (one) => one],
    ]
    for (const [call, request, ownerOf] of calls) {
      const made = rig({ slots: 2, contextSize: 64, contextShift: true })
      const { backend, client, run, ask } = made
      await ask(greedy(promptOf(60), 3))
      Object.assign(ownerOf(backend), { [call]: boom })
      const both = [request, greedy(promptOf(9, 2), 12)]
      const [bad, good] = await run(Promise.all(both.map((one) => collect(client.submit(one)))))
      const message = `The backend failed: ${call}: boom`
      t.match(bad?.error, { code: 'backend_failed', message, details: { call } })
      t.same(good?.tokens, expectedTokens(backend, promptOf(9, 2), 12), call)
      await isDone(t, made)
    }
    const { ask, backend } = rig({ contextSize: 20_000 })
    const long = { prompt: { text: 'a'.repeat(5000) } }
    for (const encodeInParts of [boom, () => ({ [Symbol.iterator]: () => ({ next: boom }) })]) {
      Object.assign(backend.tokenizer, { encodeInParts })
      t.match((await ask(long)).error, { code: 'backend_failed', message: /failed: .*boom$/ })
    }
    backend.tokenizer.renderChat = () => ({}) as never
    t.match((await ask(chat)).error, { code: 'backend_failed', message: /: renderChat: .*tokens/ })
  },
)

t.test('steps that fail and then always end early are not tried for ever', async (t) => {
  const made = rig({ slots: 2 })
  const { backend, client, run } = made
  backend.step = async (batch) => {
    if (batch.length > 1) throw new Error('too many')
    return { outputs: [], decodeMs: 0, sampleMs: 0, isInterrupted: true }
  }
  const asked = [1, 2].map((family) => collect(client.submit(greedy(promptOf(9, family), 3))))
  for (const { error } of await run(Promise.all(asked))) {
    t.match(error, { code: 'backend_failed', message: /no second end by interrupt/ })
  }
  await isDone(t, made)
})

t.test('tokens that a tokenizer makes wrongly are no fault of the client', async (t) => {
  const { ask, backend } = rig()
  const step = backend.step.bind(backend)
  backend.step = async () => {
    throw new CllmError('invalid_token', 'expected 0 to 9, got 10')
  }
  const message = 'The backend failed: step: expected 0 to 9, got 10'
  t.match((await ask(greedy(promptOf(9), 3))).error, { code: 'backend_failed', message })
  backend.step = step
  t.same((await ask(greedy(promptOf(9), 3))).tokens, expectedTokens(backend, promptOf(9), 3))
})

t.test('scores of another shape fail their request alone', async (t) => {
  for (const scores of [[5], [[]], [[undefined]], undefined, [[{ logprob: 0, top: [] }]]]) {
    const made = rig({ slots: 2 })
    const { ask, backend } = made
    const step = backend.step.bind(backend)
    backend.step = async (batch) => ({ ...(await step(batch)), scores: scores as never })
    const { error } = await ask({ ...greedy(promptOf(9), 3), promptLogprobs: 1 })
    t.match(error, { code: 'backend_failed', message: /for each of 8 scored tokens/ })
    backend.step = step
    t.same((await ask(greedy(promptOf(9), 3))).tokens, expectedTokens(backend, promptOf(9), 3))
    await isDone(t, made)
  }
})

t.test('an item fails with what its backend gives as its error', async (t) => {
  const made = rig({ slots: 2 })
  const { ask, backend } = made
  const step = backend.step.bind(backend)
  backend.step = async (batch) => {
    return { ...(await step(batch)), errors: new Map([[0, new Error('boom') as never]]) }
  }
  const { error } = await ask(greedy(promptOf(9), 3))
  t.match(error, { code: 'backend_failed', message: 'The backend failed: boom' })
  backend.step = step
  t.same((await ask(greedy(promptOf(9), 3))).tokens, expectedTokens(backend, promptOf(9), 3))
  await isDone(t, made)
})

t.test('a copy with a wrong count is computed instead', async (t) => {
  for (const came of [undefined, NaN, -1, 1e6]) {
    const made = rig({ slots: 2 })
    const { backend, ask, client, run } = made
    backend.copyPrefix = (async () => came) as never
    const prompt = promptOf(150)
    const [one, two] = await run(
      Promise.all([3, 4].map((count) => collect(client.submit(greedy(prompt, count))))),
    )
    t.same(one?.tokens, expectedTokens(backend, prompt, 3))
    t.same(two?.tokens, expectedTokens(backend, prompt, 4))
    await ask(greedy(promptOf(9), 3))
    await isDone(t, made)
  }
})

t.test('a sampler or a slot that is given back later fails nothing else', async (t) => {
  const lines: unknown[] = []
  const logger = { ...silentLogger, error: (...line: unknown[]) => void lines.push(line) }
  const made = rig({ slots: 1, logger })
  const { ask, backend } = made
  const create = backend.createSampler.bind(backend)
  backend.createSampler = (...of) => {
    const sampler = create(...of)
    const dispose = sampler.dispose.bind(sampler)
    return Object.assign(sampler, { dispose: () => (dispose(), rejects() as never) })
  }
  const { tokens } = await ask(greedy(promptOf(9), 3))
  t.same(tokens, expectedTokens(backend, promptOf(9), 3))
  t.match(lines, [[{ err: { message: /dispose returned a promise/ } }, /a sampler/]])
  backend.createSampler = create
  const release = backend.release.bind(backend)
  backend.release = (slot) => (release(slot), rejects() as never)
  t.match((await ask(greedy(promptOf(9, 5), 3))).error, { details: { call: 'release' } })
  backend.release = release
  t.same((await ask(greedy(promptOf(9), 3))).tokens, tokens)
  await isDone(t, made)
})

t.test("a step's time that is none counts as nothing, so that metrics can be read", async (t) => {
  for (const ms of [NaN, -1, Infinity, 'x' as never]) {
    const made = rig()
    const { ask, backend, engine } = made
    const step = backend.step.bind(backend)
    backend.step = async (batch) => ({ ...(await step(batch)), decodeMs: ms, sampleMs: ms })
    await ask(greedy(promptOf(9), 3))
    t.match(engine.statistics(), { decodeMs: 0, sampleMs: 0, prefillMs: 0 }, String(ms))
    await isDone(t, made)
  }
})

t.test('log probabilities that were asked for are there, or the request fails', async (t) => {
  for (const logprobs of [undefined, {}, { logprob: -1 }, { logprob: NaN, top: [] }]) {
    const made = rig()
    const { ask, backend } = made
    const step = backend.step.bind(backend)
    backend.step = async (batch) => {
      const result = await step(batch)
      const outputs = result.outputs.map((list) => list.map((one) => ({ ...one, logprobs })))
      return { ...result, outputs: outputs as never }
    }
    const { error } = await ask({ ...greedy(promptOf(9), 3), logprobs: 2 })
    t.match(error, { code: 'backend_failed', message: /\{ logprob, top \} as the logprobs/ })
    await isDone(t, made)
  }
})

t.test('a tokenizer that would answer with nothing is named at the start', (t) => {
  const later = (async () => false) as never
  const wrong: [Partial<Tokenizer>, RegExp][] = [
    [{ encode: rejects as never }, /encode returned a promise/],
    [{ isEndOfGeneration: later }, /isEndOfGeneration returned a promise/],
    [{ createDecoder: rejects as never }, /createDecoder returned a promise/],
    [{ createDecoder: () => ({ push: later, end: nothing }) }, /push returned a promise/],
    [
      { createDecoder: () => ({ push: () => '', end: rejects as never }) },
      /end returned a promise/,
    ],
    [
      { createDecoder: () => ({ push: () => '', end: nothing }) },
      /returned {2}and undefined, no texts/,
    ],
  ]
  for (const [changed, message] of wrong) {
    const tokenizer = Object.assign(new FakeTokenizer(), changed)
    const parts = { backend: new FakeBackend(), policy: firstComeFirstServed, tokenizer }
    t.throws(() => createEngine(parts), { code: 'plugin_invalid', message })
  }
  t.end()
})

t.test('a backend that lacks something is named at the start', (t) => {
  const { limits } = new FakeBackend()
  const wrong: [object, string][] = [
    [{ limits: { ...limits, slots: NaN, batchSize: '64' } }, 'limits.slots, limits.batchSize'],
    [{ limits: undefined, model: undefined }, 'model.id, model.vocabularySize, limits.slots, '],
    [{ step: undefined, capabilities: undefined }, 'capabilities, step'],
    [{ specificationVersion: 2 }, 'specificationVersion: 1'],
  ]
  for (const [changed, message] of wrong) {
    const properties = Object.entries(changed).map(([name, value]) => [name, { value }])
    const backend = Object.create(new FakeBackend(), Object.fromEntries(properties)) as Backend
    const make = () => createEngine({ backend, policy: firstComeFirstServed })
    t.throws(make, {
      code: 'plugin_invalid',
      message: new RegExp(`lacks, or has wrong: ${message}`),
    })
  }
  t.end()
})
