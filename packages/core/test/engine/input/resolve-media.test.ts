import 'reflect-metadata'
import type { GenerateRequest, MediaSpan } from '@cllm/core'
import { array, assert, integer, property } from 'fast-check'
import t from 'tap'
import { EMBEDDINGS, type Embeddings } from '../../../src/engine/features/embeddings.js'
import { chunkEnd, mediaWithin } from '../../../src/engine/input/resolve-media.js'
import { PartQueue } from '../../../src/engine/input/resolve-prompt.js'
import { leftovers, nothingLeft, rig } from '../../rig.js'

const image = (text: string) => Buffer.from(text).toString('base64')
const asks = (content: string, ...images: string[]): GenerateRequest => {
  const media = images.map((data) => ({ type: 'image' as const, at: 3, data, field: 'messages.0' }))
  const message = { role: 'user', content, ...(images.length > 0 && { media }) }
  const sampling = { temperature: 0, ignoreEos: true }
  return { prompt: { messages: [message] }, maxTokens: 6, sampling }
}

t.test('an image is computed in its place, a second time from what slots hold', async (t) => {
  const made = rig({ images: true, batchSize: 16, slots: 2 })
  const text = 'See this picture and tell'
  const first = await made.ask(asks(text, image('a cat on a mat')))
  const again = await made.ask(asks(text, image('a cat on a mat')))
  const other = await made.ask(asks(text, image('a dog on a log')))
  const none = await made.ask(asks(text))
  const two = await made.ask(asks(text, image('a cat on a mat'), image('a')))
  const tokens = none.end?.usage.promptTokens ?? 0
  t.equal(first.error, undefined)
  t.equal(first.text, again.text, 'the same image has the same answer')
  t.not(first.text, other.text, 'another image has another one')
  t.equal(first.end?.usage.promptTokens, tokens + 8)
  t.equal(two.end?.usage.promptTokens, tokens + 9)
  t.ok((again.end?.usage.cachedTokens ?? 0) > tokens, 'it is found behind the image')
  t.ok((other.end?.usage.cachedTokens ?? 99) < tokens, 'and with another one before it')
  t.same(leftovers(made), nothingLeft, 'each chunk has the vectors of its tokens')
})

t.test('what cannot be shown is refused and disturbs nobody', async (t) => {
  const made = rig({ images: true, contextShift: true, contextSize: 48 })
  const refused = async (request: GenerateRequest) => (await made.ask(request)).error
  const bad = await refused(asks('See this', image('bad')))
  t.match(bad, { code: 'invalid_media', message: /^messages\.0: .*got bad/ })
  t.match(await refused({ ...asks('See', image('a')), contextShift: {} }), { code: 'unsupported' })
  t.match(await refused({ ...asks('See', image('a')), promptLogprobs: 1 }), { code: 'unsupported' })
  const many = Array.from({ length: 6 }, () => image('eight letters'))
  t.match(await refused(asks('See', ...many)), { code: 'prompt_too_long' })
  const shown = {
    role: 'user',
    content: 'See',
    media: [{ type: 'image' as const, at: 3, data: image('a') }],
  }
  const messages = [shown, ...Array.from({ length: 49 }, () => ({ role: 'user', content: '' }))]
  const tooMany = await refused({ ...asks('See'), prompt: { messages } })
  const why = { code: 'prompt_too_long', message: /at least 50 tokens/ }
  t.match(tooMany, why, 'more messages than a slot has tokens are not written')
  const prompt = { text: 'See', media: [{ type: 'image' as const, at: 3, data: image('a') }] }
  const atEnd = { code: 'invalid_request', message: /a text behind the last image/ }
  t.match(await refused({ ...asks('See'), prompt }), atEnd)
  const behind = await made.ask({ ...asks('See'), prompt: { ...prompt, text: 'See it' } })
  t.equal(behind.error, undefined, 'a plain text may have one, too')
  const blind = await rig().ask(asks('See this', image('a')))
  t.match(blind.error, { code: 'unsupported', message: /without an encoder/ })
  t.same(leftovers(made), nothingLeft)
})

t.test('an input with an image has an embedding of its own', async (t) => {
  const made = rig({ images: true, embeddingSize: 4 })
  const { features } = made.engine
  const input = (data: string, text = 'See this') => ({
    text,
    media: [{ type: 'image' as const, at: 3, data: image(data) }],
  })
  const embed = async (...given: Parameters<Embeddings['embed']>) =>
    await features.get(EMBEDDINGS).embed(...given)
  const [one, again, other, text] = await Promise.all(
    [input('a cat'), input('a cat'), input('a dog'), { text: 'See this' }].map((one) => embed(one)),
  )
  t.same(one, again)
  t.notSame(one!.vector, other!.vector)
  t.equal(one!.promptTokens, text!.promptTokens + 5)
  t.same(made.backend.media!.encoded, ['a cat', 'a dog'], 'encoded once')
  await t.rejects(embed(input('bad')), { code: 'invalid_media' })
  const leaving = new AbortController()
  const left = embed(input('late'), { signal: leaving.signal })
  leaving.abort()
  await t.rejects(left, { code: 'cancelled' })
  Object.assign(made.backend, { embedMixed: async () => [] })
  const none = { code: 'backend_failed', message: /a vector of numbers for each of 1 inputs/ }
  await t.rejects(embed(input('a cat')), none)
  Object.assign(made.backend, { embedMixed: undefined })
  await t.rejects(embed(input('a cat')), { code: 'unsupported', message: /are of texts/ })
  t.same(leftovers(made), nothingLeft)
})

t.test('a text stands for what cannot be read, where there is one', async (t) => {
  const made = rig({ images: true })
  const counted = async (content: string, ...files: string[]) => {
    const media = files.map((file) => ({
      type: 'image' as const,
      at: 3,
      data: image(file),
      otherwise: `[no ${file}]`,
    }))
    const messages = [{ role: 'tool', content, media }]
    const { error, end } = await made.ask({ ...asks(''), prompt: { messages } })
    t.equal(error, undefined)
    return end?.usage.promptTokens
  }
  const told = await counted('See[no bad][no unreadable] this', 'a')
  t.equal(await counted('See this', 'bad', 'a', 'unreadable'), told)
  t.same(leftovers(made), nothingLeft)
})

t.test('chunks of any lengths have together the vectors of the whole', async (t) => {
  const span = (start: number, length: number): MediaSpan => ({
    start,
    length,
    vectors: Float32Array.from({ length: 2 * length }, (_, index) => 1000 * start + index),
  })
  const media = [span(3, 5), span(8, 1), span(12, 4)]
  assert(
    property(array(integer({ min: 1, max: 9 }), { minLength: 20, maxLength: 20 }), (lengths) => {
      const found: number[] = []
      let first = 0
      for (const length of lengths) {
        const { media: parts = [] } = mediaWithin(media, first, first + length)
        for (const { start, length: count, vectors } of parts) {
          if (start < 0 || start + count > length || vectors.length !== 2 * count) return false
          found.push(...vectors)
        }
        first += length
      }
      return found.join() === media.flatMap(({ vectors }) => [...vectors]).join()
    }),
  )
  t.pass('none is lost or doubled')
})

t.test('a chunk ends before or behind what is computed at once', async (t) => {
  const span = (start: number, isWhole: boolean): MediaSpan => ({
    start,
    length: 5,
    vectors: new Float32Array(5),
    shape: { length: 5, isWhole },
  })
  const media = [span(3, true), span(10, false)]
  const ends = (first: number) => [3, 4, 8, 9, 12].map((end) => chunkEnd(media, first, end, true))
  t.same(ends(0), [3, 3, 8, 9, 12])
  t.same(ends(3), [3, 8, 8, 9, 12])
  const beside = (first: number, ...wanted: number[]) =>
    wanted.map((end) => chunkEnd(media, first, end, false))
  t.same(beside(0, 2, 3, 4, 12), [2, 3, 3, 3], 'beside others it has text or vectors alone')
  t.same(beside(3, 4, 8, 9), [8, 8, 8])
  t.same(beside(8, 9, 10, 20), [9, 10, 10])
  t.same(beside(10, 12, 20), [12, 15])
  const [part] = mediaWithin(media, 12, 20).media ?? []
  t.match(part, { start: 0, length: 3, shape: { skipped: 2 } })
})

t.test('an image that takes long is told of each second', async (t) => {
  const due: (() => void)[] = []
  let now = 0
  let cancelled = 0
  const clock = {
    now: () => now,
    wall: () => now,
    at: (_at: number, callback: () => void) => {
      due.push(callback)
      return () => void cancelled++
    },
  }
  const told: unknown[] = []
  const observers = { tell: (...call: unknown[]) => told.push(call) }
  const queue = new PartQueue(observers as never, clock)
  let finish = () => {}
  const work = queue.during(new Promise<void>((resolve) => (finish = resolve)))
  for (now = 1000; now <= 3000; now += 1000) due.shift()!()
  finish()
  await work
  t.same(told, [
    ['onTokenized', 0],
    ['onTokenized', 1000],
    ['onTokenized', 2000],
    ['onTokenized', 3000],
  ])
  t.equal(cancelled, 1)
})
