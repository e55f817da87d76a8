import assert from 'node:assert/strict'
import { type EngineClient, CllmError, defined } from '@cllm/core'
import {
  assertFailed,
  endless,
  greedyRequest,
  readAll,
  readFirstToken,
  untilIdle,
} from './conformance-engine.js'
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

/** The checks of how requests are ended by their clients. */
export async function checkCancelling(t: TestContext, client: EngineClient): Promise<void> {
  const long = (id: string) => ({ ...greedyRequest('Once upon a time', endless), id })
  const submit = async (id: string, signal?: AbortSignal) => {
    const stream = client.submit(long(id), defined({ signal }))
    await readFirstToken(stream)
    return stream
  }
  /** Its report says that it was cancelled, and why. */
  const assertReport = async (id: string, reason?: string) => {
    await untilIdle(client)
    const { state, timeline } = await client.explain(id)
    assert.equal(state, 'cancelled', `the state of "${id}"`)
    const end = timeline.at(-1)
    assert(end?.type === 'end' && end.reason === 'cancelled')
    if (reason !== undefined) assert.equal(end.message, reason, 'the reason that the engine knows')
  }

  await check(t, 'leaving the iteration cancels', async () => {
    const { requests } = await client.statistics()
    for await (const event of client.submit(long('left'))) if (event.type === 'token') break
    await assertReport('left')
    const after = await client.statistics()
    assert.equal(after.requests.cancelled, requests.cancelled + 1, 'cancelled requests')
  })

  await check(t, 'return() ends a stream with a pending next()', async () => {
    const stream = await submit('returned')
    assert.deepEqual(await stream.return?.(), { done: true, value: undefined })
    assert.deepEqual(await stream.next(), { done: true, value: undefined })
    await assertReport('returned')
  })

  await check(t, 'a signal cancels, with its reason', async () => {
    const leaving = new AbortController()
    const stream = await submit('aborted', leaving.signal)
    leaving.abort(new CllmError('timeout', 'the reader fell asleep'))
    assertFailed(await readAll(stream), 'cancelled', 'the reader fell asleep')
    await assertReport('aborted', 'the reader fell asleep')

    const plain = new AbortController()
    const other = await submit('aborted plainly', plain.signal)
    plain.abort()
    assertFailed(await readAll(other), 'cancelled')
    await assertReport('aborted plainly')
  })

  await check(t, 'a signal that has aborted before cancels, too', async () => {
    const signal = AbortSignal.abort(new CllmError('cancelled', 'too late'))
    const content = await readAll(client.submit(long('never'), { signal }))
    assertFailed(content, 'cancelled', 'too late')
    assert.deepEqual(content.events, [])
    await untilIdle(client)
  })

  await check(t, 'a signal that aborts after the end does nothing', async () => {
    const leaving = new AbortController()
    const request = { ...greedyRequest('x', 3), id: 'ended' }
    const stream = client.submit(request, { signal: leaving.signal })
    const { error } = await readAll(stream)
    leaving.abort()
    assert.equal(error, undefined)
    assert.deepEqual(await stream.next(), { done: true, value: undefined })
    assert.equal((await client.explain('ended')).state, 'done')
  })

  await check(t, 'cancel ends by id, with its reason', async () => {
    const stream = await submit('by id')
    client.cancel('by id', 'an admin ended it')
    assertFailed(await readAll(stream), 'cancelled', 'an admin ended it')
    await assertReport('by id', 'an admin ended it')
    const other = await submit('without reason')
    client.cancel('without reason')
    assertFailed(await readAll(other), 'cancelled')
    await untilIdle(client)
  })

  await check(t, 'cancel reaches a request that waits, and no other', async () => {
    const running = [await submit('a'), await submit('b')]
    const waiting = readAll(client.submit(long('waits')))
    const last = client.submit(greedyRequest('the last', 4))
    client.cancel('waits', 'no need')
    client.cancel('unknown', 'no such request')
    assertFailed(await waiting, 'cancelled', 'no need')
    for (const stream of running) await stream.return?.()
    assert.equal((await readAll(last)).tokens.length, 4, 'what waited behind it goes on')
    await untilIdle(client)
  })
}
