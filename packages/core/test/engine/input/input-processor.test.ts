import {
  type AddressedEvent,
  CllmError,
  type GenerateRequest,
  type OutputConstraint,
  type SamplingParams,
  SimulatedClock,
  type TokenId,
  createEngine,
  defaultSampling,
} from '@cllm/core'
import { FakeBackend, FakeTokenizer, fakeTokenIds, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import { checkSampling } from '../../../src/engine/input/check-request.js'
import {
  WatchedBackend,
  collect,
  empty,
  expectedTokens,
  greedy,
  isDone,
  policyOf,
  promptOf,
  rig,
} from '../../rig.js'

t.test('what a request leaves out comes from its model, then from its protocol', async (t) => {
  const drawn: SamplingParams[] = []
  class RecommendingBackend extends WatchedBackend {
    override readonly model = {
      ...new FakeBackend({ clock: new SimulatedClock() }).model,
      sampling: { temperature: 0.6, topK: 20 },
    }
    override createSampler(...given: Parameters<FakeBackend['createSampler']>) {
      drawn.push(given[0])
      return super.createSampler(...given)
    }
  }
  const { ask } = rig({
    backend: (given) => new RecommendingBackend(given),
    options: { sampling: { topK: 30, minP: 0.1 } },
  })
  const prompt = { tokens: [5] }
  await ask({
    prompt,
    maxTokens: 1,
    sampling: { minP: 0.2 },
    fallbackSampling: { temperature: 1, topP: 0.9, minP: 0.3 },
  })
  t.match(drawn, [{ temperature: 0.6, topK: 30, minP: 0.2, topP: 0.9, repetitionPenalty: 1 }])
  t.match((await ask({ prompt, fallbackSampling: null as never })).error, {
    code: 'invalid_request',
    details: { field: 'fallbackSampling' },
  })
})

t.test('length', async (t) => {
  const made = rig({ contextSize: 32, slots: 1 })
  const { backend, ask } = made
  const prompt = promptOf(20)
  const four = await ask(greedy(prompt, 4))
  t.match(four, { tokens: expectedTokens(backend, prompt, 4), end: { reason: 'length' } })
  const full = await ask(greedy(prompt, 400))
  t.match(full, { tokens: expectedTokens(backend, prompt, 13), end: { reason: 'length' } })
  t.equal(full.tokens.length, 32 - 20 + 1, 'the last token needs no place')
  const exact = await ask(greedy(promptOf(32), 400))
  t.match(exact, { tokens: expectedTokens(backend, promptOf(32), 1), end: { reason: 'length' } })
  t.equal((await ask({ prompt: { tokens: [5] }, sampling: { temperature: 0 } })).tokens.length, 32)
  const spacious = rig({ contextSize: 500 })
  const ends = rig({ script: () => fakeTokenIds.endOfSequence })
  const { endOfSequence } = fakeTokenIds
  t.same((await ends.ask(greedy([5], 3))).tokens, [endOfSequence, endOfSequence, endOfSequence])
  const silent = await ends.ask({ prompt: { tokens: [5] } })
  t.match(silent, { tokens: [], text: '', end: { reason: 'stop', usage: { generatedTokens: 0 } } })
  const byDefault = await spacious.ask({ prompt: { text: 'Once' } })
  t.equal(byDefault.tokens.length, 100, 'by default 100')
  await isDone(t, made)

  const tooLong = { code: 'prompt_too_long', status: 400 }
  t.match((await ask(greedy(promptOf(33), 1))).error, {
    ...tooLong,
    message: /33 tokens.* 32/,
    details: { field: 'prompt', contextSize: 32 },
  })
  let encoded = 0
  class CountingTokenizer extends FakeTokenizer {
    override encode(...given: Parameters<FakeTokenizer['encode']>): TokenId[] {
      encoded++
      return super.encode(...given)
    }
  }
  const { clock, backend: other } = rig({ contextSize: 32 })
  const tokenizer = new CountingTokenizer()
  const engine = createEngine({ backend: other, policy: firstComeFirstServed, clock, tokenizer })
  const events: AddressedEvent[] = []
  engine.observe({ onEvents: (batch) => void events.push(...batch) })
  const { maxTokenBytes } = tokenizer
  const fits = 'é'.repeat((32 * maxTokenBytes) / 2)
  encoded = 0
  engine.submit('fits', { prompt: { text: fits } })
  t.equal(encoded, 1, 'what could fit by its size is counted')
  engine.submit('huge', { prompt: { text: `${fits}.` } })
  const content = fits.slice(0, fits.length / 2 + 1)
  const messages = [
    { role: 'user', content },
    { role: 'user', content },
  ]
  engine.submit('chat', { prompt: { messages } })
  t.equal(encoded, 1, 'what cannot is not')
  for (const [index, id] of ['huge', 'chat'].entries()) {
    const error = { ...tooLong, message: /at least 33 tokens.* 32/ }
    t.match(events[index + 1], { id, event: { error: { ...error, status: undefined } } })
  }
  let rendered = 0
  tokenizer.renderChat = (...given) => {
    rendered++
    return FakeTokenizer.prototype.renderChat.apply(tokenizer, given)
  }
  const many = Array.from({ length: 33 }, () => ({ role: 'user', content: '' }))
  engine.submit('many', { prompt: { messages: many } })
  t.equal(rendered, 0, 'more messages than tokens are not written')
  t.match(events.at(-1), { id: 'many', event: { error: { message: /at least 33 tokens.* 32/ } } })
  await engine.close()
})

t.test('prompts are text, conversations or tokens', async (t) => {
  const made = rig({ endProbability: 0.02 })
  const { backend, ask } = made
  const { tokenizer } = backend
  const messages = [{ role: 'user', content: 'the cat' }]
  const prompts: [GenerateRequest['prompt'], readonly TokenId[]][] = [
    [{ text: 'the cat' }, tokenizer.encode('the cat')],
    [{ messages }, tokenizer.renderChat(messages).tokens],
    [
      { messages, template: { addGenerationPrompt: false } },
      tokenizer.renderChat(messages, { addGenerationPrompt: false }).tokens,
    ],
    [{ tokens: [9, 8, 7] }, [9, 8, 7]],
  ]
  for (const [prompt, content] of prompts) {
    const sampling = { temperature: 0.9, seed: 3 }
    const params = { ...defaultSampling, ...sampling }
    const expected = backend.continuation(content, params, 90)
    if (expected.at(-1) === fakeTokenIds.endOfSequence) expected.pop()
    const answer = await ask({ prompt, sampling, maxTokens: 90 })
    t.same(answer.tokens, expected)
    t.equal(answer.end?.reason, expected.length < 90 ? 'stop' : 'length')
    t.equal(answer.end?.usage.promptTokens, content.length)
  }

  const euro = tokenizer.encode('€', { addBos: false })
  const script = (content: readonly TokenId[]) => (content.length === 2 ? euro[1] : undefined)
  const begun = await rig({ script }).ask(greedy([5, euro[0] ?? -1], 2))
  t.match(begun.text, /^€/, 'a character begun in the prompt is completed')

  const random = rig()
  const [one, two] = await random.run(
    Promise.all(
      ['a', 'b'].map((id) => collect(random.client.submit({ prompt: { text: 'x' }, id }))),
    ),
  )
  const content = tokenizer.encode('x')
  const seeded = (seed: number) =>
    random.backend.continuation(content, { ...defaultSampling, seed }, 100)
  t.same([one?.tokens, two?.tokens], [seeded(0), seeded(1)], 'seeds come from the injected source')
  t.notSame(one?.tokens, two?.tokens)

  const own = [...promptOf(5)]
  const later = rig()
  const stop = ['never met']
  const growing = collect(later.client.submit({ ...greedy(own, 5), stop }))
  own.push(1, 2, 3)
  stop.push(' ')
  t.match(
    await later.run(growing),
    {
      tokens: expectedTokens(later.backend, promptOf(5), 5),
      end: { usage: { promptTokens: 5, generatedTokens: 5 } },
    },
    'what the caller does with its array later is its own business',
  )
})

t.test('what is wrong with a request is said: field, expected, received', async (t) => {
  const made = rig()
  const { client, engine, backend } = made
  const prompt = { text: 'x' }
  const wrong: [field: string, request: unknown, received?: RegExp, code?: string][] = [
    ['prompt', {}, /undefined/],
    ['prompt', { prompt: 'text' }, /"text"/],
    ['prompt', { prompt: null }, /null/],
    ['prompt', { prompt: {} }, /undefined/],
    ['prompt', { prompt: { text: '' } }, /""/],
    ['prompt', { prompt: { text: 7 } }, /7/],
    ['prompt', { prompt: { tokens: [] } }, /\[\]/],
    ['prompt', { prompt: { tokens: 'abc' } }, /"abc"/],
    ['prompt', { prompt: { tokens: [5, 300] } }, /300/, 'invalid_token'],
    ['prompt', { prompt: { tokens: [5, -1] } }, /-1/, 'invalid_token'],
    ['prompt', { prompt: { tokens: [1.5] } }, /1\.5/, 'invalid_token'],
    ['messages', { prompt: { messages: [] } }, /\[\]/],
    ['messages', { prompt: { messages: 'hi' } }, /"hi"/],
    ['messages[1]', { prompt: { messages: [{ role: 'user', content: '' }, { role: 'user' }] } }],
    ['messages[0]', { prompt: { messages: [null] } }, /null/],
    ['maxTokens', { prompt, maxTokens: 0 }, /^0$/],
    ['maxTokens', { prompt, maxTokens: 1.5 }, /^1\.5$/],
    ['maxTokens', { prompt, maxTokens: '5' }, /^"5"$/],
    ['maxTokens', { prompt, maxTokens: Infinity }, /^Infinity$/],
    ['priority', { prompt, priority: NaN }, /^NaN$/],
    ['deadlineMs', { prompt, deadlineMs: -1 }, /^-1$/],
    ['timeoutMs', { prompt, timeoutMs: -1 }, /^-1$/],
    ['timeoutMs', { prompt, timeoutMs: true }, /^true$/],
    ['stop', { prompt, stop: 'x' }, /"x"/],
    ['stop', { prompt, stop: ['a', ''] }, /\["a",""\]/],
    ['stop', { prompt, stop: ['y'.repeat(200)].concat('') }, /^.{78}$/],
    ['tenant', { prompt, tenant: 5 }, /5/],
    ['session', { prompt, session: {} }, /\{\}/],
    ['stepGroup', { prompt, stepGroup: false }, /false/],
    ['cache', { prompt, cache: 'no' }, /"no"/],
    ['slot', { prompt, slot: 99 }, /99/],
    ['sampling', { prompt, sampling: 'hot' }, /"hot"/],
    ['temperature', { prompt, sampling: { temperature: -0.1 } }, /-0\.1/],
    ['temperature', { prompt, sampling: { temperature: 101 } }, /101/],
    ['topK', { prompt, sampling: { topK: -1 } }, /-1/],
    ['topP', { prompt, sampling: { topP: 1.1 } }, /1\.1/],
    ['minP', { prompt, sampling: { minP: -0.1 } }, /-0\.1/],
    ['seed', { prompt, sampling: { seed: 2 ** 32 } }, /4294967296/],
    ['seed', { prompt, sampling: { seed: -1 } }, /-1/],
    ['repetitionPenalty', { prompt, sampling: { repetitionPenalty: 0 } }, /0/],
    ['presencePenalty', { prompt, sampling: { presencePenalty: 101 } }, /101/],
    ['frequencyPenalty', { prompt, sampling: { frequencyPenalty: null } }, /null/],
    ['ignoreEos', { prompt, sampling: { ignoreEos: 1 } }, /1/],
    ['logitBias', { prompt, sampling: { logitBias: { 5: 1 } } }, /\{"5":1\}/],
    ['logitBias', { prompt, sampling: { logitBias: [5] } }, /\[5\]/],
    ['logitBias', { prompt, sampling: { logitBias: [[300, 1]] } }, /300/, 'invalid_token'],
    ['logitBias', { prompt, sampling: { logitBias: [[5, 'x']] } }, /"x"/],
    ['constraint', { prompt, sampling: { constraint: 'json' } }, /"json"/],
    ['constraint.type', { prompt, sampling: { constraint: { type: 'xml' } } }, /"xml"/],
    ['constraint.grammar', { prompt, sampling: { constraint: { type: 'gbnf' } } }],
    [
      'constraint.root',
      { prompt, sampling: { constraint: { type: 'gbnf', grammar: '', root: 1 } } },
      /1/,
    ],
    [
      'constraint.schema',
      { prompt, sampling: { constraint: { type: 'json-schema', schema: [] } } },
    ],
  ]
  for (const [field, request, received = /./, code = 'invalid_request'] of wrong) {
    const { error, events } = await collect(client.submit(request as GenerateRequest))
    const name = `${field}: ${JSON.stringify(request)}`
    t.match(error, { code, status: 400, details: { field, expected: /\w/, received } }, name)
    t.match(error?.message.slice(0, field.length + 11), `${field}: expected `)
    t.equal(events.length, 0, 'it does not start')
  }
  t.equal(engine.statistics().requests.failed, wrong.length)
  t.equal(backend.steps.length, 0)
  await isDone(t, made)

  const limits = { maxTokens: Number.MAX_SAFE_INTEGER, priority: -1e9, timeoutMs: 1e15 }
  const sampling = { temperature: 100, topP: 0, minP: 1, seed: 2 ** 32 - 1, logitBias: [] }
  t.equal((await made.ask({ prompt, ...limits, deadlineMs: 0, sampling })).error, undefined)

  for (const limit of [0, 2]) {
    const full = rig({ slots: 1, options: { maxQueuedRequests: limit } })
    const requests = Array.from({ length: limit + 2 }, () => full.client.submit(greedy([5], 3)))
    const answers = await full.run(Promise.all(requests.map(collect)))
    const codes = answers.map(({ error }) => error?.code)
    t.same(codes, [...answers.slice(1).map(() => undefined), 'queue_full'])
    t.match(answers.at(-1)?.error, { status: 429, message: new RegExp(`${limit} requests`) })
    t.equal((await full.ask(greedy([5], 3))).error, undefined, 'and then there is room again')
  }
})

t.test('constraints are asked of the backend, which sees what was drawn under them', async (t) => {
  const prompt = promptOf(9)
  const json = { type: 'json' } as const
  const refused = await rig().ask({ prompt: { tokens: prompt }, sampling: { constraint: json } })
  t.match(refused.error, { code: 'unsupported', status: 400, details: { capability: 'grammar' } })

  const made: [type: string | undefined, tokens: number, promptTokens: number | undefined][] = []
  class Strict extends WatchedBackend {
    checkConstraint({ type }: OutputConstraint): void {
      if (type !== 'json') throw new CllmError('invalid_constraint', `no ${type}`)
    }

    override createSampler(params: SamplingParams, tokens: readonly TokenId[], from?: number) {
      made.push([params.constraint?.type, tokens.length, from])
      return super.createSampler(params, tokens)
    }
  }
  const end = fakeTokenIds.endOfSequence
  const { client, ask, run, engine } = rig({
    slots: 1,
    backend: (given) => new Strict(given),
    script: (content) => (content.length === 15 ? end : 5),
    policy: policyOf((state) => {
      const [first] = state.running
      if (first?.generatedTokens !== 3 || first.preemptions > 0)
        return firstComeFirstServed.plan(state)
      return { ...empty, preempt: [first.id], wakeAt: state.now + 1 }
    }),
  })
  const gbnf = { type: 'gbnf', grammar: '' } as const
  const wrong = await ask({ prompt: { tokens: prompt }, sampling: { constraint: gbnf } })
  t.match(wrong.error, { code: 'invalid_constraint', status: 400, message: 'no gbnf' })
  const sampling = { temperature: 0, ignoreEos: true, constraint: json }
  const { end: last, error } = await run(
    collect(client.submit({ prompt: { tokens: prompt }, sampling })),
  )
  t.equal(error, undefined)
  t.match(last, { reason: 'stop', usage: { generatedTokens: 6 } }, 'nothing else was allowed')
  t.same(made, [
    ['json', 9, 9],
    ['json', 12, 9],
  ])
  t.equal(engine.statistics().preemptions, 1)
})

t.test('a constraint whose check takes longer keeps its own request waiting only', async (t) => {
  const checks: {
    readonly resolve: () => void
    readonly reject: (error: unknown) => void
    readonly signal: AbortSignal
    readonly tenant: string
  }[] = []
  class Slow extends WatchedBackend {
    checkConstraint(_: OutputConstraint, signal: AbortSignal, tenant: string): Promise<void> {
      return new Promise((resolve, reject) => checks.push({ resolve, reject, signal, tenant }))
    }
  }
  const made = rig({ backend: (given) => new Slow(given) })
  const { client, clock, run, engine } = made
  const submit = (more: Partial<GenerateRequest> = {}) => {
    const sampling = { temperature: 0, constraint: { type: 'json' } as const }
    return collect(client.submit({ ...greedy(promptOf(9), 2), sampling, ...more }))
  }
  const kept = submit({ tenant: 'own' })
  const refused = submit()
  t.same(
    checks.map(({ tenant }) => tenant),
    ['own', 'default'],
  )
  let beats = 0
  const leave = engine.observe({ onTokenized: () => void beats++ })
  clock.advance(3000)
  t.equal(beats, 6, 'of each once a second, for those who watch whether the engine goes on')
  leave()
  t.equal((await made.ask(greedy([5], 3))).error, undefined, 'another one is answered meanwhile')
  checks[1]!.reject(new CllmError('invalid_constraint', 'too large'))
  t.match((await run(refused)).error, { code: 'invalid_constraint', message: 'too large' })
  checks[0]!.resolve()
  t.match(await run(kept), { error: undefined, end: { usage: { generatedTokens: 2 } } })

  const late = submit({ timeoutMs: 100 })
  clock.advance(101)
  t.match((await late).error, { code: 'timeout' })
  const leaving = submit({ id: 'leaving' })
  engine.cancel('leaving')
  t.match((await leaving).error, { code: 'cancelled' })
  const wrong = submit({ prompt: { text: '' } })
  t.match((await wrong).error, { code: 'invalid_request' })
  const long = submit({ prompt: { text: 'a '.repeat(3000) } })
  t.match((await long).error, { code: 'prompt_too_long' })
  const ends = checks.map(({ signal }) => (signal.reason as CllmError | undefined)?.code)
  t.same(ends.slice(2), ['timeout', 'cancelled', 'invalid_request', 'prompt_too_long'])
  t.equal(ends[0], undefined)
  for (const { reject } of checks.slice(2)) reject(new Error('after the end'))
  await isDone(t, made)
})

t.test('a model for embeddings is asked for no text', async (t) => {
  class Reader extends WatchedBackend {
    override readonly capabilities = { ...new FakeBackend().capabilities, generates: false }
  }
  const { ask, backend } = rig({ backend: (given) => new Reader(given) })
  const { error } = await ask({ prompt: { text: 'Hello' } })
  t.match(error, { code: 'unsupported', status: 400, details: { capability: 'generates' } })
  t.equal(backend.steps.length, 0)
})

const check = (change: Readonly<Record<string, unknown>>, samplers?: boolean) =>
  checkSampling(
    { ...defaultSampling, seed: 1, ...change },
    samplers === undefined ? {} : { samplers },
  )

/** What switches on one that needs the logits. */
const switched: Partial<SamplingParams>[] = [
  { typicalP: 0.9 },
  { topNSigma: 1 },
  { dynamicTemperatureRange: 0.5 },
  { xtcProbability: 0.5 },
  { dryMultiplier: 0.8 },
  { mirostat: 2 },
  { samplers: [{ name: 'any' }] },
]

t.test('what needs a backend that sees the logits', async (t) => {
  t.doesNotThrow(() => check({}))
  t.doesNotThrow(() =>
    check({ samplers: [], xtcThreshold: 0.3, mirostatTau: 2, dryBase: 2 }, false),
  )
  for (const change of switched) {
    const [field] = Object.keys(change)
    for (const samplers of [undefined, false]) {
      t.throws(() => check(change, samplers), {
        code: 'unsupported',
        details: { field, capability: 'samplers' },
        message: new RegExp(`^${field}: `),
      })
    }
    t.doesNotThrow(() => check(change, true))
  }
})

t.test('what is out of range', async (t) => {
  const wrong: Readonly<Record<string, readonly unknown[]>> = {
    temperature: [-1, 101, NaN, '1'],
    topK: [-1, 1.5],
    typicalP: [-0.1, 1.1],
    topNSigma: [-1, Infinity],
    dynamicTemperatureRange: [-1],
    dynamicTemperatureExponent: [-1],
    xtcProbability: [2],
    xtcThreshold: [-1],
    dryMultiplier: [-1],
    dryBase: [0.5],
    dryAllowedLength: [1.5],
    dryPenaltyLastN: [-1],
    drySequenceBreakers: ['\n', [''], [3], ['x'.repeat(41)], Array.from({ length: 33 }, () => 'a')],
    mirostat: [1, 3, true],
    mirostatTau: [-1],
    mirostatEta: [null],
    ignoreEos: [1],
  }
  for (const [field, values] of Object.entries(wrong)) {
    for (const value of values) {
      t.throws(() => check({ [field]: value }, true), {
        code: 'invalid_request',
        details: { field },
      })
    }
  }
})
