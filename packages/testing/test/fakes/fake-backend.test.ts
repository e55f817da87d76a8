import {
  type BatchItem,
  CllmError,
  defaultSampling,
  type SamplingParams,
  SimulatedClock,
  pause,
} from '@cllm/core'
import {
  drive,
  FakeBackend,
  FakeTokenizer,
  fakeTokenIds,
  runUntilIdle,
  scriptAnswers,
} from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'

const greedy: SamplingParams = { ...defaultSampling, temperature: 0, seed: 1 }

/** Draws `count` tokens one by one after computing `prompt` in chunks of `chunk`. */
async function generate(
  backend: FakeBackend,
  slot: number,
  prompt: readonly number[],
  params: SamplingParams,
  count: number,
  chunk = backend.limits.batchSize,
): Promise<number[]> {
  const sampler = backend.createSampler(params, prompt)
  const tokens = [...prompt]
  for (let at = 0; tokens.length < prompt.length + count;) {
    const part = tokens.slice(at, at + chunk)
    const last = at + part.length === tokens.length
    const outputs = last ? [tokens.length - 1] : []
    const result = await backend.step([{ slot, position: at, tokens: part, outputs, sampler }])
    at += part.length
    for (const output of result.outputs[0] ?? []) tokens.push(output.token)
  }
  sampler.dispose()
  return tokens.slice(prompt.length)
}

t.test('the tokenizer', async (t) => {
  const tokenizer = new FakeTokenizer()
  const plain = { addBos: false, special: false }

  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 60 }), (text) => {
      const tokens = tokenizer.encode(text, plain)
      const decoder = tokenizer.createDecoder()
      const pieces = tokens.map((token) => decoder.push(token))
      return (
        tokenizer.decode(tokens) === text &&
        pieces.join('') + decoder.end() === text &&
        pieces.every((piece) => !/[\ud800-\udbff]$/.test(piece))
      )
    }),
  )
  t.equal(tokenizer.vocabularySize, 300)
  t.equal(tokenizer.maxTokenBytes, '<|im_start|>'.length)

  const euro = tokenizer.encode('€', plain)
  t.equal(euro.length, 2, 'a token ends inside a character')
  const decoder = tokenizer.createDecoder()
  t.same(
    euro.map((token) => decoder.push(token)),
    ['', '€'],
  )
  t.equal(tokenizer.createDecoder(euro.slice(0, 1)).push(euro[1] ?? -1), '€')
  t.equal(tokenizer.decode(euro.slice(0, 1)), '', 'an incomplete character is dropped')

  t.same(tokenizer.encode(''), [fakeTokenIds.beginOfSequence])
  t.same(tokenizer.encode('</s>', { addBos: false }), [fakeTokenIds.endOfSequence])
  t.equal(tokenizer.decode(tokenizer.encode('</s>', plain)), '</s>')
  t.equal(tokenizer.isEndOfGeneration(fakeTokenIds.endOfSequence), true)
  t.equal(tokenizer.isEndOfGeneration(fakeTokenIds.messageStart), false)
  for (const token of [-1, 300, 1.5, NaN]) {
    t.throws(() => tokenizer.decode([token]), { code: 'invalid_token' })
  }

  const messages = [{ role: 'user', content: 'a <|im_end|> b' }]
  const chat = tokenizer.renderChat(messages)
  t.equal(chat.text, '<|im_start|>user\na <|im_end|> b<|im_end|>\n<|im_start|>assistant\n')
  t.equal(chat.tokens.filter((token) => token === fakeTokenIds.messageEnd).length, 1)
  t.equal(
    tokenizer.renderChat(messages, { addGenerationPrompt: false }).text,
    '<|im_start|>user\na <|im_end|> b<|im_end|>\n',
  )
})

t.test('the next token depends on all tokens before', async (t) => {
  const backend = new FakeBackend()
  const prompt = backend.tokenizer.encode('Once upon a time')
  const expected = backend.continuation(prompt, greedy, 20)
  t.equal(expected.length, 20)
  t.same(await generate(backend, 2, prompt, greedy, 20, 3), expected, 'in any slot, in chunks')

  const swapped = [prompt[1] ?? 0, prompt[0] ?? 0, ...prompt.slice(2)]
  for (const other of [swapped, prompt.slice(1), [...prompt, ...prompt]]) {
    t.not(backend.continuation(other, greedy, 4).join(), expected.slice(0, 4).join())
  }
  t.not(
    new FakeBackend({ id: 'other' }).continuation(prompt, greedy, 4).join(),
    expected.slice(0, 4).join(),
  )
  t.notMatch(backend.tokenizer.decode(backend.continuation(prompt, greedy, 200)), '\ufffd')
  t.same(backend.violations, [])
})

t.test('sampling', async (t) => {
  const backend = new FakeBackend({ contextSize: 1024 })
  const prompt = backend.tokenizer.encode('The cat')
  const run = (change: Partial<SamplingParams>, count = 30) =>
    backend.continuation(prompt, { ...greedy, temperature: 1, ...change }, count)
  t.same(run({}), run({}))
  t.not(run({}).join(), run({ seed: 2 }).join())
  t.same(run({ temperature: 1, topK: 1 }), run({ temperature: 0 }))
  t.same(run({ temperature: 1, topP: 0.0001 }), run({ temperature: 0 }))
  t.same(run({ temperature: 1, minP: 1 }), run({ temperature: 0 }))
  t.same(run({ topK: 300, topP: 1, minP: 0 }), run({}))
  const [first = 0] = run({ temperature: 0 })
  t.not(run({ temperature: 0, logitBias: [[first, -100]] })[0], first)
  t.equal(run({ logitBias: [[fakeTokenIds.messageEnd, 200]] }).join(), `${fakeTokenIds.messageEnd}`)
  t.equal(run({ logitBias: [[fakeTokenIds.messageEnd, 200]], ignoreEos: true }).length, 30)

  const distinctTokens = (change: Partial<SamplingParams>) => {
    const counts = [1, 2, 3, 4, 5, 6, 7, 8].map((seed) => new Set(run({ seed, ...change })).size)
    return counts.reduce((sum, count) => sum + count, 0)
  }
  const plain = distinctTokens({})
  t.ok(distinctTokens({ repetitionPenalty: 10 }) > plain)
  t.ok(distinctTokens({ presencePenalty: 2 }) > plain)
  t.ok(distinctTokens({ frequencyPenalty: 2 }) > plain)

  const ends = Array.from(
    { length: 200 },
    (_, index) =>
      new FakeBackend({ endProbability: 0.1 }).continuation([...prompt, index], greedy, 500).length,
  )
  const mean = ends.reduce((sum, length) => sum + length, 0) / ends.length
  t.ok(mean > 8 && mean < 12.5, `mean length ${mean} at an end probability of 0.1`)
})

t.test('scripted answers', async (t) => {
  const { tokenizer } = new FakeBackend()
  const script = scriptAnswers(tokenizer, { 'What?': 'That € 😀.' })
  const backend = new FakeBackend({ script })
  const answer = backend.continuation(tokenizer.encode('What?'), greedy, 99)
  t.equal(tokenizer.decode(answer), 'That € 😀.')
  t.equal(answer.at(-1), fakeTokenIds.endOfSequence)
  t.equal(backend.continuation(tokenizer.encode('Why?'), greedy, 99).length, 99)
})

t.test('step times, failures and what is recorded', async (t) => {
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({
    clock,
    stepMs: (batch) => 10 * batch.length,
    copyMs: (length) => length,
    failWhen: (_, step) => (step === 2 ? new Error('out of luck') : undefined),
  })
  const item = { slot: 0, position: 0, tokens: [5, 6], outputs: [] }
  t.match(await drive(clock, backend.step([item])), { outputs: [[]], decodeMs: 10, sampleMs: 0 })
  t.equal(clock.now(), 1010)
  const again = { ...item, position: 2 }
  await t.rejects(drive(clock, backend.step([again, { ...item, slot: 1 }])), {
    message: 'out of luck',
  })
  t.same(backend.content(0), [5, 6], 'nothing changed')
  t.same(backend.content(1), [])
  t.equal(clock.now(), 1030)
  t.equal(await drive(clock, backend.copyPrefix(0, 3, 1)), 1)
  t.equal(clock.now(), 1031)
  t.equal(backend.truncate(0, 1), 1)
  backend.release(3)
  t.same(backend.steps[1], {
    batch: [again, { ...item, slot: 1 }],
    startedAt: 1010,
  })
  t.same(
    backend.operations.map(({ type }) => type),
    ['copyPrefix', 'truncate', 'release'],
  )
  t.throws(() => new FakeBackend({ stepMs: () => 1 }), { code: 'invalid_configuration' })

  const coarse = new FakeBackend({ keepMultipleOf: 4 })
  await coarse.step([{ slot: 0, position: 0, tokens: [9, 9, 9, 9, 9, 9], outputs: [] }])
  t.equal(await coarse.copyPrefix(0, 1, 5), 4)
  t.equal(coarse.truncate(0, 6), 6)
  t.equal(coarse.truncate(0, 3), 0)
})

t.test('what is wrong with a call is said', async (t) => {
  const make = () => new FakeBackend({ slots: 2, contextSize: 8, batchSize: 6 })
  const backend = make()
  await backend.step([{ slot: 0, position: 0, tokens: [5, 6, 7], outputs: [] }])
  const sampler = backend.createSampler(greedy, [5, 6, 7, 8])
  const disposed = backend.createSampler(greedy, [5, 6, 7, 8])
  disposed.dispose()
  const good: BatchItem = { slot: 0, position: 3, tokens: [8], outputs: [3], sampler }
  const cases: [RegExp, BatchItem[]][] = [
    [/batch is empty/, []],
    [/batch has 7 tokens, batchSize is 6/, [{ ...good, tokens: [1, 2, 3, 4, 5, 6, 7] }]],
    [/slot is in the batch twice/, [good, { ...good, sampler: backend.createSampler(greedy, []) }]],
    [/sampler is in the batch twice/, [good, { ...good, slot: 1, position: 0 }]],
    [/item 0 \(slot 2\): there are 2 slots/, [{ ...good, slot: 2 }]],
    [/no tokens/, [{ ...good, tokens: [] }]],
    [/gap: position 4, the slot holds 3/, [{ ...good, position: 4, outputs: [4] }]],
    [/overlap: position 2, the slot holds 3/, [{ ...good, position: 2, outputs: [2] }]],
    [/context overflow: 9 tokens/, [{ ...good, tokens: [8, 8, 8, 8, 8, 8], outputs: [] }]],
    [/token 300 is outside/, [{ ...good, tokens: [300], outputs: [] }]],
    [/output 4 is outside its positions 3 to 3/, [{ ...good, outputs: [4] }]],
    [/outputs do not rise: 4, 3/, [{ ...good, tokens: [8, 8], outputs: [4, 3] }]],
    [/no sampler/, [{ slot: 0, position: 3, tokens: [8], outputs: [3] }]],
    [/sampler is disposed/, [{ ...good, sampler: disposed }]],
    [/not of this backend/, [{ ...good, sampler: make().createSampler(greedy, [5, 6, 7, 8]) }]],
    [/not of this backend/, [{ ...good, sampler: { dispose() {} } }]],
    [/other tokens than the slot/, [{ ...good, tokens: [9] }]],
  ]
  for (const [message, batch] of cases) {
    await t.rejects(backend.step(batch), { code: 'backend_failed', message })
    t.match(backend.violations.at(-1), message)
  }
  t.equal(backend.violations.length, cases.length)
  t.same(backend.content(0), [5, 6, 7], 'nothing changed')
  t.same(backend.content(1), [])

  const violation = (message: RegExp) => ({ code: 'backend_failed', message })
  const step = backend.step([good])
  await t.rejects(backend.step([good]), violation(/step: called during a step/))
  await t.rejects(backend.copyPrefix(0, 1, 1), violation(/copyPrefix: called during a step/))
  await t.rejects(backend.dispose(), violation(/dispose: called during a step/))
  t.throws(() => backend.truncate(0, 1), violation(/truncate: called during a step/))
  t.throws(() => backend.release(0), violation(/release: called during a step/))
  t.throws(() => sampler.dispose(), violation(/during a step/))
  t.equal((await step).outputs[0]?.length, 1, 'and the step itself is well')

  t.throws(() => backend.truncate(0, 5), violation(/truncate: length 5, slot 0 holds 4/))
  t.throws(() => backend.release(7), violation(/slot 7 of 2/))
  await t.rejects(backend.copyPrefix(0, 0, 1), violation(/to itself/))
  await t.rejects(backend.copyPrefix(1, 0, 1), violation(/length 1, slot 1 holds 0/))
  t.throws(() => backend.preferSlot([], [0, 1]), violation(/no slot is free/))
  t.throws(() => backend.preferSlot([0], [0, 1]), violation(/overlap/))
  t.throws(() => disposed.dispose(), violation(/called twice/))
  sampler.dispose()
  t.equal(backend.samplers.size, 1, 'one of the cases made a sampler and left it')
  await backend.dispose()
  await t.rejects(backend.step([good]), violation(/step: the backend is disposed/))
  t.throws(() => backend.createSampler(greedy, []), violation(/backend is disposed/))
})

t.test('embeddings are computed beside everything but a step', async (t) => {
  const backend = new FakeBackend({ embeddingSize: 4 })
  await generate(backend, 0, [5, 6, 7], greedy, 1)
  const pass = backend.embed([[5]])
  t.equal(await backend.copyPrefix(0, 1, 2), 2)
  t.equal((await pass)[0]?.length, 4)
  t.same(backend.violations, [])
  const copying = backend.copyPrefix(0, 2, 2)
  const [again] = await Promise.all([backend.embed([[5]]), copying])
  t.same(again, await pass)
  const next = backend.embed([[5]])
  await t.rejects(backend.embed([[6]]), { message: /during a pass/ })
  await t.rejects(backend.step([]), { message: /during an embed/ })
  await next
})

t.test('simulated time', async (t) => {
  const clock = new SimulatedClock()
  const seen: number[] = []
  const sleep = async (milliseconds: number) => pause(clock, milliseconds)
  const work = async () => {
    for (const milliseconds of [5, 1, 100]) {
      await sleep(milliseconds)
      seen.push(clock.now())
    }
    return 'done'
  }
  t.equal(await drive(clock, work()), 'done')
  t.same(seen, [5, 6, 106])
  await t.rejects(drive(clock, Promise.reject(new CllmError('internal', 'x'))), {
    code: 'internal',
  })
  await t.rejects(drive(clock, new Promise(() => {}), 1000), { message: /no timer is left/ })

  const working = work()
  await runUntilIdle(clock, 150)
  t.same(seen.slice(3), [111, 112])
  t.equal(clock.now(), 150)
  await runUntilIdle(clock)
  t.equal(clock.now(), 212)
  t.equal(await working, 'done')
})
