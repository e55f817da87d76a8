import assert from 'node:assert/strict'
import { type EngineClient, CllmError, defined } from '@cllm/core'
import {
  assertFailed,
  endless,
  greedyRequest,
  readAll,
  readFirstToken,
  untilIdle,
} from './engine-client-rig.js'
import { check, type TestContext } from '../test-context.js'

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
