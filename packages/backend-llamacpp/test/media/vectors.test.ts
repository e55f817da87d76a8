import { join } from 'node:path'
import { writeSyntheticModel } from '@cllm/gguf'
import type { BatchItem, MediaSpan, TokenId } from '@cllm/core'
import t, { type Test } from 'tap'
import type { LlamaCppBackend } from '../../src/llamacpp-backend.js'
import { LlamaCppStates } from '../../src/slots/llamacpp-states.js'
import type { SlotCells } from '../../src/slots/slot-cells.js'
import { openTiny, sampling } from '../open-tiny.js'
import { writeTinyModel } from '../tiny-models.js'

type Backend = Awaited<ReturnType<typeof openTiny>>

const prompt: readonly TokenId[] = [1, ...Array.from({ length: 40 }, (_, index) => 40 + 5 * index)]
const spans = [
  { start: 3, length: 9 },
  { start: 20, length: 4 },
]

/** Opens a model, and makes vectors of what it knows its tokens by. */
async function open(t: Test, kind: 'llama' | 'lfm2' | 'gemma3') {
  let embeddings = new Float32Array()
  const modelPath = join(t.testdir(), `${kind}.gguf`)
  await writeTinyModel(modelPath, kind, {}, [], (name, values) => {
    if (name === 'token_embd.weight') embeddings = values.slice()
  })
  const backend = await openTiny(t, { modelPath })
  const width = embeddings.length / backend.model.vocabularySize
  const vectorsOf = (tokens: readonly TokenId[]) =>
    Float32Array.from(
      tokens.flatMap((id) => [...embeddings.subarray(id * width, (id + 1) * width)]),
    )
  const media = spans.map(({ start, length }): MediaSpan => ({
    start,
    length,
    vectors: vectorsOf(prompt.slice(start, start + length)),
  }))
  return { backend, media, width }
}

/** Computes the prompt in chunks, with vectors in place of some tokens, and draws what follows. */
async function answer(
  backend: Backend,
  slot: number,
  media: readonly MediaSpan[],
  width: number,
  chunk: number,
  held = 0,
  params: Parameters<typeof sampling>[0] = {},
): Promise<TokenId[]> {
  const ids = prompt.map((token, index) =>
    media.some(({ start, length }) => index >= start && index < start + length)
      ? 1_000_000 + index
      : token,
  )
  const sampler = backend.createSampler(sampling({ temperature: 0, ...params }), ids)
  const tokens = [...ids]
  let computed = held
  while (tokens.length < prompt.length + 8) {
    const end = Math.min(computed + chunk, tokens.length)
    const within = media.flatMap(({ start, length, vectors, shape }): MediaSpan[] => {
      const [from, to] = [Math.max(start, computed), Math.min(start + length, end)]
      if (from >= to) return []
      const part = vectors.subarray((from - start) * width, (to - start) * width)
      const placed = shape === undefined ? {} : { shape: { ...shape, skipped: from - start } }
      return [{ start: from - computed, length: to - from, vectors: part, ...placed }]
    })
    const isLast = end === tokens.length
    const item: BatchItem = {
      slot,
      position: computed,
      tokens: tokens.slice(computed, end),
      outputs: isLast ? [end - 1] : [],
      ...(isLast && { sampler }),
      ...(within.length > 0 && { media: within }),
    }
    const { outputs } = await backend.step([item])
    computed = end
    if (isLast) tokens.push(outputs[0]![0]!.token)
  }
  sampler.dispose()
  return tokens.slice(prompt.length)
}

t.test('vectors of tokens say what the tokens say, in chunks of any length', async (t) => {
  for (const kind of ['llama', 'lfm2'] as const) {
    const { backend, media, width } = await open(t, kind)
    const plain = await answer(backend, 0, [], width, 64)
    for (const [index, chunk] of [64, 11, 7].entries()) {
      t.same(await answer(backend, index + 1, media, width, chunk), plain, `${kind}, ${chunk}`)
    }
  }
})

t.test('DRY looks past images for repetitions and breakers', async (t) => {
  const { backend, media, width } = await open(t, 'llama')
  const params = { dryMultiplier: 1, dryAllowedLength: 0, drySequenceBreakers: ['none of it'] }
  const drawn = await answer(backend, 0, media, width, 64, 0, params)
  t.notSame(drawn, await answer(backend, 1, media, width, 64))
})

t.test('other vectors say something else', async (t) => {
  const { backend, media, width } = await open(t, 'llama')
  const plain = await answer(backend, 0, [], width, 64)
  const other = media.map((span) => ({ ...span, vectors: span.vectors.map((value) => -value) }))
  t.notSame(await answer(backend, 1, other, width, 64), plain)
})

t.test('scores go to the items that asked, beside one that ends in an image', async (t) => {
  const { backend, media } = await open(t, 'llama')
  const sampler = backend.createSampler(sampling(), prompt)
  const text = { position: 0, tokens: prompt.slice(0, 5), outputs: [], sampler }
  const scores = { position: 0, tokens: prompt.slice(1, 5), top: 0 }
  const { scores: alone = [] } = await backend.step([{ ...text, slot: 0, scores }])
  const [span] = media
  const image = { slot: 1, position: 0, tokens: prompt.slice(3, 12), outputs: [] }
  const batch = [
    { ...image, media: [{ ...span!, start: 0 }] },
    { ...text, slot: 2, scores },
  ]
  const result = await backend.step(batch)
  t.equal(result.outputs.length, 2)
  t.same(result.scores?.[0], [])
  t.equal(result.scores?.[1]?.length, 4)
  const logprobs = (list: (typeof alone)[number] = []) =>
    list.map(({ logprob }) => logprob.toFixed(3))
  t.same(logprobs(result.scores?.[1]), logprobs(alone[0]))
  sampler.dispose()
})

t.test('a draw that fails ends no item beside it that ends in an image', async (t) => {
  const { backend, media } = await open(t, 'llama')
  const apply = (): void => {
    throw new Error('no draw')
  }
  const sampler = backend.createSampler(sampling(), prompt, prompt.length, [{ apply }])
  const image = { slot: 0, position: 0, tokens: prompt.slice(3, 12), outputs: [] }
  const { outputs, errors } = await backend.step([
    { ...image, media: [{ ...media[0]!, start: 0 }] },
    { slot: 1, position: 0, tokens: prompt.slice(0, 5), outputs: [4], sampler },
  ])
  t.same(outputs, [[], []])
  t.same([...errors!.keys()], [1])
  sampler.dispose()
})

t.test('a step that fails leaves the slots as they were', async (t) => {
  const { backend, media, width } = await open(t, 'llama')
  const [span] = media
  const wrong = { start: 0, length: 3, vectors: new Float32Array(7) }
  const sampler = backend.createSampler(sampling(), prompt)
  const first: BatchItem = {
    slot: 0,
    position: 0,
    tokens: prompt.slice(3, 12),
    outputs: [],
    media: [{ ...span!, start: 0 }],
  }
  const bad: BatchItem = { slot: 1, position: 0, tokens: [9, 9, 9], outputs: [], media: [wrong] }
  await t.rejects(backend.step([first, bad]), { code: 'backend_failed', message: /32 numbers/ })
  const text = prompt.slice(0, 5)
  const tail = { tokens: [999_999], outputs: [], position: 0, slot: 1 }
  await t.rejects(backend.step([first, tail]), { code: 'invalid_token' }, 'as the text behind')
  const { outputs } = await backend.step([
    { slot: 0, position: 0, tokens: text, outputs: [4], sampler },
  ])
  t.equal(outputs[0]?.length, 1, 'its slot is empty')
  sampler.dispose()
  t.ok(width > 0)
})

t.test('images with positions of their own, or read as a whole', async (t) => {
  const modelPath = join(t.testdir(), 'tiny-vl.gguf')
  await writeSyntheticModel({ like: 'tiny-vl', out: modelPath, seed: 1 })
  const backend = await openTiny(t, { modelPath })
  const width = 64
  const grid = (columns: number) =>
    spans.map(({ start, length }, nth): MediaSpan => {
      const vectors = Float32Array.from({ length: length * width }, (_, at) => Math.sin(at + nth))
      const positions = Math.max(columns, length / columns)
      return { start, length, vectors, shape: { length, columns, positions } }
    })
  const media = grid(2)
  media[0] = { ...media[0]!, shape: { length: 9, columns: 3, positions: 3 } }
  const whole = await answer(backend, 0, media, width, 64)
  t.notSame(await answer(backend, 1, grid(1), width, 64), whole, 'places matter')
  for (const chunk of [11, 7, 5]) {
    backend.release(1)
    t.same(await answer(backend, 1, media, width, chunk), whole, `in chunks of ${chunk}`)
  }
  t.equal(await backend.copyPrefix(1, 2, 22), 20, 'an image is not cut')
  t.same(await answer(backend, 2, media, width, 64, 20), whole, 'behind a copy of the first one')
  t.equal(backend.truncate(2, 40), 40)
  t.same(await answer(backend, 2, media, width, 64, 40), whole, 'behind both')
  t.equal(backend.truncate(2, 5), 3)
  t.same(await answer(backend, 2, media, width, 64, 3), whole, 'both again')

  const ids = [5, ...Array.from({ length: 9 }, () => 100_000), 7]
  const likelihood = async (slot: number, isWhole: boolean) => {
    backend.release(slot)
    const sampler = backend.createSampler(sampling({ temperature: 0 }), ids)
    const span = { ...media[0]!, start: 1, shape: { length: 9, columns: 3, positions: 3, isWhole } }
    const wanted = { outputs: [10], sampler, logprobs: 0 }
    const item = { slot, position: 0, tokens: ids, media: [span], ...wanted }
    const { outputs } = await backend.step([item])
    return outputs[0]?.[0]?.logprobs?.logprob
  }
  const causal = await likelihood(3, false)
  t.not(await likelihood(1, true), causal, 'its vectors see those behind them')
  t.equal(await likelihood(1, false), causal, 'those of the next one do not')
})

t.test('an embedding of vectors is that of the tokens in whose place they are', async (t) => {
  const { backend, media } = await open(t, 'llama')
  const { embedder } = (backend as LlamaCppBackend)['parts']
  const [text] = await backend.embed!([prompt])
  const tokens = prompt.map((token, index) => (index > 2 && index < 12 ? 1_000_000 : token))
  const isNear = (other: readonly number[]) =>
    text!.every((value, index) => Math.abs(value - other[index]!) < 1e-4)
  t.ok(isNear(await embedder.embedMixed(tokens, [media[0]!], [])))
  const other = { ...media[0]!, vectors: media[0]!.vectors.map((value) => -value) }
  t.notOk(isNear(await embedder.embedMixed(tokens, [other], [])))
  t.same((await backend.embed!([prompt]))[0], text, 'nothing of it is left')
  const long = Array.from({ length: 3000 }, () => 5)
  await t.rejects(embedder.embedMixed(long, media, []), { code: 'prompt_too_long' })
})

t.test('a saved slot knows the places of its images', async (t) => {
  const runs = [{ start: 3, length: 9, positions: 3, isGrid: true }]
  const held = new Uint8Array([1, 2, 3])
  const given: unknown[] = []
  const keys = [undefined, 'found']
  const cells = {
    canRead: () => true,
    canWrite: () => true,
    runs: () => runs,
    emptied() {},
    restored: (...call: unknown[]) => given.push(call) > 0,
  }
  const states = new LlamaCppStates({
    context: {
      async saveSequence(_slot, _partial, allocate) {
        const state = allocate(3)!.subarray(0, 3)
        state.set(held)
        return state
      },
      restoreSequence: async (_slot, state) => given.push(state) > 0,
    },
    cells: cells as unknown as SlotCells,
    cutsAnywhere: true,
    checkpointNeedsPrefix: true,
    placesRuns: true,
    key: async () => keys.shift() ?? (await Promise.reject(new Error('too many open files'))),
  })
  await t.rejects(states.key())
  t.equal(await states.key(), 'found', 'a file that could not be read once is read again')
  const state = await states.save(0)
  t.ok(await states.restore(1, state!, { tokens: 12 }))
  t.same(given, [held, [1, 12, false, runs]])
})
