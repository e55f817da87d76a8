import {
  type AddressedEvent,
  type GenerateRequest,
  type TokenId,
  createEngine,
  defaultSampling,
} from '@cllm/core'
import {
  FakeBackend,
  FakeTokenizer,
  firstComeFirstServed,
  runUntilIdle,
  scriptAnswers,
} from '@cllm/testing'
import t from 'tap'
import { WatchedBackend, empty, greedy, isDone, policyOf, promptOf, rig } from '../../rig.js'

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
      const parts = { backend, clock, tokenizer: new Late(), policy: firstComeFirstServed }
      const events: AddressedEvent[] = []
      const engine = createEngine(parts)
      engine.observe({ onEvents: (batch) => void events.push(...batch) })
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
    engine.observe({
      onEvents: (batch) => {
        events.push(...batch)
        // Whoever hears that the text has gone far enough may say so at once.
        if (batch.some(({ event }) => event.type === 'end')) engine.cancel('q')
      },
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
    engine.observe({ onEvents: (batch) => void events.push(...batch) })
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

/** What the model says of all tokens but the first, asked without an engine and in one step. */
async function scoredAtOnce(tokens: readonly TokenId[], top: number) {
  const backend = new FakeBackend({ batchSize: 256 })
  const sampler = backend.createSampler({ ...defaultSampling, seed: 1 }, tokens)
  const scores = { position: 0, tokens: tokens.slice(1), top }
  const item = { slot: 0, position: 0, tokens, outputs: [], sampler, scores }
  return (await backend.step([item])).scores?.[0]
}

t.test('log probabilities of a prompt', async (t) => {
  const prompt = promptOf(70)
  let isPreempted = false
  const once = policyOf((state) => {
    const [scored] = state.running
    if (isPreempted || scored?.computedTokens !== 64) return firstComeFirstServed.plan(state)
    isPreempted = true
    return { ...empty, preempt: [scored.id], wakeAt: state.now + 5 }
  })
  for (const policy of [firstComeFirstServed, once]) {
    const made = rig({ policy })
    const { backend } = made
    await made.ask(greedy(prompt, 1))
    const before = backend.steps.length
    const { events } = await made.ask({ ...greedy(prompt, 2), promptLogprobs: 2 })
    const chunks = backend.steps.slice(before).map(({ batch }) => batch[0]?.tokens.length)
    const whole = [32, 32, 6, 1]
    t.same(chunks, policy === once ? [32, 32, ...whole] : whole, 'small chunks, nothing is reused')
    const [, first, second] = events
    const scored = first?.type === 'token' ? (first.promptLogprobs ?? []) : []
    t.same(
      scored.map(({ token }) => token),
      prompt,
      'with the first token, once for each token',
    )
    t.notOk(second !== undefined && 'promptLogprobs' in second)
    t.match(scored[0], { logprob: null, top: [] })
    const known = scored.slice(1).map(({ logprob, top }) => ({
      logprob,
      top: top.map(({ token, logprob }) => ({ token, logprob })),
    }))
    t.same(known, await scoredAtOnce(prompt, 2))
    await isDone(t, made)
  }
  t.ok(isPreempted)

  t.test('of an answer without a token', async (t) => {
    const made = rig({ endProbability: 1 })
    const sampling = { temperature: 0 }
    const prompt = { tokens: promptOf(5) }
    const { events } = await made.ask({ prompt, sampling, promptLogprobs: 0 })
    const end = events.at(-1)
    t.match(end, { type: 'end', usage: { generatedTokens: 0 } })
    t.equal(end?.type === 'end' ? end.promptLogprobs?.length : 0, 5)
  })

  t.test('where there are none', async (t) => {
    class Plain extends WatchedBackend {
      override readonly capabilities = {
        ...new FakeBackend().capabilities,
        promptLogprobs: false,
      }
    }
    const made = rig({ backend: (options) => new Plain(options) })
    const request = { ...greedy(promptOf(5), 2), promptLogprobs: 0 }
    t.match((await made.ask(request)).error, { code: 'unsupported' })
    const wrong = await rig().ask({ ...request, promptLogprobs: 21 })
    t.match(wrong.error, { code: 'invalid_request', details: { field: 'promptLogprobs' } })
  })
})
