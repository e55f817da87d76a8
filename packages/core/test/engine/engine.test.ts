import {
  type AddressedEvent,
  CllmError,
  createEngine,
  defaultSampling,
  type GenerateRequest,
  type Logger,
  type OutputConstraint,
  type Plan,
  type SamplingParams,
  type SchedulerEvent,
  type SchedulerState,
  type SequenceView,
  silentLogger,
  SimulatedClock,
  type TokenId,
} from '@cllm/core'
import {
  FakeBackend,
  FakeTokenizer,
  fakeTokenIds,
  runUntilIdle,
  drive,
  scriptAnswers,
} from '@cllm/core/testing'
import { getEventListeners } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import {
  type Answer,
  collect,
  counting,
  eager,
  expectedTokens,
  greedy,
  leftovers,
  nothingLeft,
  policyOf,
  promptOf,
  type Rig,
  rig,
  WatchedBackend,
} from '../rig.js'

/** Eager, and remembers what it saw. */
function watching() {
  const seen: { now: number; free: number; running: string[]; waiting: string[] }[] = []
  const policy = policyOf((state) => {
    const ids = (views: Iterable<SequenceView>) => [...views].map(({ id }) => id)
    const { now, freeSlots: free } = state
    seen.push({ now, free, running: ids(state.running), waiting: ids(state.waiting) })
    return eager(state)
  })
  return { seen, policy }
}

/** A logger that keeps its errors. */
function loggerOf() {
  const errors: { fields: Readonly<Record<string, unknown>>; message: string }[] = []
  const logger: Logger = {
    ...silentLogger,
    error: (fields, message) => void errors.push({ fields, message }),
  }
  return { errors, logger }
}

async function isDone(t: Test, made: Pick<Rig, 'backend' | 'engine' | 'clock'>): Promise<void> {
  await runUntilIdle(made.clock)
  t.match(leftovers(made), nothingLeft)
}

t.test('one listener call per step, while the next step runs', async (t) => {
  const made = rig({ slots: 3 })
  const { client, batches, backend, run } = made
  const prompts = [5, 6, 7].map((length) => promptOf(length, length))
  const answers = await run(
    Promise.all(prompts.map((prompt) => collect(client.submit(greedy(prompt, 4))))),
  )
  for (const [index, prompt] of prompts.entries()) {
    t.same(answers[index]?.tokens, expectedTokens(backend, prompt, 4))
  }
  t.equal(backend.steps.length, 4, 'prompts and first tokens, then three more')
  const told = batches.filter(({ events }) => events.some(({ event }) => event.type !== 'start'))
  t.same(
    told.map(({ at, steps, stepping, events }) => [at, steps, stepping, events.length]),
    [
      [1010, 2, true, 3],
      [1020, 3, true, 3],
      [1030, 4, true, 3],
      [1040, 4, false, 6],
    ],
    'three tokens while the next step runs; the last three and the ends without another step',
  )
  t.equal(batches.length - told.length, 3, 'and a start for each request')
  t.match(answers[0]?.end?.timings, {
    queueMs: 0,
    prefillMs: 10,
    firstTokenMs: 10,
    decodeMs: 30,
    totalMs: 40,
  })
  t.match(answers[0]?.events[0], { type: 'start', promptTokens: 5 })
  await isDone(t, made)
})

t.test('an idle engine sleeps: no timers, no plans, no steps', async (t) => {
  const { seen, policy } = watching()
  const made = rig({ policy })
  await runUntilIdle(made.clock)
  t.equal(seen.length, 0)
  await made.ask(greedy([5], 2))
  const plans = seen.length
  t.equal(plans, 2, 'one plan a step')
  made.clock.advance(100_000)
  await runUntilIdle(made.clock)
  t.equal(seen.length, plans)
  t.equal(made.clock.nextTimer(), undefined)
  t.equal(made.engine.statistics().busyMs, 20)

  await made.ask({ ...greedy([5], 2), timeoutMs: 1e9 })
  t.equal(made.clock.nextTimer(), undefined, 'a limit that was not needed leaves no timer')
})

t.test('cancelling frees the slot before the next step', async (t) => {
  const { seen, policy } = watching()
  const made = rig({ slots: 1, batchSize: 16, policy })
  const { client, clock, run, engine } = made
  const prompt = promptOf(40)
  const first = collect(client.submit({ ...greedy(prompt, 50), id: 'first' }))
  const second = collect(client.submit({ ...greedy(promptOf(4, 1), 50), id: 'second' }))
  const third = collect(client.submit({ ...greedy(promptOf(4, 2), 3), id: 'third' }))
  const queued = collect(client.submit({ ...greedy(promptOf(4, 3), 3), id: 'queued' }))

  await runUntilIdle(clock, 1015)
  t.equal(engine.statistics().slots[0]?.state, 'prefilling', '16 of 40 tokens are computed')
  client.cancel('first')
  client.cancel('queued')
  client.cancel('queued')
  client.cancel('nobody')
  await runUntilIdle(clock, 1020)
  t.match(seen.at(-1), { now: 1020, free: 1, running: [], waiting: ['second', 'third'] })
  t.match((await first).error, { code: 'cancelled' })
  t.match((await queued).error, { code: 'cancelled' })

  await runUntilIdle(clock, 1045)
  t.equal(engine.statistics().slots[0]?.state, 'decoding')
  client.cancel('second')
  await runUntilIdle(clock, 1050)
  t.match(seen.at(-1), { now: 1050, free: 1, running: [], waiting: ['third'] })
  t.equal((await second).tokens.length, 2, 'the token of the step under way is discarded')
  t.equal((await run(third)).tokens.length, 3)
  await isDone(t, made)
  t.match(engine.statistics().requests, { done: 1, cancelled: 3, failed: 0, timed_out: 0 })
})

t.test('clients that leave', async (t) => {
  const made = rig()
  const { client, clock, run, engine, backend } = made
  const request = greedy(promptOf(9), 50)

  const leaving = (async () => {
    let tokens = 0
    for await (const event of client.submit(request)) {
      if (event.type === 'token' && ++tokens === 2) break
    }
  })()
  await run(leaving)
  await runUntilIdle(clock)
  t.equal(engine.statistics().requests.cancelled, 1)
  await isDone(t, made)

  const steps = backend.steps.length
  const aborted = AbortSignal.abort()
  t.match((await run(collect(client.submit(request, { signal: aborted })))).error, {
    code: 'cancelled',
  })
  t.equal(backend.steps.length, steps, 'nothing was computed')
  t.equal(engine.statistics().requests.cancelled, 1, 'nor was the engine told')

  const controller = new AbortController()
  const answer = collect(client.submit(request, { signal: controller.signal }))
  await runUntilIdle(clock, clock.now() + 25)
  controller.abort()
  const { tokens, error } = await run(answer)
  t.match(error, { code: 'cancelled', status: 499 })
  t.equal(tokens.length, 2, 'what came before can still be read')
  await runUntilIdle(clock)
  t.equal(engine.statistics().requests.cancelled, 2)
  await isDone(t, made)

  const late = new AbortController()
  const whole = await run(collect(client.submit(greedy([5], 3), { signal: late.signal })))
  t.equal(getEventListeners(late.signal, 'abort').length, 0, 'the signal is let go')
  late.abort()
  t.equal(whole.error, undefined)
  await runUntilIdle(clock)
  t.match(engine.statistics().requests, { done: 1, cancelled: 2 })

  const stream = client.submit(greedy([5], 3))
  const both = Promise.all([stream.next(), stream.next()])
  t.same(
    (await run(both)).map(({ value }) => value?.type),
    ['start', 'token'],
    'next can be called twice at once',
  )
  const pending = [stream.next(), stream.next(), stream.next(), stream.next()]
  t.same(
    (await run(Promise.all(pending))).map(({ done }) => done),
    [false, false, false, true],
  )
  const failing = client.submit(greedy([], 3))
  await failing.return?.()
  t.match(await failing.next(), { done: true }, 'who has left hears of no error')
})

t.test('an id is taken until its last event was said', async (t) => {
  const made = rig({ slots: 2 })
  const { client, clock, run, engine, batches } = made
  const request = { ...greedy(promptOf(9), 3), id: 'same' }
  const first = collect(client.submit(request))
  t.match(await collect(client.submit(request)), {
    events: [],
    error: { code: 'duplicate_request', status: 400, message: /"same"/ },
  })
  t.equal((await run(first)).tokens.length, 3, 'the first one goes on')
  await run(collect(client.submit(request)))
  t.equal(engine.statistics().requests.done, 2, 'and then the id is free')

  engine.submit('direct', greedy([5], 3))
  engine.submit('direct', greedy([5], 3))
  t.match(batches.at(-1)?.events, [
    { id: 'direct', event: { type: 'error', error: { code: 'duplicate_request' } } },
  ])
  await runUntilIdle(clock)
  t.equal(engine.statistics().requests.failed, 1)
  await isDone(t, made)

  t.test('also when its end is known and not said yet', async (t) => {
    let copies = 0
    const made = rig({ slots: 3, copyMs: () => (copies++, 5) })
    const { client, clock, engine, run } = made
    const other = collect(client.submit(greedy(promptOf(100), 20)))
    const stream = client.submit({ ...greedy([5, 6], 1), id: 'again' })
    await runUntilIdle(clock, 1005)
    const copying = collect(client.submit(greedy([...promptOf(100), 9], 2)))
    await runUntilIdle(clock, 1012)
    t.equal(copies, 1, 'the engine is copying before it says the end')
    await stream.return?.()
    const answer = collect(client.submit({ ...greedy([7, 8], 2), id: 'again' }))
    const { tokens, error } = await run(answer)
    t.match(error, { code: 'duplicate_request' })
    t.equal(tokens.length, 0, 'it gets nothing of the other request')
    t.equal((await run(copying)).tokens.length, 2)
    await run(other)
    t.equal(engine.statistics().requests.done, 3)
  })
})

t.test('stop texts', async (t) => {
  const tokenizer = new FakeTokenizer()
  const script = scriptAnswers(tokenizer, {
    q: 'one cat STOP three dog',
    held: 'a cat ST',
    end: 'a cat STOP',
  })
  const ask = (text: string, stop: readonly string[], maxTokens = 100): GenerateRequest => ({
    prompt: { text },
    stop,
    maxTokens,
  })
  const made = rig({ script, slots: 2 })
  const { clock, backend, engine, batches } = made

  const { text, end, tokens, events } = await made.ask(ask('q', ['never', 'STOP']))
  t.equal(text, 'one cat ')
  t.match(end, { reason: 'stop', stop: 'STOP', usage: { generatedTokens: tokens.length } })
  t.equal(tokenizer.decode(tokens), 'one cat STOP', 'found with its last token')
  t.notMatch(events.map((event) => ('text' in event ? event.text : '')).join('|'), /[STOP]/)
  t.equal(backend.steps.length, tokens.length + 1, 'one token more was drawn and discarded')
  const told = batches.at(-1)
  t.equal(told?.stepping, true, 'the end is not delayed')
  t.match(engine.statistics(), { running: 1, requests: { done: 1 } })
  await runUntilIdle(clock)
  t.match(engine.statistics(), { running: 0, generatedTokens: tokens.length })
  await isDone(t, made)

  const held = await made.ask(ask('held', ['STOP']))
  t.equal(held.text, 'a cat ST', 'what was held back comes with the end')
  t.match(held.end, { reason: 'stop', text: 'ST' })
  t.notOk(held.end !== undefined && 'stop' in held.end)
  const cut = await made.ask(ask('q', ['STOP'], tokenizer.encode('one cat STO').length - 1))
  t.equal(cut.text, 'one cat STO')
  t.match(cut.end, { reason: 'length', text: 'STO' })
  const last = await made.ask(ask('end', ['STOP'], tokenizer.encode('a cat STOP').length - 1))
  t.equal(last.text, 'a cat ')
  t.match(last.end, { reason: 'stop', stop: 'STOP' }, 'also when it was the last token anyway')
  const first = await made.ask(ask('q', ['STOP three', 'P t', 'cat']))
  t.match([first.text, first.end?.stop], ['one ', 'cat'])
  await isDone(t, made)

  t.test('in what a decoder keeps to the end', async (t) => {
    for (const stop of ['here', 'never']) {
      class Late extends FakeTokenizer {
        override createDecoder() {
          return { push: () => '', end: () => 'all of it comes here at last' }
        }
      }
      const { backend, clock } = rig()
      const parts = { backend, clock, tokenizer: new Late(), policy: policyOf(eager) }
      const events: AddressedEvent[] = []
      const engine = createEngine(parts)
      engine.onEvents((batch) => void events.push(...batch))
      engine.submit('late', { ...greedy([5], 2), stop: [stop] })
      await runUntilIdle(clock)
      const expected =
        stop === 'here'
          ? { reason: 'stop', stop, text: 'all of it comes ' }
          : { reason: 'length', text: 'all of it comes here at last' }
      t.match(events.at(-1)?.event, expected)
    }
  })

  t.test('a cancel after the end was said changes nothing', async (t) => {
    const made = rig({ script })
    const { clock, engine } = made
    const events: AddressedEvent[] = []
    engine.onEvents((batch) => {
      events.push(...batch)
      // Whoever hears that the text has gone far enough may say so at once.
      if (batch.some(({ event }) => event.type === 'end')) engine.cancel('q')
    })
    engine.submit('q', ask('q', ['STOP']))
    await runUntilIdle(clock)
    t.equal(events.filter(({ event }) => event.type === 'end').length, 1)
    t.equal(events.at(-1)?.event.type, 'end')
    t.match(engine.statistics().requests, { done: 1, cancelled: 0 })
    await isDone(t, made)
  })

  t.test('a cancel just before the end is said gives one last event', async (t) => {
    let copies = 0
    const made = rig({ script, slots: 3, copyMs: () => (copies++, 5) })
    const { clock, engine } = made
    const events: AddressedEvent[] = []
    engine.onEvents((batch) => void events.push(...batch))
    engine.submit('long', greedy(promptOf(100), 40))
    engine.submit('q', ask('q', ['cat']))
    const count = tokenizer.encode('one cat').length - 1
    await runUntilIdle(clock, 1000 + count * 10 - 5)
    engine.submit('copied', greedy([...promptOf(100), 8], 2))
    await runUntilIdle(clock, 1000 + count * 10 + 2)
    t.equal(copies, 1, 'the engine is copying before it finds the stop text')
    engine.cancel('q')
    await runUntilIdle(clock)
    const own = events.filter(({ id }) => id === 'q').map(({ event }) => event.type)
    t.equal(own.filter((type) => type === 'end' || type === 'error').length, 1)
    t.match(own.at(-1), /end|error/)
    const { done, cancelled } = engine.statistics().requests
    t.equal(done + cancelled, 3)
    await isDone(t, made)
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
  const engine = createEngine({ backend: other, policy: policyOf(eager), clock, tokenizer })
  const events: AddressedEvent[] = []
  engine.onEvents((batch) => void events.push(...batch))
  const { maxTokenBytes } = tokenizer
  const fits = 'é'.repeat((32 * maxTokenBytes) / 2)
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
    override readonly capabilities = { ...new FakeBackend().capabilities, grammar: true }

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
      if (first?.generatedTokens !== 3 || first.preemptions > 0) return eager(state)
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

t.test('time limits', async (t) => {
  const made = rig({ slots: 1, options: { requestTimeoutMs: 95 } })
  const { client, clock, run, engine } = made
  const running = collect(client.submit({ ...greedy(promptOf(9), 90), id: 'running' }))
  const waiting = collect(client.submit({ ...greedy(promptOf(9, 1), 90), timeoutMs: 33 }))
  const patient = collect(client.submit({ ...greedy(promptOf(9, 2), 2), timeoutMs: 1000 }))
  await runUntilIdle(clock, 1039)
  t.equal(engine.statistics().waiting, 2)
  await runUntilIdle(clock, 1040)
  t.match(
    (await waiting).error,
    { code: 'timeout', status: 408, message: /0\.0 s/ },
    'in the queue',
  )
  const { tokens, error } = await run(running)
  t.match(error, { code: 'timeout' }, 'while running')
  t.equal(tokens.length, 9, 'after the step in which it ran out')
  t.equal((await run(patient)).end?.timings.queueMs, 100, 'at once the next one has its slot')
  t.match(engine.statistics().requests, { done: 1, timed_out: 2, failed: 0, cancelled: 0 })
  await isDone(t, made)
  t.match((await made.ask({ ...greedy([5], 5), timeoutMs: 0 })).error, { code: 'timeout' })

  const asleep = rig({ policy: policyOf(() => ({ ...empty, wakeAt: 1_000_000 })) })
  const answer = await asleep.ask({ ...greedy([5], 5), timeoutMs: 70 })
  t.match(answer.error, { code: 'timeout' })
  t.equal(asleep.clock.now(), 1070, 'a sleeping engine wakes for it')

  t.test('of many requests that ended long before', async (t) => {
    const made = rig({ slots: 4 })
    for (let round = 0; round < 50; round++) {
      const requests = [1, 2, 3, 4, 5].map((n) => ({ ...greedy([n + 4], 1), timeoutMs: n * 1e7 }))
      await made.run(Promise.all(requests.map((request) => collect(made.client.submit(request)))))
    }
    const last = collect(made.client.submit({ ...greedy([5], 200), timeoutMs: 25 }))
    t.match((await made.run(last)).error, { code: 'timeout' })
    t.match(made.engine.statistics().requests, { done: 250, timed_out: 1 })
  })

  t.test('requests that ended before are let go', async (t) => {
    const decoders: WeakRef<object>[] = []
    class Watched extends FakeTokenizer {
      override createDecoder(before: readonly TokenId[] = []) {
        const decoder = super.createDecoder(before)
        decoders.push(new WeakRef(decoder))
        return decoder
      }
    }
    const { backend, clock } = rig({ contextSize: 1000 })
    const tokenizer = new Watched()
    const engine = createEngine({ backend, clock, tokenizer, policy: policyOf(eager) })
    engine.submit('steady', { ...greedy([5], 900), timeoutMs: 1e8 })
    for (let n = 0; n < 300; n++) {
      engine.submit(`r${n}`, { ...greedy([5], 1), timeoutMs: 1e9 })
      await runUntilIdle(clock, 1010 + 20 * n)
    }
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    collectGarbage()
    const kept = decoders.filter((reference) => reference.deref() !== undefined).length
    t.ok(kept < 100, `${kept} of 300 are kept, whose limit is far away`)
    t.match(engine.statistics(), { running: 1, requests: { done: 300 } })
  })
})

const empty: Plan = { admit: [], preempt: [], reject: [], run: [] }

t.test('a policy that waits is called again at its time', async (t) => {
  const calls: number[] = []
  const policy = policyOf((state) => {
    calls.push(state.now)
    return state.now < 1055 ? { ...empty, wakeAt: state.now + 25 } : eager(state)
  })
  const made = rig({ policy })
  const { clock, client, run } = made
  const answer = collect(client.submit(greedy([5], 1)))
  await runUntilIdle(clock, 1060)
  t.same(calls, [1000, 1025, 1050])
  const second = collect(client.submit(greedy([6], 1)))
  t.equal((await run(second)).end?.timings.firstTokenMs, 10, 'or when something happens before')
  t.equal((await run(answer)).end?.timings.queueMs, 60)
  t.same(calls, [1000, 1025, 1050, 1060])
  await isDone(t, made)
})

t.test('paused, preempted and rejected', async (t) => {
  const events: [string, string, number][] = []
  let step = 0
  const policy = policyOf(
    (state) => {
      step++
      if (step === 4) return { ...eager(state), preempt: ['a'], run: [{ id: 'b', tokens: 1 }] }
      if (step === 5) return { ...empty, admit: ['a'], run: [{ id: 'a', tokens: 3 }] }
      if (step === 6) return { ...empty, run: [{ id: 'a', tokens: 100 }] }
      if (step === 7) {
        const reject = [...state.waiting].map(({ id }) => ({ id, reason: 'no room for you' }))
        return { ...eager(state), admit: [], reject }
      }
      return eager(state)
    },
    (event) => {
      if (event.type !== 'step') events.push([event.type, event.request.id, event.now])
    },
  )
  const made = rig({ slots: 2, policy })
  const { client, clock, run, backend, engine } = made
  const a = collect(client.submit({ ...greedy(promptOf(9), 9), id: 'a' }))
  const b = collect(client.submit({ ...greedy(promptOf(9, 1), 9), id: 'b' }))
  await runUntilIdle(clock, 1055)
  const c = collect(client.submit({ ...greedy(promptOf(9, 2), 9), id: 'c', cache: false }))
  const answers = await run(Promise.all([a, b, c]))
  t.same(answers[0]?.tokens, expectedTokens(backend, promptOf(9), 9))
  t.same(answers[1]?.tokens, expectedTokens(backend, promptOf(9, 1), 9))
  t.match(answers[2]?.error, { code: 'rejected', status: 503, message: 'no room for you' })
  t.equal(answers[0]?.end?.usage.cachedTokens, 0, 'finding its own tokens again is no hit')
  t.equal(engine.statistics().preemptions, 1)
  t.same(events, [
    ['queued', 'a', 1000],
    ['queued', 'b', 1000],
    ['admitted', 'a', 1000],
    ['admitted', 'b', 1000],
    ['preempted', 'a', 1030],
    ['admitted', 'a', 1040],
    ['queued', 'c', 1055],
    ['finished', 'c', 1060],
    ['finished', 'a', events[8]?.[2]],
    ['finished', 'b', events[9]?.[2]],
  ])
  await isDone(t, made)
})

t.test('rejected one by one, and asked for more than they have left', async (t) => {
  const policy = policyOf((state) => {
    const [first, ...others] = state.waiting
    if (first !== undefined && others.length > 1) {
      return { ...empty, reject: [{ id: first.id, reason: 'too many' }] }
    }
    const plan = eager(state)
    return { ...plan, run: plan.run.map(({ id }) => ({ id, tokens: 1000 })) }
  })
  const made = rig({ policy, batchSize: 16 })
  const { client, run, backend } = made
  const prompts = [1, 2, 3, 4].map((family) => promptOf(8, family))
  const answers = await run(
    Promise.all(prompts.map((prompt) => collect(client.submit(greedy(prompt, 3))))),
  )
  t.same(
    answers.map(({ error }) => error?.code),
    ['rejected', 'rejected', undefined, undefined],
  )
  t.equal(backend.steps.length, 3, '8 + 8 fit into 16')
  await isDone(t, made)
})

const entry = (id: string, tokens = 1) => ({ id, tokens })
const wrongPlans: [RegExp, (state: SchedulerState) => unknown][] = [
  [/"nobody"/, () => ({ ...empty, admit: ['nobody'] })],
  [/"running"/, () => ({ ...empty, admit: ['running'] })],
  [/"nobody"/, () => ({ ...empty, reject: [{ id: 'nobody', reason: '' }] })],
  [/"waiting".*twice/, () => ({ ...empty, admit: ['waiting', 'waiting'] })],
  [
    /"waiting".*twice/,
    () => ({
      ...empty,
      admit: ['waiting'],
      reject: [{ id: 'waiting', reason: '' }],
    }),
  ],
  [/preempt.*"waiting"/, () => ({ ...empty, preempt: ['waiting'] })],
  [/2 requests to 1 free/, () => ({ ...empty, admit: ['waiting', 'other'] })],
  [/run.*"waiting"/, () => ({ ...empty, run: [entry('waiting')] })],
  [/run.*"nobody"/, () => ({ ...empty, run: [entry('nobody')] })],
  [/run.*"running"/, () => ({ ...empty, preempt: ['running'], run: [entry('running')] })],
  [/"running" runs twice/, () => ({ ...empty, run: [entry('running'), entry('running')] })],
  ...[0, -1, 1.5, NaN].map((tokens): (typeof wrongPlans)[number] => [
    new RegExp(`instead got ${tokens}`),
    () => ({ ...empty, run: [entry('running', tokens)] }),
  ]),
  [
    /step group/,
    () => ({ ...empty, admit: ['grouped'], run: [entry('running'), entry('grouped')] }),
  ],
  [
    /17 tokens, a step takes 16/,
    () => ({
      ...empty,
      admit: ['waiting'],
      run: [entry('running'), entry('waiting', 16)],
    }),
  ],
  [/no later time/, () => empty],
  [/no later time/, (state) => ({ ...empty, wakeAt: state.now })],
  [/wakeAt.*NaN/, () => ({ ...empty, run: [entry('running')], wakeAt: NaN })],
  [/wakeAt.*Infinity/, () => ({ ...empty, wakeAt: Infinity })],
  [/lists/, () => ({})],
  [/lists/, () => ({ ...empty, run: 'all' })],
  [/lists/, () => undefined],
  [/expects an id/, () => ({ ...empty, run: [null] })],
  [/expects an id/, () => ({ ...empty, reject: [{}] })],
  [
    /Error: cannot think/,
    () => {
      throw new Error('cannot think')
    },
  ],
  [
    /mine/,
    () => {
      throw new CllmError('rejected', 'mine')
    },
  ],
]

t.test('wrong plans', async (t) => {
  for (const [message, wrong] of wrongPlans) {
    let isWrong = false
    const policy = policyOf((state) => {
      if (isWrong) return wrong(state) as Plan
      const run = [...state.running].map(({ id }) => entry(id))
      return state.running.length > 0 ? { ...empty, run } : eager(state)
    })
    const { errors, logger } = loggerOf()
    const made = rig({ slots: 2, batchSize: 16, policy, logger })
    const { client, clock, run } = made
    const requests = ['running', 'waiting', 'other', 'grouped'].map((id) => {
      const group = id === 'grouped' ? { stepGroup: 'lora' } : {}
      return { ...greedy(promptOf(id === 'running' ? 3 : 30), 60), id, ...group }
    })
    const [first, ...others] = requests
    if (first === undefined) throw new Error('unreachable')
    const answers = [collect(client.submit(first))]
    await runUntilIdle(clock, 1015)
    answers.push(...others.map((request) => collect(client.submit(request))))
    await runUntilIdle(clock, 1025)
    isWrong = true
    for (const { error, events } of await run(Promise.all(answers))) {
      t.match(error, { code: 'policy_failed', details: { policy: 'tested' }, message })
      t.match(error?.message, /"tested"/)
      t.equal(events[0]?.type, 'start')
    }
    t.match(errors, [{ message }], 'it is logged once')
    await isDone(t, made)
    isWrong = false
    t.equal((await made.ask(greedy([5], 2))).tokens.length, 2, 'and the engine goes on')
  }
})

t.test('with a fallback, a policy that fails is replaced and no request is lost', async (t) => {
  const entry = (id: string) => ({ id, tokens: 1 })
  const failures: typeof wrongPlans = [
    ...wrongPlans.filter(([message]) => !message.source.includes('group')),
    [/run nobody for too long/, (state) => ({ ...empty, wakeAt: state.now + 100 })],
    [/run nobody for too long/, () => ({ ...empty, wakeAt: 1e12 })],
  ]
  for (const [message, wrong] of failures) {
    let isWrong = false
    const policy = policyOf((state) => {
      if (isWrong) return wrong(state) as Plan
      const run = [...state.running].map(({ id }) => entry(id))
      return state.running.length > 0 ? { ...empty, run } : eager(state)
    })
    const { errors, logger } = loggerOf()
    const told: string[] = []
    const fallbackPolicy = () => ({
      name: 'safe',
      plan: eager,
      observe: (event: SchedulerEvent) => {
        if (event.type !== 'step') told.push(`${event.type} ${event.request.id}`)
      },
    })
    const made = rig({ slots: 2, batchSize: 16, policy, logger, fallbackPolicy })
    const { client, clock, run, backend, engine } = made
    const ids = ['running', 'waiting', 'other', 'grouped']
    const prompts = ids.map((id, index) => promptOf(id === 'running' ? 3 : 30, index))
    const submit = (index: number) =>
      collect(client.submit({ ...greedy(prompts[index] ?? [], 20), id: ids[index] ?? '' }))
    const answers = [submit(0)]
    await runUntilIdle(clock, 1015)
    answers.push(submit(1), submit(2), submit(3))
    await runUntilIdle(clock, 1025)
    isWrong = true
    for (const [index, { tokens }] of (await run(Promise.all(answers))).entries()) {
      t.same(tokens, expectedTokens(backend, prompts[index] ?? [], 20))
    }
    t.match(errors, [{ message, fields: { policy: 'tested', fallback: 'safe' } }])
    t.equal(errors.length, 1)
    t.match(engine.scheduler(), {
      policy: { name: 'safe' },
      fallback: { from: 'tested', reason: message },
    })
    t.equal(engine.statistics().policyFaults, 1)
    t.same(told.slice(0, 4), [
      'admitted running',
      'queued waiting',
      'queued other',
      'queued grouped',
    ])
    isWrong = false
    engine.setPolicy(policy)
    t.match(engine.scheduler(), { policy: { name: 'tested' }, fallback: undefined })
    await isDone(t, made)
  }

  t.test('also when it throws on an event, and not twice', async (t) => {
    const { errors, logger } = loggerOf()
    const broken = policyOf(eager, () => {
      throw new Error('deaf')
    })
    const made = rig({ policy: broken, logger, fallbackPolicy: () => policyOf(() => empty) })
    const { error } = await made.ask(greedy([5], 2))
    t.match(error, { code: 'policy_failed', message: /no later time/ }, 'the fallback fails too')
    t.match(errors, [
      { message: /threw on the event "queued": Error: deaf; tested takes over/ },
      {},
    ])
    await isDone(t, made)
  })

  t.test('waiting within its patience is no failure', async (t) => {
    const slow = policyOf((state) => {
      const [first] = state.waiting
      if (first === undefined || state.now - first.arrival >= 900) return eager(state)
      return { ...empty, wakeAt: state.now + 90 }
    })
    const options = { policyPatienceMs: 1000 }
    const made = rig({ policy: slow, options, fallbackPolicy: () => policyOf(eager) })
    for (const _ of [1, 2, 3]) {
      t.equal((await made.ask(greedy([5], 2))).end?.timings.queueMs, 900)
    }
    t.equal(made.engine.statistics().policyFaults, 0)
  })

  t.test('clients that give up do not make it patient for ever', async (t) => {
    const never = policyOf((state) => ({ ...empty, wakeAt: state.now + 1e6 }))
    const options = { policyPatienceMs: 1000 }
    const made = rig({ policy: never, options, fallbackPolicy: () => policyOf(eager) })
    const ask = async () => (await made.ask({ ...greedy([5], 2), timeoutMs: 400 })).error?.code
    t.same([await ask(), await ask(), await ask()], ['timeout', 'timeout', undefined])
  })
})

t.test('a policy that throws on events can still plan', async (t) => {
  const { errors, logger } = loggerOf()
  const policy = policyOf(eager, ({ type }) => {
    throw new Error(`${type}?`)
  })
  const made = rig({ policy, logger })
  t.equal((await made.ask(greedy([5], 2))).tokens.length, 2)
  t.same(
    errors.map(({ fields }) => fields),
    ['queued', 'admitted', 'step', 'step', 'finished'].map((event) => ({
      policy: 'tested',
      event,
      error: `Error: ${event}?`,
    })),
  )
})

t.test('what a policy is told of a step', async (t) => {
  const steps: (SchedulerEvent & { type: 'step' })[] = []
  const policy = policyOf(eager, (event) => {
    if (event.type === 'step') steps.push(event)
  })
  const made = rig({ policy, batchSize: 16, stepMs: (batch) => 5 * batch.length })
  const { client, clock, run } = made
  const first = collect(client.submit(greedy(promptOf(20), 3)))
  await runUntilIdle(clock, 1006)
  const second = collect(client.submit(greedy(promptOf(5, 1), 2)))
  await run(Promise.all([first, second]))
  const facts = steps.map(({ now, durationMs, prefillTokens, decodeSequences, parts }) => [
    now,
    durationMs,
    prefillTokens,
    decodeSequences,
    parts.map(({ tokens }) => tokens),
  ])
  t.same(facts, [
    [1005, 5, 16, 0, [16]],
    [1010, 5, 4, 0, [4]],
    [1020, 10, 5, 1, [1, 5]],
    [1030, 10, 0, 2, [1, 1]],
  ])
})

t.test('the policy can be swapped, losing nothing', async (t) => {
  const made = rig({ slots: 1 })
  const { client, clock, run, engine, backend } = made
  const answers = [0, 1].map((n) =>
    collect(client.submit({ ...greedy(promptOf(9, n), 6), id: `r${n}` })),
  )
  await runUntilIdle(clock, 1025)
  const told: string[] = []
  const next = policyOf(
    (state) => ({ ...eager(state), wakeAt: state.now + 1 }),
    (event) => void told.push(event.type === 'step' ? 'step' : `${event.type} ${event.request.id}`),
  )
  engine.setPolicy(next)
  t.equal(engine.scheduler().policy, next)
  t.same(told, ['admitted r0', 'queued r1'])
  const all = await run(Promise.all(answers))
  for (const [n, { tokens }] of all.entries()) {
    t.same(tokens, expectedTokens(backend, promptOf(9, n), 6))
  }
  t.match(told.slice(-1), ['finished r1'])

  const stuck = rig({ policy: policyOf(() => ({ ...empty, wakeAt: 1e9 })) })
  const answer = collect(stuck.client.submit(greedy([5], 2)))
  await runUntilIdle(stuck.clock, 2000)
  stuck.engine.setPolicy(policyOf(eager))
  t.equal((await stuck.run(answer)).end?.timings.firstTokenMs, 1010, 'it wakes a sleeping engine')
  t.equal(stuck.clock.nextTimer(), undefined, 'which forgets when it wanted to wake')
})

t.test('one request can never fail another', async (t) => {
  t.test('a step fails', async (t) => {
    const told: number[] = []
    let fails = 0
    const policy = policyOf(eager, (event) => {
      if (event.type === 'step') told.push(event.durationMs)
    })
    const made = rig({
      policy,
      failWhen: (batch) => {
        const culprit = batch.some(({ tokens }) => tokens.includes(fakeTokenIds.messageStart))
        const once = batch.length === 3 && fails++ === 1
        return culprit ? new Error('bad token') : once ? new Error('a bad day') : undefined
      },
    })
    const { client, run, backend, engine } = made
    const prompts = [promptOf(9), promptOf(9, 1), promptOf(9, 2)]
    const bad = [...promptOf(5, 3), fakeTokenIds.messageStart]
    const [culprit, ...others] = await run(
      Promise.all([bad, ...prompts].map((prompt) => collect(client.submit(greedy(prompt, 5))))),
    )
    t.match(culprit?.error, { code: 'backend_failed', status: 500, message: /bad token/ })
    for (const [index, { tokens }] of others.entries()) {
      t.same(tokens, expectedTokens(backend, prompts[index] ?? [], 5))
    }
    t.ok(fails > 1, 'and once it failed for no reason, which nobody noticed')
    t.same([...new Set(told)], [10], 'steps that were tried twice teach nothing')
    t.match(engine.statistics(), { requests: { done: 3, failed: 1 }, generatedTokens: 15 })
    await isDone(t, made)
  })

  t.test('samplers, copies and slots fail', async (t) => {
    class Moody extends WatchedBackend {
      mood?: 'no copies' | 'no truncation' | 'nowhere' | 'taken'

      override createSampler(params: SamplingParams, tokens: readonly TokenId[]) {
        if (params.seed === 13) throw new RangeError('unlucky')
        return super.createSampler(params, tokens)
      }

      override async copyPrefix(from: number, to: number, length: number): Promise<number> {
        const copied = await super.copyPrefix(from, to, length)
        if (this.mood === 'no copies') throw new Error('copy failed half-way')
        return copied
      }

      override truncate(slot: number, length: number): number {
        if (this.mood === 'no truncation') throw new Error('not this slot')
        return super.truncate(slot, length)
      }

      override preferSlot(free: readonly number[], used: readonly number[]): number {
        if (this.mood === 'nowhere') return 99
        return this.mood === 'taken' ? (used[0] ?? -1) : super.preferSlot(free, used)
      }
    }
    const backend: { current?: Moody } = {}
    const made = rig({ slots: 3, backend: (given) => (backend.current = new Moody(given)) })
    const { client, run, ask, clock } = made
    const long = promptOf(100)
    const steady = collect(client.submit(greedy(long, 60)))
    const unlucky = greedy(promptOf(9, 1), 5)
    const answer = await ask({ ...unlucky, sampling: { ...unlucky.sampling, seed: 13 } })
    t.match(answer, {
      events: { length: 1 },
      error: { code: 'backend_failed', message: 'unlucky' },
    })
    const moods = [
      ['nowhere', promptOf(9, 2), /99/],
      ['taken', promptOf(9, 2), /instead got 0/],
    ] as const
    for (const [mood, prompt, message] of moods) {
      if (backend.current !== undefined) backend.current.mood = mood
      t.match((await ask(greedy(prompt, 5))).error, { code: 'backend_failed', message }, mood)
      if (backend.current !== undefined) delete backend.current.mood
      const after = await ask(greedy(promptOf(30, 5), 3))
      t.same(after.tokens, expectedTokens(made.backend, promptOf(30, 5), 3), 'the next one is well')
    }
    if (backend.current !== undefined) backend.current.mood = 'no copies'
    const copied = await ask(greedy([...long, 9], 5))
    t.same(copied.tokens, expectedTokens(made.backend, [...long, 9], 5), 'then it is computed')
    t.equal(copied.end?.usage.cachedTokens, 0)
    if (backend.current !== undefined) backend.current.mood = 'no truncation'
    t.match((await ask(greedy(promptOf(25, 5), 3))).error, { message: 'not this slot' })
    if (backend.current !== undefined) delete backend.current.mood
    t.equal((await ask(greedy(promptOf(30, 5), 3))).error, undefined)
    t.same((await run(steady)).tokens, expectedTokens(made.backend, long, 60))
    await runUntilIdle(clock)
    await isDone(t, made)
  })

  t.test('text cannot be made', async (t) => {
    const made = rig({ slots: 2 })
    class Choking extends FakeTokenizer {
      override createDecoder(before: readonly TokenId[] = []) {
        const decoder = super.createDecoder(before)
        let pushed = 0
        const push = (token: TokenId) => {
          if (before[0] === 13 && ++pushed === Math.min(3, before.length)) {
            throw new Error('cannot say that')
          }
          return decoder.push(token)
        }
        return { push, end: () => decoder.end() }
      }
    }
    const { clock, backend } = made
    const tokenizer = new Choking()
    const engine = createEngine({ backend, tokenizer, policy: policyOf(eager), clock })
    const events: AddressedEvent[] = []
    engine.onEvents((batch) => void events.push(...batch))
    engine.submit('well', greedy([5], 9))
    engine.submit('midst', greedy([13, 13, 13], 9))
    await runUntilIdle(clock)
    engine.submit('last', greedy([13, 13], 2))
    await runUntilIdle(clock)
    const of = (name: string) => events.filter(({ id }) => id === name).map(({ event }) => event)
    t.equal(of('well').at(-1)?.type, 'end')
    const error = { code: 'internal', message: 'cannot say that' }
    t.match(of('midst').slice(1), [{ type: 'token' }, { type: 'token' }, { type: 'error', error }])
    t.match(of('last').slice(1), [{ type: 'token' }, { type: 'error', error }])
    t.match(engine.statistics().requests, { done: 1, failed: 2 })
    await isDone(t, { ...made, engine })
  })
})

t.test('drain and close', async (t) => {
  t.test('drain', async (t) => {
    const made = rig({ slots: 1 })
    const { client, engine, run, batches, clock } = made
    await run(engine.drain())
    t.match((await made.ask(greedy([5], 1))).error, { code: 'shutting_down', status: 503 })

    const busy = rig({ slots: 1 })
    const answers = [0, 1].map((n) => collect(busy.client.submit(greedy([5 + n], 3))))
    let drained = 0
    const draining = busy.engine.drain().then(() => (drained = busy.batches.length))
    t.match((await collect(busy.client.submit(greedy([5], 1)))).error, { code: 'shutting_down' })
    await busy.run(draining)
    const ends = busy.batches
      .slice(0, drained)
      .filter(({ events }) => events.some(({ event }) => event.type === 'end'))
    t.equal(ends.length, 2, 'every end was said before')
    for (const answer of answers) t.equal((await answer).tokens.length, 3)
    const left = rig()
    const cancelled = collect(left.client.submit({ ...greedy([5], 99), id: 'left' }))
    await runUntilIdle(left.clock, 1015)
    const afterwards = left.engine.drain().then(() => left.batches.at(-1)?.events)
    left.client.cancel('left')
    t.match(await left.run(afterwards), [{ event: { type: 'error' } }], 'and every error')
    t.match((await cancelled).error, { code: 'cancelled' })

    await run(engine.drain())
    t.equal(batches.length, 1)
    t.equal(clock.nextTimer(), undefined)
    await client.close()
  })

  t.test('close under load', async (t) => {
    const made = rig({ slots: 2 })
    const { client, clock, run, engine, backend } = made
    const answers = [0, 1, 2, 3].map((n) =>
      collect(client.submit({ ...greedy(promptOf(9, n), 50), timeoutMs: 1e6 })),
    )
    await runUntilIdle(clock, 1025)
    const draining = engine.drain()
    const closing = Promise.all([client.close(), client.close()])
    const late = collect(client.submit(greedy([5], 5)))
    t.equal(backend.stepping, true)
    await run(closing)
    t.equal(clock.now(), 1030, 'the step under way is awaited, no other one starts')
    await draining
    for (const [n, { error, tokens }] of (await Promise.all(answers)).entries()) {
      t.match(error, { code: 'shutting_down', status: 503 })
      t.equal(tokens.length, n < 2 ? 2 : 0)
    }
    t.match((await late).error, { code: 'shutting_down' })
    t.match((await collect(client.submit(greedy([5], 5)))).error, { code: 'shutting_down' })
    await client.close()
    t.match(engine.statistics().requests, { done: 0, failed: 6 })
    t.equal(clock.nextTimer(), undefined)
    await isDone(t, made)
    await t.rejects(backend.step([]), { message: /disposed/ }, 'the backend is given back')
  })

  t.test('close while a prefix is copied', async (t) => {
    const made = rig({ slots: 2, copyMs: () => 50 })
    const { client, clock, run, backend } = made
    const first = collect(client.submit(greedy(promptOf(100), 50)))
    await runUntilIdle(clock, 1035)
    const second = collect(client.submit(greedy(promptOf(100), 50)))
    await runUntilIdle(clock, 1055)
    t.equal(backend.operations.at(-1)?.type, 'copyPrefix')
    const steps = backend.steps.length
    await run(client.close())
    t.equal(backend.steps.length, steps)
    for (const answer of [first, second]) t.match((await answer).error, { code: 'shutting_down' })
    await isDone(t, made)
  })
})

t.test('cancelled while others are admitted', async (t) => {
  const admitted: string[] = []
  const policy = policyOf(eager, (event) => {
    if (event.type === 'admitted') admitted.push(event.request.id)
  })
  const made = rig({ slots: 4, copyMs: () => 50, policy })
  const { client, clock, run, backend, engine } = made
  const first = collect(client.submit(greedy(promptOf(100), 20)))
  await runUntilIdle(clock, 1025)
  const ids = ['copied', 'next', 'last']
  const [copied, next, last] = ids.map((id) =>
    collect(client.submit({ ...greedy(id === 'copied' ? promptOf(100) : promptOf(9, 4), 5), id })),
  )
  await runUntilIdle(clock, 1055)
  client.cancel('copied')
  client.cancel('next')
  await runUntilIdle(clock, 1082)
  const batch = backend.steps.at(-1)?.batch
  t.equal(batch?.length, 2, 'the step is that of the other two')
  t.match(engine.statistics(), { running: 2, waiting: 0, requests: { cancelled: 2 } })
  t.match([(await copied)?.error?.code, (await next)?.error?.code], ['cancelled', 'cancelled'])
  t.equal(clock.now(), 1082, 'and they are told at once')
  t.same(admitted.slice(1), ['copied', 'last'], 'who has left gets no slot first')
  t.same((await run(first)).tokens, expectedTokens(backend, promptOf(100), 20))
  t.equal((await last)?.tokens.length, 5)
  await isDone(t, made)
})

t.test('a step costs what runs, whatever waits', async (t) => {
  const count = 10_000
  const clock = new SimulatedClock()
  const backend = new FakeBackend({ clock, stepMs: () => 10, slots: 2, contextSize: 64 })
  const views: SequenceView[] = []
  const policy = policyOf((state) => {
    if (state.freeSlots > 0) return eager(state)
    if (views.length === 0) views.push(...state.waiting)
    return { ...empty, run: state.running.map(({ id }) => ({ id, tokens: 1 })) }
  })
  const options = { maxQueuedRequests: count * 2 }
  const engine = createEngine({ backend, policy, clock, random: counting(), options })
  for (let n = 0; n < count; n++) {
    engine.submit(`r${n}`, { ...greedy([5 + (n % 200)], 60), timeoutMs: 1e9 })
  }
  await runUntilIdle(clock, 50)
  t.equal(views.length, count - 2)
  let accesses = 0
  for (const view of views) {
    for (const [name, value] of Object.entries(view)) {
      let current: unknown = value
      Object.defineProperty(view, name, {
        get() {
          accesses++
          return current
        },
        set(next: unknown) {
          current = next
        },
      })
    }
  }
  const iterator = Object.getPrototypeOf(new Map().values()) as { next: () => unknown }
  const { next } = iterator
  let visits = 0
  iterator.next = function counted(this: unknown) {
    visits++
    return Reflect.apply(next, this, [])
  }
  try {
    const steps = backend.steps.length
    await runUntilIdle(clock, 250)
    t.equal(backend.steps.length - steps, 20)
  } finally {
    iterator.next = next
  }
  t.equal(accesses, 0, 'no waiting request was looked at')
  t.ok(visits < 20 * 20, `nor walked over: ${visits} entries of maps`)

  t.equal(views[0]?.state, 'queued')
  t.equal(accesses, 1, 'such a look would have been counted')
  await runUntilIdle(clock, 255)
  const closing = engine.close()
  await runUntilIdle(clock)
  await closing
})

t.test('statistics', async (t) => {
  const made = rig({ slots: 2 })
  const { client, clock, run, engine } = made
  t.match(engine.statistics(), {
    waiting: 0,
    running: 0,
    slots: [0, 1].map((slot) => ({ slot, request: undefined, state: 'idle', tokens: 0 })),
    policyFaults: 0,
    requests: { done: 0, cancelled: 0, failed: 0, timed_out: 0 },
    promptTokens: 0,
    cachedTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    steps: 0,
    decodeMs: 0,
    sampleMs: 0,
    busyMs: 0,
    prefillTokens: 0,
    decodeTokens: 0,
    stepMs: { sum: 0 },
  })
  const answers = ['a', 'b', 'c'].map((id, n) =>
    collect(client.submit({ ...greedy(promptOf(30, n), 5), id })),
  )
  await runUntilIdle(clock, 1015)
  t.match(engine.statistics(), {
    waiting: 1,
    running: 2,
    slots: [
      { slot: 0, request: 'a', state: 'decoding', tokens: 30 },
      { slot: 1, request: 'b', state: 'decoding', tokens: 30 },
    ],
    requests: { done: 0 },
    steps: 1,
    decodeMs: 10,
    busyMs: 10,
  })
  await run(Promise.all(answers))
  const again = await run(collect(client.submit(greedy(promptOf(30, 1), 5))))
  t.equal(again.end?.usage.cachedTokens, 29)
  t.match(engine.statistics(), {
    requests: { done: 4 },
    promptTokens: 120,
    cachedTokens: 29,
    generatedTokens: 20,
    steps: 15,
    decodeMs: 150,
    busyMs: 150,
    sampleMs: 0,
    prefillTokens: 120 - 29,
    decodeTokens: 16,
    stepMs: { sum: 150 },
    stepTokens: { sum: 120 - 29 + 16 },
  })
  const { steps, stepMs, stepTokens, stepSequences } = engine.statistics()
  for (const { bounds, counts } of [stepMs, stepTokens, stepSequences]) {
    t.equal(counts.length, bounds.length + 1)
    t.equal(
      counts.reduce((sum, count) => sum + count, 0),
      steps,
      'every step is counted once',
    )
  }
  t.equal(stepMs.counts[stepMs.bounds.indexOf(10)], 15, 'at most 10 ms and above 5')
  t.match(engine.info(), { model: { id: 'fake' }, limits: { slots: 2 }, capabilities: {} })
  await isDone(t, made)
})

t.test('an id can be used again as soon as its end is told, after a stop text too', async (t) => {
  const { client, clock, backend, engine } = rig({ endProbability: 0 })
  const request: GenerateRequest = { ...greedy(promptOf(9), 40), stop: [' '], id: 'same' }
  const again = async (): Promise<Answer[]> => {
    const answers: Answer[] = []
    for (let time = 0; time < 3; time++) answers.push(await collect(client.submit(request)))
    return answers
  }
  for (const { error, end } of await drive(clock, again())) {
    t.equal(error, undefined)
    t.match(end, { reason: 'stop', stop: ' ' })
  }
  const cancelled = (async () => {
    await collect(client.submit(request))
    const second = collect(client.submit(request))
    client.cancel('same')
    return await second
  })()
  t.match((await drive(clock, cancelled)).error, { code: 'cancelled' })
  await runUntilIdle(clock)
  t.match(leftovers({ backend, engine }), nothingLeft)
})
