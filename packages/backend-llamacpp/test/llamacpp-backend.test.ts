import { join } from 'node:path'
import {
  type BatchItem,
  createEngine,
  type GenerateRequest,
  PluginRegistry,
  silentLogger,
  systemClock,
  systemRandom,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { firstComeFirstServed, testBackend } from '@cllm/testing'
import { uint32 } from '@cllm/gguf'
import {
  array,
  assert,
  asyncProperty,
  boolean,
  constantFrom,
  nat,
  property,
  record,
  uniqueArray,
} from 'fast-check'
import t from 'tap'
import { createLlamaCppBackend } from '../src/create-llamacpp-backend.js'
import { planMemory } from '../src/model/memory-plan.js'
import { readModelShape } from '../src/model/model-shape.js'
import { BatchFiller } from '../src/slots/batch-filler.js'
import { PassCosts, preferSlot, SlotLayout } from '../src/slots/pass-costs.js'
import type { SlotCells } from '../src/slots/slot-cells.js'
import { orderBatch } from '../src/slots/step-batch.js'
import type { Vocabulary } from '../src/text/vocabulary.js'
import { generate, openTiny, recordingLogger, sampling, tinyModel } from './open-tiny.js'
import { writeTinyModel } from './tiny-models.js'

const greedy = { temperature: 0 }
/** Whether two are within a tenth of each other. */
const isAbout = (found: number, value: number) => Math.abs(found - value) < value / 10

t.test('the contract', async (t) => {
  for (const kind of ['tiny', 'llama', 'gemma3', 'mamba'] as const) {
    await testBackend(t, () => openTiny(t, { kind }))
  }
  await testBackend(t, () => openTiny(t, { native: 'addon' }))
  await testBackend(t, () => openTiny(t, { kind: 'bert' }))
  // Flash attention computes 64 queries at once in another order. Where slots share their cells, these
  // are of several sequences, so that who is beside a request decides on the rounding.
  const shared = { contextSize: 256, flashAttention: false }
  await testBackend(t, () => openTiny(t, { ...shared, kvUnified: 'on' }))
  await testBackend(t, () => openTiny(t, { ...shared, kvTokens: 600 }))
})

t.test('both ways to llama.cpp draw the same tokens', async (t) => {
  const ffi = await openTiny(t)
  const addon = await openTiny(t, { native: 'addon' })
  const temperatures = constantFrom(0, 0.3, 0.7, 1, 2)
  const params = record({
    temperature: temperatures,
    topK: constantFrom(0, 1, 5, 40),
    topP: constantFrom(1, 0.9, 0.3),
    minP: constantFrom(0, 0.05),
    repetitionPenalty: constantFrom(1, 1.3),
    presencePenalty: constantFrom(0, 0.5),
    frequencyPenalty: constantFrom(0, 0.5),
    seed: nat(),
    ignoreEos: boolean(),
  })
  const prompts = array(nat(700), { minLength: 1, maxLength: 20 })
  const requests = array(record({ params, tokens: prompts }), { minLength: 1, maxLength: 4 })
  await assert(
    asyncProperty(requests, async (requests) => {
      const all = requests.map((request, slot) => ({ ...request, slot, count: 12 }))
      const drawn = await generate(ffi, all)
      t.same(drawn, await generate(addon, all))
      for (const backend of [ffi, addon]) for (const { slot } of all) backend.release(slot)
    }),
    { numRuns: 40 },
  )
})

t.test('a step is left in the middle of its forward pass, and all is as before', async (t) => {
  const size = { contextSize: 512, batchSize: 512 }
  const errors: string[] = []
  const logger = { ...silentLogger, error: (_: unknown, text: string) => void errors.push(text) }
  for (const options of [
    {},
    { ubatchSize: 64 },
    { kvUnified: 'on' as const, flashAttention: false },
  ]) {
    const backend = await openTiny(t, { kind: 'llama', ...size, ...options }, logger)
    const prompt = Array.from({ length: 400 }, (_, index) => 5 + (index % 200))
    const chunk = (from: number, to: number) =>
      backend.step([{ slot: 0, position: from, tokens: prompt.slice(from, to), outputs: [] }])
    const params = { temperature: 0.8, seed: 3 }
    const draw = async () =>
      await generate(backend, [{ slot: 0, tokens: prompt, computed: 399, params, count: 8 }])
    await chunk(0, 100)
    await chunk(100, 399)
    const expected = await draw()
    backend.truncate(0, 100)
    let left = 0
    // One that has ended before it is asked to is repeated.
    for (let tries = 0; left < 3 && tries < 100; tries++) {
      const step = chunk(100, 399)
      backend.interrupt?.()
      const { isInterrupted = false, outputs } = await step
      if (isInterrupted) t.same([++left, outputs], [left, []])
      else t.equal(backend.truncate(0, 100), 100)
    }
    t.equal(left, 3)
    backend.interrupt?.()
    await chunk(100, 399)
    t.same(await draw(), expected)
  }
  t.same(errors, [])
  for (const options of [{ kind: 'mamba' }, { kind: 'gemma3' }] as const) {
    const backend = await openTiny(t, { ...size, ...options })
    const tokens = Array.from({ length: 300 }, (_, index) => 5 + (index % 200))
    const step = backend.step([{ slot: 0, position: 0, tokens, outputs: [] }])
    backend.interrupt?.()
    t.not((await step).isInterrupted, true, `${options.kind} cannot take back what it has computed`)
  }
  const addon = await openTiny(t, { native: 'addon' })
  t.equal(typeof addon.interrupt, 'undefined')
})

t.test('model information', async (t) => {
  const backend = await openTiny(t, { slots: 3, contextSize: 100, modelId: 'small' })
  t.match(backend.model, {
    id: 'small',
    architecture: 'qwen3',
    vocabularySize: 768,
    trainingContext: 512,
    quantization: 'Q8_0',
    path: /tiny\.gguf$/,
    details: {
      layers: 2,
      hiddenSize: 64,
      attentionHeads: 4,
      keyValueHeads: 2,
      headSize: 32,
      mmap: true,
      mlock: false,
    },
  })
  t.ok(backend.model.parameters > 200_000)
  t.same(backend.limits, {
    slots: 3,
    contextSize: 100,
    batchSize: 64,
    embeddingTokens: 100,
    embeddingInputs: 16,
    outputs: 64,
    chunkMultiple: 64,
    replayTokens: 63,
  })
  t.equal(backend.capabilities.gpu, false)
  const untiled = await openTiny(t, { flashAttention: false })
  t.notOk('replayTokens' in untiled.limits, 'no chunk of several tokens rounds as single ones do')
})

t.test('a request draws the same alone, beside others and in any slot', async (t) => {
  const backend = await openTiny(t, { slots: 8 })
  const { tokenizer } = backend
  const prompts = ['One day', 'a', 'The robot said that it was', 'x y z', 'Why not?'].map((text) =>
    tokenizer.encode(text),
  )
  const alone: number[][] = []
  for (const tokens of prompts) {
    alone.push(...(await generate(backend, [{ slot: 0, tokens, params: greedy, count: 20 }])))
    backend.release(0)
  }
  // falling slots with holes: outputs come back in the caller's order all the same
  const slots = [7, 5, 4, 2, 1]
  const together = await generate(
    backend,
    prompts.map((tokens, index) => ({ slot: slots[index]!, tokens, params: greedy, count: 20 })),
  )
  t.same(together, alone)
})

t.test('prompts in chunks, with outputs in the middle', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('Some words to read, one after the other')
  const sampler = backend.createSampler(sampling(greedy), tokens)
  const single: number[] = []
  for (const [position, token] of tokens.entries()) {
    const batch = [{ slot: 0, position, tokens: [token], outputs: [position], sampler }]
    single.push((await backend.step(batch)).outputs[0]![0]!.token)
  }
  const outputs = [0, 3, 4, tokens.length - 1]
  const whole = await backend.step([
    { slot: 2, position: 0, tokens, outputs, sampler },
    { slot: 1, position: 0, tokens: tokens.slice(0, 5), outputs: [] },
  ])
  t.same(
    whole.outputs,
    [outputs.map((position) => ({ position, token: single[position]! })), []],
    'each wanted position, and nothing where nothing is wanted',
  )
  t.ok(whole.decodeMs > 0 && whole.sampleMs > 0)
  t.same((await backend.step([])).outputs, [])
})

t.test('slots are cut, copied and emptied', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('a prompt that several requests begin with')
  const [whole] = await generate(backend, [{ slot: 0, tokens, params: greedy, count: 10 }])
  t.equal(backend.truncate(0, 1000), tokens.length + 9, 'no more is kept than there is')

  t.equal(await backend.copyPrefix(0, 3, tokens.length - 1), tokens.length - 1)
  t.equal(backend.truncate(0, tokens.length - 1), tokens.length - 1)
  const again = { tokens, params: greedy, count: 10, computed: tokens.length - 1 }
  const both = [
    { slot: 3, ...again },
    { slot: 0, ...again },
  ]
  t.same(await generate(backend, both), [whole, whole])

  t.equal(await backend.copyPrefix(0, 0, 4), 4, 'onto itself')
  t.equal(await backend.copyPrefix(1, 2, 4), 0, 'from an empty slot')
  t.equal(await backend.copyPrefix(0, 2, 0), 0, 'nothing')
  t.equal(await backend.copyPrefix(0, 3, 100), 4, 'all there is')
  t.equal(backend.truncate(3, 0), 0)
  t.equal(backend.truncate(3, 5), 0)
  backend.release(0)
  t.equal(backend.truncate(0, 4), 0)
  t.same(await generate(backend, [{ slot: 0, tokens, params: greedy, count: 10 }]), [whole])
})

t.test('models that cannot forget a part', async (t) => {
  t.test('a recurrent state keeps all or nothing', async (t) => {
    const backend = await openTiny(t, { kind: 'mamba' })
    const tokens = backend.tokenizer.encode('hello hello')
    const [whole] = await generate(backend, [{ slot: 3, tokens, params: greedy, count: 12 }])
    await generate(backend, [{ slot: 0, tokens, params: greedy, count: 8 }])
    const held = tokens.length + 7
    t.equal(await backend.copyPrefix(0, 1, held), held)
    t.equal(await backend.copyPrefix(0, 2, tokens.length), 0)
    t.equal(backend.truncate(0, tokens.length), 0)
    const known = [...tokens, ...whole!.slice(0, 8)]
    const rest = { slot: 1, tokens: known, params: greedy, count: 4, computed: held }
    t.same(await generate(backend, [rest]), [whole!.slice(8)])
    t.same(await generate(backend, [{ slot: 0, tokens, params: greedy, count: 12 }]), [whole])
  })
  t.test('a sliding window forgets what it has passed', async (t) => {
    const backend = await openTiny(t, { kind: 'gemma3', contextSize: 512 })
    const tokens = Array.from({ length: 60 }, (_, index) => 262 + (index % 20))
    const [whole] = await generate(backend, [{ slot: 0, tokens, params: greedy, count: 8 }])
    t.equal(backend.truncate(0, 59), 59, 'all cells are still there')
    const again = { slot: 0, tokens, params: greedy, count: 340, computed: 59 }
    const [long] = await generate(backend, [again])
    t.same(long!.slice(0, 8), whole)
    t.equal(backend.truncate(0, 20), 0, 'its cells were used again')
    t.same(await generate(backend, [{ ...again, computed: 0, count: 8 }]), [whole])
  })
})

t.test('a window that only llama.cpp knows of', async (t) => {
  const modelPath = join(t.testdir(), 'gemma2.gguf')
  await writeTinyModel(modelPath, 'gemma2', { 'gemma2.context_length': uint32(8192) })
  const batchSize = 512
  const backend = await openTiny(t, { modelPath, slots: 1, contextSize: 8192, batchSize })
  t.equal(backend.capabilities.drafts, false)
  t.equal(typeof backend.shift, 'undefined')
  const tokens = Array.from({ length: batchSize }, (_, index) => 262 + (index % 20))
  for (let position = 0; position < 5120; position += batchSize) {
    await backend.step([{ slot: 0, position, tokens, outputs: [] }])
  }
  t.equal(backend.truncate(0, 5116), 5116, 'the window is there')
  t.equal(backend.truncate(0, 4300), 0, 'a part of it was used again')
})

t.test('what a step refuses, it refuses before anything changes', async (t) => {
  const backend = await openTiny(t, { contextSize: 256, batchSize: 16 })
  const sampler = backend.createSampler(sampling(), [1])
  const item = { slot: 0, position: 0, tokens: [1, 2], outputs: [1], sampler }
  await backend.step([{ ...item, slot: 1 }])
  const wrong: [Parameters<typeof backend.step>[0], string, RegExp][] = [
    [[{ ...item, slot: 4 }], 'backend_failed', /slot from 0 to 3, got 4/],
    [[{ ...item, slot: -1 }], 'backend_failed', /got -1/],
    [[{ ...item, slot: 0.5 }], 'backend_failed', /got 0.5/],
    [[{ ...item, slot: 1 }], 'backend_failed', /slot 1 holds 2 tokens.*not at 0/],
    [[{ ...item, position: 1, outputs: [2] }], 'backend_failed', /slot 0 holds 0 tokens/],
    [[item, item], 'backend_failed', /slot 0 is twice/],
    [[{ ...item, tokens: [] }], 'backend_failed', /without tokens/],
    [[{ ...item, tokens: [1, 768] }], 'invalid_token', /0 to 767, got 768/],
    [[{ ...item, tokens: [-1, 1] }], 'invalid_token', /got -1/],
    [[{ ...item, tokens: [1.5, 1] }], 'invalid_token', /got 1.5/],
    [[{ ...item, outputs: [2] }], 'backend_failed', /from 0 to 1: 2/],
    [[{ ...item, outputs: [1, 0] }], 'backend_failed', /must rise/],
    [[{ slot: 0, position: 0, tokens: [1], outputs: [0] }], 'backend_failed', /no sampler/],
    [[{ ...item, sampler: { dispose() {} } }], 'backend_failed', /not one of this backend/],
    [[{ ...item, tokens: Array.from({ length: 17 }, () => 1) }], 'backend_failed', /at most 16/],
  ]
  for (const [batch, code, message] of wrong) {
    await t.rejects(backend.step(batch), { code, message })
  }
  for (const slot of [4, -1, 1.5, Number.NaN]) {
    t.throws(() => backend.truncate(slot, 1), { code: 'backend_failed' })
    t.throws(() => backend.release(slot), { code: 'backend_failed' })
    await t.rejects(backend.copyPrefix(0, slot, 1), { code: 'backend_failed' })
    await t.rejects(backend.copyPrefix(slot, 0, 1), { code: 'backend_failed' })
  }
  t.equal(backend.truncate(0, 9), 0)
  t.equal(backend.truncate(1, 9), 2)

  let position = 2
  for (; position + 16 <= 256; position += 16) {
    await backend.step([{ slot: 1, position, tokens: Array(16).fill(1), outputs: [] }])
  }
  const over = { slot: 1, position, tokens: Array(16).fill(1), outputs: [] }
  await t.rejects(backend.step([over]), { code: 'backend_failed', message: /at most 256/ })
  await t.resolves(backend.step([{ ...over, tokens: over.tokens.slice(0, 256 - position) }]))
  t.equal(backend.truncate(1, 999), 256)

  sampler.dispose()
  sampler.dispose()
  await t.rejects(backend.step([item]), {
    code: 'backend_failed',
    message: /after it was disposed/,
  })
  await backend.dispose()
  await t.rejects(backend.step([item]), { code: 'backend_failed', message: /backend was disposed/ })
})

t.test('a draw that fails ends no other, nor the step before one is over', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('One day a dragon')
  const last = tokens.length - 1
  const [known] = await generate(backend, [{ slot: 0, tokens, params: greedy, count: 5 }])
  const apply = (): void => {
    throw new Error('no draw')
  }
  const failing = backend.createSampler(sampling(), tokens, tokens.length, [{ apply }])
  const sampler = backend.createSampler(sampling(greedy), tokens)
  backend.release(0)
  await backend.step([{ slot: 0, position: 0, tokens: tokens.slice(0, -1), outputs: [] }])
  const drafted = {
    slot: 0,
    position: last,
    tokens: [tokens[last]!, ...known!.slice(0, 4)],
    outputs: [0, 1, 2, 3, 4].map((nth) => last + nth),
    drafts: 4,
    sampler,
  }
  const beside = { slot: 1, position: 0, tokens, outputs: [last], sampler: failing }
  const { outputs, errors } = await backend.step([drafted, beside])
  t.match(errors?.get(1), { code: 'backend_failed', message: 'no draw' })
  t.same(
    outputs[0]?.map(({ token }) => token),
    known,
  )
  backend.truncate(0, last)
  backend.release(1)
  const both = [drafted, beside].map((item) => ({ ...item, sampler: failing }))
  await t.rejects(backend.step(both), { code: 'backend_failed', message: 'no draw' })
  const alone = { slot: 0, position: last, tokens: [tokens[last]!], outputs: [last], sampler }
  t.same((await backend.step([alone])).outputs, [[{ position: last, token: known![0] }]])
})

t.test('what was drawn before a draw that fails behind a draft stands', async (t) => {
  const backend = await openTiny(t)
  const tokens = backend.tokenizer.encode('One day a dragon')
  const last = tokens.length - 1
  const [known] = await generate(backend, [{ slot: 0, tokens, params: greedy, count: 3 }])
  backend.release(0)
  const apply = (_: Float32Array, { position }: { readonly position: number }): void => {
    if (position >= last + 2) throw new Error('no draw')
  }
  const processors = [{ apply }]
  const sampler = backend.createSampler(sampling(greedy), tokens, tokens.length, processors)
  const drafts = known!.slice(0, 2)
  const outputs = [last, last + 1, last + 2]
  const item = { slot: 0, position: 0, tokens: [...tokens, ...drafts], outputs, drafts: 2, sampler }
  const drawn = (await backend.step([item])).outputs[0]?.map(({ token }) => token)
  t.same(drawn, drafts, 'as if the next one were refuted')
})

t.test('a slot whose window is lost with a step that fails is empty', async (t) => {
  const size = { contextSize: 1024, batchSize: 512, ubatchSize: 64 }
  const backend = await openTiny(t, { kind: 'gemma3', ...size })
  const tokens = Array.from({ length: 600 }, (_, index) => 5 + ((index * 7) % 200))
  await backend.step([{ slot: 0, position: 0, tokens: tokens.slice(0, 100), outputs: [] }])
  const apply = (): void => {
    throw new Error('no draw')
  }
  const sampler = backend.createSampler(sampling(), tokens, tokens.length, [{ apply }])
  const item = { slot: 0, position: 100, tokens: tokens.slice(100), outputs: [599], sampler }
  await t.rejects(backend.step([item]), { message: 'no draw' })
  t.equal(backend.truncate(0, 100), 0)
})

t.test('a grammar without a way on ends no request beside it, whatever the memory', async (t) => {
  for (const kind of ['llama', 'gemma3', 'mamba', 'lfm2'] as const) {
    const backend = await openTiny(t, { kind })
    const engine = createEngine({ backend, policy: firstComeFirstServed })
    const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
    const constraint = { type: 'gbnf', grammar: 'root ::= "abcd" <[999999]>' } as const
    const ask = async (first: number, more = {}): Promise<number[]> => {
      const settings = { temperature: 0, ignoreEos: true, ...more }
      const prompt = { tokens: [1, first, 264, 265] }
      const tokens: number[] = []
      for await (const event of client.submit({ prompt, maxTokens: 12, sampling: settings })) {
        if (event.type === 'token') tokens.push(event.token)
      }
      return tokens
    }
    const alone = await ask(270)
    const [beside, dead] = [ask(270), ask(271, { constraint })]
    await t.rejects(dead, { code: 'invalid_constraint' }, kind)
    t.same(await beside, alone, kind)
  }
})

t.test('slots are chosen so that ids stay consecutive', async (t) => {
  t.equal(preferSlot([5, 2], []), 5, 'nothing runs: the cheapest')
  t.equal(preferSlot([6, 3, 0], [1, 2]), 3, 'beside the others')
  t.equal(preferSlot([4, 2], [0, 1, 3]), 2, 'a hole first, though it costs kept tokens')
  t.equal(preferSlot([7, 5], [0, 1]), 7)
  const runs = (ids: readonly number[]): number => ids.filter((id) => !ids.includes(id - 1)).length
  assert(
    property(uniqueArray(nat(12), { maxLength: 12 }), (used) => {
      const free = Array.from({ length: 13 }, (_, id) => id).filter((id) => !used.includes(id))
      const chosen = preferSlot(free, used)
      const best = Math.min(...free.map((id) => runs([...used, id])))
      return free.includes(chosen) && runs([...used, chosen]) === best
    }),
  )
})

t.test('a model that compares texts gives one number for each pair', async (t) => {
  const backend = await openTiny(t, { kind: 'qwen3', contextSize: 128 })
  t.match(backend.model.details, { pooling: 'rank', pairBetween: String, pairAfter: String })
  const { tokenizer } = backend
  const pairs = ['hello a', 'hello world', 'a', 'hello a'].map((text) => tokenizer.encode(text))
  const scores = (await backend.embed!(pairs)).map((vector) => {
    t.equal(vector.length, 1)
    return vector[0]!
  })
  t.ok(scores.every((score) => score > 0 && score < 1))
  t.ok(Math.abs(scores[0]! - scores[3]!) < 1e-6, 'the same pair has the same number')
  t.ok(new Set(scores.map((score) => score.toFixed(6))).size >= 3, String(scores))
})

t.test('a model that makes embeddings only is asked for no text', async (t) => {
  for (const native of ['ffi', 'addon'] as const) {
    const backend = await openTiny(t, { kind: 'bert', native, batchSize: 128 })
    t.equal(backend.capabilities.generates, false)
    const tokens = Array.from({ length: 100 }, (_, index) => 262 + (index % 20))
    const sampler = backend.createSampler(sampling(greedy), tokens)
    const item = { slot: 0, position: 0, tokens, outputs: [99], sampler }
    await t.rejects(backend.step([item]), { code: 'unsupported', message: /embeddings only/ })
    t.equal((await backend.embed!([tokens]))[0]?.length, 32)
  }
})

t.test('embeddings have a context of their own', async (t) => {
  const backend = await openTiny(t, { contextSize: 128 })
  const { tokenizer } = backend
  const embedAll = async (texts: readonly string[]) =>
    (await backend.embed?.(texts.map((text) => tokenizer.encode(text)))) ?? []
  const embed = async (text: string) => (await embedAll([text]))[0]!
  const one = await embed('A cat sat in the sun')
  t.equal(one.length, 64)
  t.ok(Math.abs(one.reduce((sum, value) => sum + value * value, 0) - 1) < 1e-5, 'of length 1')
  const other = await embed('Seven')
  t.notSame(other, one)
  for (const native of ['ffi', 'addon'] as const) {
    const beside = native === 'ffi' ? backend : await openTiny(t, { native, contextSize: 128 })
    const { embeddingInputs } = beside.limits
    t.equal(embeddingInputs, native === 'ffi' ? 16 : 1)
  }
  const texts = ['Seven', 'A cat sat in the sun', 'One day a cat', 'Seven']
  for (const [index, vector] of (await embedAll(texts)).entries()) {
    const alone = await embed(texts[index]!)
    const apart = Math.max(...vector.map((value, at) => Math.abs(value - alone[at]!)))
    t.ok(apart < 1e-3, `input ${index} beside others is ${apart} from what it is alone`)
  }
  await t.rejects(embedAll(Array.from({ length: 17 }, () => 'a')), { code: 'backend_failed' })
  const tokens = tokenizer.encode('One day')
  const count = 12
  const [alone] = await generate(backend, [{ slot: 0, tokens, params: greedy, count }])
  backend.release(0)
  const drawing = generate(backend, [{ slot: 0, tokens, params: greedy, count }])
  t.same(await embed('A cat sat in the sun'), one, 'the same again, beside generation')
  t.same((await drawing)[0], alone, 'which it does not change')
  await t.rejects(embed('a '.repeat(300)), { code: 'prompt_too_long', message: /1 to 128 tokens/ })
  await t.rejects(
    Promise.resolve().then(() => backend.embed?.([[999]])),
    { code: 'invalid_token' },
  )
})

t.test('embeddings are as long as there is memory for', async (t) => {
  const modelPath = await tinyModel(t)
  let available = Infinity
  const open = async (modelPath: string) => {
    const options = { modelPath, slots: 1, contextSize: 256, threads: 1, gpu: 'off' } as const
    const more = { clock: systemClock, logger: recordingLogger(), availableMemory: () => available }
    const backend = await createLlamaCppBackend(options, more)
    t.teardown(() => backend.dispose())
    return backend
  }
  /** What is needed for so many tokens, with copies of the logits of each. */
  const needed = async (size: number, copies: number, path = modelPath): Promise<number> => {
    const sizes = { contextSize: size, kvTokens: size, batchSize: size, outputs: copies * size }
    const formats = { kvCacheType: 'f16', flashAttention: 'auto' } as const
    const shape = { ...(await readModelShape(path)), sizeBytes: 0 }
    return planMemory(shape, { slots: 16, ...sizes, ...formats }).total
  }
  const tokens = Array.from({ length: 129 }, () => 5)
  const [backend, poor] = [await open(modelPath), await open(modelPath)]
  available = (await needed(256, 2)) - 1
  const message = /1 to 128 tokens for an embedding, as there is no memory for more, got 129$/
  await t.rejects(backend.embed!([tokens]), { code: 'prompt_too_long', message })
  t.equal((await backend.embed!([tokens.slice(1)])).length, 1)
  const pair = [tokens.slice(60), tokens.slice(60)]
  await t.rejects(backend.embed!(pair), { code: 'backend_failed' }, 'each alone')
  available = (await needed(128, 2)) - 1
  await t.rejects(poor.embed!([[5]]), { code: 'insufficient_memory' })
  available = Infinity
  t.equal((await poor.embed!([tokens])).length, 1, 'it is tried again')
  const path = join(t.testdir(), 'bert.gguf')
  const reader = await open(await writeTinyModel(path, 'bert'))
  available = await needed(256, 1, path)
  t.equal((await reader.embed!([tokens])).length, 1, 'which makes no logits')
  const recurrent = await tinyModel(t, 'mamba')
  available = Infinity
  const mamba = await open(recurrent)
  available = (await needed(256, 2, recurrent)) - 1
  await t.rejects(mamba.embed!([tokens]), { message }, 'a state for each of 16 inputs')
})

t.test('embeddings of a context with fewer tokens than a pass has inputs', async (t) => {
  const backend = await openTiny(t, { contextSize: 2 })
  t.equal((await backend.embed!([[5, 6]])).length, 1)
  await t.rejects(backend.embed!([[5, 6, 7]]), { code: 'prompt_too_long' })
})

t.test('embeddings have positions as they are set', async (t) => {
  const tokens = [1, 264, 270, 271]
  const plain = await openTiny(t)
  const stretched = await openTiny(t, { rope: { scaling: 'linear', freqScale: 0.25 } })
  t.notSame(await stretched.embed!([tokens]), await plain.embed!([tokens]))
})

t.test('embeddings as the tokens are made into one', async (t) => {
  const tokens = [1, 264, 270, 271]
  const embed = async (pooling?: 'none' | 'mean' | 'last') => {
    const backend = await openTiny(t, { contextSize: 128, ...(pooling && { pooling }) })
    t.equal(backend.model.details?.['pooling'], pooling)
    return (await backend.embed!([tokens, tokens.slice(0, 2)])).map((vector) => [...vector])
  }
  const [each = [], two = []] = await embed('none')
  const size = each.length / tokens.length
  t.equal(two.length, 2 * size)
  const rows = tokens.map((_, row) => each.slice(row * size, (row + 1) * size))
  const unit = (vector: readonly number[]) => {
    const length = Math.hypot(...vector)
    return vector.map((value) => value / length)
  }
  const near = (a: readonly number[] = [], b: readonly number[] = []) =>
    a.length === b.length && a.every((value, at) => Math.abs(value - b[at]!) < 1e-3)
  const mean = rows[0]!.map((_, at) => rows.reduce((sum, row) => sum + row[at]!, 0))
  t.notOk(near(each, unit(each)), 'single tokens have any length')
  t.ok(near((await embed('mean'))[0], unit(mean)))
  t.ok(near((await embed('last'))[0], unit(rows.at(-1)!)))
  t.ok(near((await embed())[0], unit(rows.at(-1)!)), 'a model that says nothing')
  await t.rejects(openTiny(t, { native: 'addon', pooling: 'mean' }), /pooling.* need native/)
})

t.test('what gaps between slots cost', async (t) => {
  const layoutOf = (length: (slot: number) => number, canSpare: boolean) => {
    const costs = new PassCosts()
    const decoded = (slots: readonly number[], ms: number) => {
      const items = slots.map((slot) => ({ slot, position: length(slot), tokens: [1] }))
      costs.observe('decode', items, ms)
    }
    const layout = new SlotLayout({ length, canSpare: () => canSpare }, costs)
    return Object.assign(layout, { decoded })
  }
  const rigid = layoutOf(() => 10, false)
  t.equal(rigid.lostMs([0, 2, 4]), 0, 'nothing is known')
  rigid.decoded([], 100)
  // 20 ms for a pass and 2 for each sequence in it
  for (let nth = 0; nth < 40; nth++) {
    rigid.decoded([0, 1, 2], 26)
    rigid.decoded([0, 1, 5, 6], 48)
    rigid.decoded([0, 1, 2, 3, 4, 5, 6, 7], 36)
  }
  t.equal(rigid.lostMs([2, 0, 1]), 0)
  t.equal(rigid.lostMs([5]), 0)
  t.equal(rigid.lostMs([]), 0)
  t.ok(isAbout(rigid.lostMs([0, 1, 3]), 22), 'one more pass, and a hole')
  t.ok(isAbout(rigid.lostMs([6, 4, 2, 0]), 66))
  t.ok(rigid.lostMs([0, 1, 4]) > rigid.lostMs([0, 1, 3]), 'narrow gaps are better')
  t.strictSame(rigid.fillers([0, 2], [0, 2]), [], 'nothing can be computed there')

  const lengths = [0, 0, 0, 0, 0, 0, 0, 50_000]
  const layout = layoutOf((slot) => lengths[slot] ?? 0, true)
  for (let nth = 0; nth < 40; nth++) {
    layout.decoded([0, 1, 2], 26)
    layout.decoded([7], 72)
    layout.decoded([0, 1, 5, 6], 48)
  }
  t.ok(isAbout(layout.lostMs([0, 2]), 2), 'an idle slot is computed along')
  t.strictSame(layout.fillers([0, 3, 4], [0, 3, 4]), [1, 2])
  t.strictSame(layout.fillers([0, 3, 4], [0, 2, 3, 4]), [], 'one of them computes its prompt')
  t.strictSame(layout.fillers([6, 8], [6, 8]), [], 'it holds so much that a pass is cheaper')
  t.strictSame(layout.fillers([0, 15], [0, 15]), [], 'so many that a pass is cheaper')
})

t.test('a backend begins with what another one has learned', async (t) => {
  const [one, other] = [await openTiny(t), await openTiny(t)]
  for (let position = 0; position < 3; position++) {
    await one.step([{ slot: 0, position, tokens: [5], outputs: [] }])
  }
  const learned = JSON.parse(JSON.stringify(one.learned?.())) as object
  t.match(learned, { passes: { decode: { length: 3 } } })
  other.recall?.(learned)
  t.same(other.learned?.(), learned)
  for (const wrong of [7, {}, { passes: { decode: [-1, 1, 1] } }, { passes: { other: [1] } }]) {
    t.throws(() => other.recall?.(wrong))
  }
  t.same(other.learned?.(), learned, 'what does not fit changes nothing')
})

t.test('when a short chunk is computed as a whole tile', (t) => {
  const costs = new PassCosts(64)
  const cells = { length: () => 0, canSpare: () => true, rollBack: () => {} }
  const parts = { cells, limits: { slots: 1, batchSize: 512 }, kvUnified: false }
  const filler = new BatchFiller(parts, costs)
  const chunk = (tokens: number, position: number) => ({
    slot: 0,
    position,
    tokens: Array.from({ length: tokens }, () => 1),
    outputs: [],
  })
  const tile = {
    computed: (tokens: number, context: number, ms: number) =>
      costs.observe('chunk', [chunk(tokens, context)], ms),
    pays(tokens: number, context: number) {
      const [item] = filler.filled([chunk(tokens, context)])
      return item!.tokens.length > tokens
    },
  }
  // twice as fast as the costs to begin with
  for (const [tokens, context] of [
    [64, 0],
    [128, 600],
    [48, 200],
    [32, 600],
  ] as const) {
    const [whole, alone] = tokens < 64 ? [0, tokens] : [tokens, 0]
    const keys = context + tokens / 2
    const ms = 10 + 1.1 * tokens + (0.00125 * whole + 0.0073 * alone) * keys
    for (let nth = 0; nth < 5; nth++) tile.computed(tokens, context, ms)
  }
  t.notOk(tile.pays(60, 255), 'short conversations are computed the same each time')
  t.ok(tile.pays(53, 630))
  t.notOk(tile.pays(8, 630), 'so few that the rest of the tile costs more')
  t.notOk(tile.pays(64, 630), 'it is one')
  // a machine on which tiles are no faster
  for (let nth = 0; nth < 200; nth++) {
    tile.computed(64, 1000, 800)
    tile.computed(32, 1000, 400)
    tile.computed(64, 10, 70)
    tile.computed(32, 10, 40)
  }
  t.notOk(tile.pays(53, 630))
  t.end()
})

t.test('a chunk that fills its tile leaves what it would alone', async (t) => {
  const tokens = (count: number): number[] =>
    Array.from({ length: count }, (_, index) => 262 + (index % 20))
  const serve = async (contextSize: number, others: readonly number[]) => {
    const backend = await openTiny(t, { slots: 3, contextSize, batchSize: 256 })
    const sampler = backend.createSampler(sampling(greedy), [])
    const slots = [0, ...others]
    const fill = slots.map((slot) => ({ slot, position: 0, tokens: tokens(256), outputs: [] }))
    for (const item of fill) await backend.step([item])
    const chunks = slots.map((slot) => {
      const short = { slot, position: 256, tokens: tokens(50 + slot), outputs: [305 + slot] }
      return { ...short, sampler }
    })
    const first = await backend.step(chunks)
    t.equal(backend.truncate(0, 1000), 306, 'nothing is left of what filled it')
    const next = [{ slot: 0, position: 306, tokens: tokens(1), outputs: [306], sampler }]
    const second = await backend.step(next)
    return [first.outputs[0]![0], second.outputs[0]![0]]
  }
  const alone = await serve(512, [])
  t.strictSame(await serve(310, []), alone, 'where a tile does not fit')
  t.strictSame(await serve(512, [1, 2]), alone, 'beside others')
})

t.test('sequences beside drafts become equally long where one pass takes less time', (t) => {
  const spared = new Set([0, 1, 2, 3, 4])
  const cells = {
    length: () => 9,
    canSpare: (slot: number) => spared.has(slot),
    rollBack: () => {},
  }
  const decode = (slot: number) => ({ slot, position: 9, tokens: [1], outputs: [9] })
  const verify = (slot: number, drafts: number) => ({
    ...decode(slot),
    tokens: Array.from({ length: 1 + drafts }, () => 1),
    outputs: Array.from({ length: 1 + drafts }, (_, nth) => 9 + nth),
    drafts,
  })
  const make = (batchSize = 64, kvUnified = false) =>
    new BatchFiller({ cells, limits: { slots: 5, batchSize }, kvUnified }, new PassCosts())
  const lengths = (filler: BatchFiller, batch: readonly BatchItem[]) =>
    filler.filled(batch).map(({ slot, tokens }) => [slot, tokens.length])
  const between = [verify(0, 1), decode(1), verify(2, 1), verify(4, 1)]
  const asTheyAre = between.map(({ slot, tokens }) => [slot, tokens.length])
  const equal = [0, 1, 2, 4, 3].map((slot) => [slot, 2])
  t.strictSame(lengths(make(), between), equal, 'the idle slot between, too')
  t.strictSame(lengths(make(9), between), asTheyAre, 'no room in the batch')
  t.strictSame(lengths(make(64, true), between), asTheyAre, 'one pass anyway')
  t.strictSame(lengths(make(), [decode(0), verify(1, 20), decode(2)]).at(0), [0, 1], 'too long')
  const [prompt] = [{ ...decode(3), tokens: [1, 2, 3] }]
  t.strictSame(lengths(make(), [...between, prompt]).slice(0, 4), asTheyAre, 'a prompt is beside')
  spared.delete(3)
  t.strictSame(lengths(make(), between), asTheyAre, 'nothing can be taken off a slot')
  spared.add(3)

  const learned = make()
  for (let step = 0; step < 50; step++) {
    // Each token takes a millisecond, and passes nothing.
    for (const batch of [between, [verify(0, 3), decode(1)], [verify(1, 1), verify(3, 5)]]) {
      const tokens = batch.reduce((sum, item) => sum + item.tokens.length, 0)
      learned.onComputed(batch, batch, tokens)
    }
  }
  t.strictSame(lengths(learned, between), asTheyAre, 'by what was learned')
  t.end()
})

t.test('chunks beside each other become equally long where that takes less time', async (t) => {
  const spared = new Set([0, 1, 2, 3])
  const cells = {
    length: () => 0,
    canSpare: (slot: number) => spared.has(slot),
    rollBack: () => {},
  }
  const tokens = (count: number) => Array.from({ length: count }, (_, nth) => 262 + (nth % 20))
  const chunk = (slot: number, count: number) => ({
    slot,
    position: 0,
    tokens: tokens(count),
    outputs: [],
  })
  const lengths = (
    counts: readonly number[],
    more: Partial<Record<'room' | 'tile', number>> = {},
  ) => {
    const { room = 64, tile } = more
    const limits = { slots: 4, batchSize: counts.reduce((sum, count) => sum + count, room) }
    const filler = new BatchFiller({ cells, limits, kvUnified: false }, new PassCosts(tile))
    const batch = counts.map((count, slot) => chunk(slot, count))
    return filler.filled(batch).map((item) => item.tokens.length)
  }
  t.strictSame(lengths([20, 17, 19]), [20, 20, 20])
  t.strictSame(lengths([20, 90]), [20, 90], 'so many that a pass is cheaper')
  t.strictSame(lengths([90, 20, 19, 18]), [90, 20, 20, 20], 'as long as another one')
  t.strictSame(lengths([20, 17, 1]), [20, 20, 1], 'a decode stays one')
  t.strictSame(
    lengths([20, 17, 19], { room: 3 }),
    [20, 17, 19].map((count) => Math.max(19, count)),
  )
  t.strictSame(lengths([20, 17], { room: 2 }), [20, 17], 'no room in the batch')
  t.strictSame(lengths([66, 63, 62], { tile: 64 }), [66, 63, 63], 'none becomes a tile')
  const limits = { slots: 4, batchSize: 128 }
  const again = new BatchFiller({ cells, limits, kvUnified: false }, new PassCosts(64)).filled([
    { ...chunk(0, 20), isReplay: true },
    { ...chunk(1, 53), position: 630, isReplay: true },
  ])
  t.strictSame(
    again.map((item) => item.tokens.length),
    [20, 53],
    'nothing is put behind an answer that is computed again',
  )
  spared.delete(0)
  t.strictSame(lengths([17, 20, 19]), [17, 20, 20], 'nothing can be taken off a slot')
  spared.add(0)
  const onGpu = new PassCosts(undefined, true)
  const filler = new BatchFiller(
    { cells, limits: { slots: 4, batchSize: 512 }, kvUnified: false },
    onGpu,
  )
  const batch = [chunk(0, 110), chunk(1, 80)]
  t.strictSame(
    filler.filled(batch).map((item) => item.tokens.length),
    [110, 110],
  )
  for (let nth = 0; nth < 20; nth++) {
    // 2 ms for a pass, and as much for a token
    for (const counts of [[30], [60], [40, 20]]) {
      const items = counts.map((count, slot) => chunk(slot, count))
      const ms = counts.reduce((sum, count) => sum + 2 + 2 * count, 0)
      filler.observePass(items, { order: [...counts.keys()], tokens: 0, isDecode: false }, ms)
    }
  }
  t.equal(filler.filled(batch), batch, 'by what was learned')

  const serve = async (counts: readonly (readonly number[])[]) => {
    const backend = await openTiny(t, { slots: 3, contextSize: 64, batchSize: 128 })
    const drawn: unknown[] = []
    const sampler = backend.createSampler(sampling(greedy), [])
    const items = (position: number) =>
      counts.map((step) =>
        step.map((slot) => {
          const before = position + 20 + slot
          const one =
            position === 0
              ? { position, tokens: tokens(before) }
              : { position: before - 1, tokens: [270] }
          return { ...one, slot, outputs: [one.position + one.tokens.length - 1], sampler }
        }),
      )
    for (const step of [...items(0), ...items(1)]) {
      const { outputs } = await backend.step(step)
      for (const [nth, [output]] of outputs.entries()) drawn.push([step[nth]!.slot, output])
    }
    return drawn
  }
  t.strictSame(await serve([[0, 1, 2]]), await serve([[0], [1], [2]]), 'answers are as alone')
})

t.test('drafts are computed with decodes, and prompts apart', (t) => {
  const cells = { length: () => 0, freeTokens: undefined } as unknown as SlotCells
  const vocabulary = { check: () => {} } as unknown as Vocabulary
  const sampler = {} as NonNullable<BatchItem['sampler']>
  const item = (slot: number, count: number, drafts = 0): BatchItem => ({
    slot,
    position: 0,
    tokens: Array.from({ length: count }, () => 1),
    outputs: Array.from({ length: drafts + 1 }, (_, nth) => count - 1 - drafts + nth),
    sampler,
    ...(drafts > 0 && { drafts }),
  })
  const orders = (kvUnified: boolean, ...batch: readonly BatchItem[]) =>
    orderBatch(batch, cells, vocabulary, { batchSize: 64, contextSize: 64 }, kvUnified).map(
      ({ order, isDecode }) => [order, isDecode],
    )
  const [decode, drafted, prompt] = [item(0, 1), item(1, 3, 2), item(2, 8)]
  const [apart, together] = [
    [
      [[0, 1], false],
      [[2], false],
    ],
    [[[0, 1, 2], false]],
  ]
  t.strictSame(orders(false, decode, drafted, prompt), apart)
  t.strictSame(orders(true, decode, drafted, prompt), together)
  t.strictSame(orders(false, item(0, 3), drafted, item(2, 3)), together, 'made equally long')
  t.strictSame(orders(false, decode, item(1, 1)), [[[0, 1], true]])
  t.end()
})

t.test('what is computed along stays within the batch', (t) => {
  const cells = { length: () => 300, canSpare: () => true, rollBack: () => {} }
  const decode = (slot: number) => ({ slot, position: 300, tokens: [1], outputs: [300] })
  const chunk = { slot: 3, position: 300, tokens: Array.from({ length: 50 }, () => 1), outputs: [] }
  const batch = [decode(0), decode(2), chunk]
  const lengths = (batchSize: number) => {
    const parts = { cells, limits: { slots: 4, batchSize }, kvUnified: false }
    const items = new BatchFiller(parts, new PassCosts(64)).filled(batch)
    return items.map(({ slot, tokens }) => [slot, tokens.length])
  }
  t.strictSame(lengths(67), [
    [0, 1],
    [2, 1],
    [3, 64],
    [1, 1],
  ])
  t.strictSame(
    lengths(66),
    [
      [0, 1],
      [2, 1],
      [3, 64],
    ],
    'the tile leaves no room for the gap',
  )
  t.strictSame(
    lengths(65),
    [
      [0, 1],
      [2, 1],
      [3, 50],
      [1, 1],
    ],
    'no room for the tile',
  )
  t.strictSame(lengths(52), [
    [0, 1],
    [2, 1],
    [3, 50],
  ])
  t.end()
})

t.test('idle slots that are computed along hold what they held', async (t) => {
  const tokens = (count: number, from = 0): number[] =>
    Array.from({ length: count }, (_, index) => 262 + ((from + index) % 20))
  const serve = async (slots: readonly number[], full: readonly number[] = []) => {
    const backend = await openTiny(t, { slots: 4, contextSize: 64 })
    const sampler = backend.createSampler(sampling(greedy), [])
    for (const slot of [0, 1, 2, 3]) {
      const filled = tokens(full.includes(slot) ? 64 : 8, slot)
      await backend.step([{ slot, position: 0, tokens: filled, outputs: [] }])
    }
    const drawn: number[] = []
    for (let position = 8; position < 20; position++) {
      const item = { position, tokens: tokens(1, position), outputs: [position], sampler }
      const { outputs } = await backend.step(slots.map((slot) => ({ ...item, slot })))
      t.equal(outputs.length, slots.length)
      drawn.push(outputs[0]![0]!.token)
    }
    const goesOn = { slot: 1, position: 8, tokens: tokens(1), outputs: [8], sampler }
    const { outputs } = await backend.step([goesOn])
    return { drawn, idle: outputs[0]![0]!.token }
  }
  const alone = await serve([0])
  t.strictSame(await serve([0, 2]), alone)
  t.strictSame(await serve([0, 3], [2]), alone, 'not where a slot between has no room')
  const costs = { passes: { decode: [20, 2, 0] } }
  for (const native of ['ffi', 'addon'] as const) {
    for (const padBatches of [true, false]) {
      const backend = await openTiny(t, { native, padBatches })
      backend.recall?.(costs)
      t.equal(Math.round(backend.layoutMs!([0, 2])), padBatches ? 2 : 22, 'if they may be')
    }
  }
})

t.test('an engine goes on when a slot is full, also where another one left off', async (t) => {
  const open = async (kind: 'llama' | 'gemma3' | 'mamba', options = {}) => {
    const backend = await openTiny(t, { kind, slots: 2, contextSize: 64, ...options })
    const engine = createEngine({ backend, policy: firstComeFirstServed })
    return { backend, client: new LocalEngineClient(engine, new PluginRegistry(), systemRandom) }
  }
  const { client } = await open('llama')
  const prompt = { tokens: [1, ...Array.from({ length: 19 }, (_, index) => 262 + (index % 20))] }
  const ask = async (more: Partial<GenerateRequest>, temperature = 0): Promise<number[]> => {
    const settings = { temperature, seed: 3, ignoreEos: true }
    const request = { prompt, maxTokens: 200, sampling: settings, cache: false, ...more }
    const tokens: number[] = []
    for await (const event of client.submit(request)) {
      if (event.type === 'token') tokens.push(event.token)
    }
    return tokens
  }
  const short = await ask({})
  t.equal(short.length, 45)
  const [long, other] = await Promise.all([
    ask({ contextShift: { keep: 4 } }),
    ask({ contextShift: { keep: -1 } }, 1),
  ])
  t.equal(long.length, 200)
  t.same(long.slice(0, 45), short)
  t.equal(other.length, 200)
  t.ok(new Set(other.slice(100)).size > 50, 'no draw is made with the random numbers of another')
  for (const done of [30, 46, 120]) {
    const continued = { tokens: long.slice(0, done), elapsedMs: 1 }
    t.same(await ask({ contextShift: { keep: 4 }, continued }), long.slice(done))
  }
  t.same(await ask({ cache: true }), short, 'and shares nothing')
  await client.close()
  for (const [kind, options] of [
    ['gemma3', {}],
    ['mamba', {}],
    ['llama', { kvUnified: 'on' }],
    ['llama', { native: 'addon' }],
  ] as const) {
    const { backend, client } = await open(kind, options)
    t.equal(typeof backend.shift, 'undefined')
    const events = client.submit({ prompt, contextShift: {} })
    await t.rejects(events.next(), { code: 'unsupported', message: /cannot be shifted/ })
    await client.close()
  }
})
