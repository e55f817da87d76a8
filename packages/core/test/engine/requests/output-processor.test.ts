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
import * as fc from 'fast-check'
import t from 'tap'
import { StopMatcher } from '../../../src/engine/requests/output-processor.js'
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

/** The first stop text in a text; of several at one place the longest. */
function firstStop(text: string, stops: readonly string[]) {
  return stops
    .map((stop) => ({ stop, at: text.indexOf(stop) }))
    .filter(({ at }) => at >= 0)
    .sort((a, b) => a.at - b.at || b.stop.length - a.stop.length)[0]
}

/** What is left of the pieces, by looking at the whole text again after each. */
function reference(pieces: readonly string[], stops: readonly string[]) {
  let text = ''
  for (const [index, piece] of pieces.entries()) {
    text += piece
    const met = firstStop(text, stops)
    if (met !== undefined) return { text: text.slice(0, met.at), stop: met.stop, used: index + 1 }
  }
  return { text, stop: undefined, used: pieces.length }
}

/** All that is given out, piece by piece. */
function match(pieces: readonly string[], stops: readonly string[]) {
  const matcher = new StopMatcher(stops)
  const given: string[] = []
  for (const piece of pieces) {
    const { text, stop } = matcher.push(piece)
    given.push(text)
    if (stop !== undefined) return { given, stop, rest: matcher.end() }
  }
  return { given, stop: undefined, rest: matcher.end() }
}

t.test('examples', async (t) => {
  const cases: [pieces: string[], stops: string[], given: string[], stop?: string][] = [
    [['a', 'b', ''], [], ['a', 'b', '']],
    [['one STOP two'], ['STOP'], ['one '], 'STOP'],
    [['one S', 'TO', 'P two'], ['STOP'], ['one ', '', ''], 'STOP'],
    [['S', 'S', 'T', 'x'], ['ST'], ['', 'S', ''], 'ST'],
    [['a', 'a', 'a', 'b'], ['aab'], ['', '', 'a', ''], 'aab'],
    [['STO', 'NE'], ['STOP'], ['', 'STONE']],
    [['STO'], ['STOP'], ['', 'STO']],
    [['xab', 'cd'], ['abcde', 'bcd'], ['x', 'a'], 'bcd'],
    [['abc'], ['bc', 'abc', 'ab'], [''], 'abc'],
    [['\n', '\n', 'x'], ['\n\n'], ['', ''], '\n\n'],
    [['a😀', 'b'], ['😀b'], ['a', ''], '😀b'],
    [['', 'STOP'], ['STOP'], ['', ''], 'STOP'],
    [['STOP'], ['STOP'], [''], 'STOP'],
  ]
  for (const [pieces, stops, expected, expectedStop] of cases) {
    const { given, stop, rest } = match(pieces, stops)
    const all = rest === '' ? given : [...given, rest]
    t.same([all, stop], [expected, expectedStop], JSON.stringify({ pieces, stops }))
  }
})

t.test('as if the whole text were looked at after each piece', async () => {
  // Few letters, so that stop texts begin, fail and overlap all the time.
  const text = fc.string({ unit: fc.constantFrom('a', 'b', 'c', '😀'), maxLength: 4 })
  const pieces = fc.array(text, { maxLength: 12 })
  const stops = fc.array(
    text.filter((stop) => stop !== ''),
    { maxLength: 4 },
  )
  fc.assert(
    fc.property(pieces, stops, (pieces, stops) => {
      const expected = reference(pieces, stops)
      const { given, stop, rest } = match(pieces, stops)
      if (stop !== expected.stop || given.length !== expected.used) return false
      if (given.join('') + rest !== expected.text) return false
      if (stop !== undefined && rest !== '') return false
      // What is out can never be taken back, and nothing is held back without a reason.
      let out = ''
      let seen = ''
      return given.every((piece, index) => {
        out += piece
        seen += pieces[index] ?? ''
        const held = seen.slice(out.length)
        const isLast = stop !== undefined && index === given.length - 1
        return (
          seen.startsWith(out) &&
          (isLast || held === '' || stops.some((one) => one !== held && one.startsWith(held)))
        )
      })
    }),
    { numRuns: 2000 },
  )
})
