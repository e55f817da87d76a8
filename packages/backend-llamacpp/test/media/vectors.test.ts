import { join } from 'node:path'
import type { BatchItem, MediaSpan, TokenId } from '@cllm/core'
import t, { type Test } from 'tap'
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
): Promise<TokenId[]> {
  const ids = prompt.map((token, index) =>
    media.some(({ start, length }) => index >= start && index < start + length)
      ? 1_000_000 + index
      : token,
  )
  const sampler = backend.createSampler(sampling({ temperature: 0 }), ids)
  const tokens = [...ids]
  let computed = 0
  while (tokens.length < prompt.length + 8) {
    const end = Math.min(computed + chunk, tokens.length)
    const within = media.flatMap(({ start, length, vectors }): MediaSpan[] => {
      const [from, to] = [Math.max(start, computed), Math.min(start + length, end)]
      if (from >= to) return []
      const part = vectors.subarray((from - start) * width, (to - start) * width)
      return [{ start: from - computed, length: to - from, vectors: part }]
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
