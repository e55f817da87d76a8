import assert from 'node:assert/strict'
import type { EngineClient } from '@cllm/core'
import {
  assertFailed,
  endless,
  greedyRequest,
  readAll,
  readFirstToken,
  untilIdle,
} from './engine-client-rig.js'
import { check, type TestContext } from '../test-context.js'

const prompt = 'Once upon a time'

/** The checks of what `submit` gives. */
export async function checkStreams(t: TestContext, client: EngineClient): Promise<void> {
  await check(t, 'a stream is one start, the tokens, one end', async () => {
    const { events, tokens, error } = await readAll(
      client.submit({ ...greedyRequest(prompt, 9), id: 'ordered' }),
    )
    assert.equal(error, undefined)
    const types = events.map(({ type }) => type)
    assert.deepEqual(types, ['start', ...tokens.map(() => 'token'), 'end'])
    assert.equal(tokens.length, 9)
    const [start] = events
    const end = events.at(-1)
    assert(start?.type === 'start' && end?.type === 'end')
    assert.equal(start.id, 'ordered')
    assert.equal(end.reason, 'length')
    const { promptTokens, generatedTokens } = end.usage
    assert.deepEqual([promptTokens, generatedTokens], [start.promptTokens, 9], 'the usage')
  })

  await check(t, 'a stream is an iterator: it ends for good and can be left twice', async () => {
    const stream = client.submit(greedyRequest(prompt, 2))
    assert.equal(stream[Symbol.asyncIterator](), stream, 'it iterates itself')
    const pending = [1, 2, 3, 4, 5].map(async () => await stream.next())
    const types = (await Promise.all(pending)).map(({ value, done }) => done || value.type)
    assert.deepEqual(types, ['start', 'token', 'token', 'end', true], 'calls at once, in order')
    assert.deepEqual(await stream.next(), { done: true, value: undefined })
    for (let turn = 0; turn < 2; turn++) {
      assert.deepEqual(await stream.return?.(), { done: true, value: undefined })
    }
  })

  await check(t, 'the iterator throws a failure, also of validation, once', async () => {
    const stream = client.submit({ ...greedyRequest(prompt, 0) })
    const { error } = await readAll(stream)
    assert.equal(error?.code, 'invalid_request', 'the code of the failure')
    assert.equal(error.status, 400)
    assert.equal(error.details['field'], 'maxTokens', 'the details of the failure')
    assert.match(error.message, /maxTokens/)
    assert.deepEqual(await stream.next(), { done: true, value: undefined }, 'then it is over')
    const length = client.submit({ prompt: { tokens: [999_999] } })
    assertFailed(await readAll(length), 'invalid_token')
  })

  await check(t, 'ids are 32 hex digits by default, and each its own', async () => {
    const streams = [1, 2, 3].map(() => client.submit(greedyRequest(prompt, 1)))
    const contents = await Promise.all(streams.map(readAll))
    const ids = contents.map(({ events: [start] }) => (start?.type === 'start' ? start.id : ''))
    for (const id of ids) assert.match(id, /^[0-9a-f]{32}$/)
    assert.equal(new Set(ids).size, 3, 'the ids differ')
  })

  await check(t, 'an id under way is refused, and free again afterwards', async () => {
    const stream = client.submit({ ...greedyRequest(prompt, 150), id: 'twice' })
    await readFirstToken(stream)
    const second = await readAll(client.submit({ ...greedyRequest('x', 3), id: 'twice' }))
    assertFailed(second, 'duplicate_request')
    const { error } = await readAll(stream)
    assert.equal(error, undefined, 'the first one goes on')
    const third = await readAll(client.submit({ ...greedyRequest('x', 3), id: 'twice' }))
    assert.equal(third.tokens.length, 3)
  })

  await check(t, 'a seed draws the same again, another one something else', async () => {
    const draw = async (seed: number) => {
      const sampling = { temperature: 1, seed, ignoreEos: true }
      const { tokens } = await readAll(client.submit({ ...greedyRequest(prompt, 20), sampling }))
      return tokens
    }
    const [first, again, other] = await Promise.all([draw(7), draw(7), draw(8)])
    assert.equal(first?.length, 20)
    assert.deepEqual(first, again, 'the draws of one seed')
    assert.notDeepEqual(first, other)
  })

  await check(t, 'times out after its own limit', async () => {
    const content = await readAll(
      client.submit({ ...greedyRequest(prompt, endless), timeoutMs: 20 }),
    )
    assertFailed(content, 'timeout')
    await untilIdle(client)
  })

  await check(t, 'many at once get what each gets alone', async () => {
    const texts = Array.from({ length: 16 }, (_, index) => `request ${index}`)
    const ask = async (text: string) => await readAll(client.submit(greedyRequest(text, 8)))
    const together = await Promise.all(texts.map(ask))
    for (const [index, { tokens, error }] of together.entries()) {
      assert.equal(error, undefined)
      if (index % 8 !== 0) continue
      assert.deepEqual(tokens, (await ask(texts[index]!)).tokens, `request ${index}`)
    }
  })

  await check(t, 'a stream that is not read blocks no other and loses nothing', async () => {
    const slow = client.submit(greedyRequest(prompt, 120))
    const quick = await readAll(client.submit(greedyRequest(prompt, 150)))
    assert.equal(quick.tokens.length, 150)
    await untilIdle(client)
    const { tokens, events } = await readAll(slow)
    assert.deepEqual(tokens, quick.tokens.slice(0, 120), 'what was not read at once')
    assert.equal(events.at(-1)?.type, 'end')
  })
}
