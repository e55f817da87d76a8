import { type AddressedEvent, CllmError, type GenerateEvent } from '@cllm/core'
import * as fc from 'fast-check'
import { getEventListeners } from 'node:events'
import t from 'tap'
import { EventStreams } from '../../src/remote/event-streams.js'

const tokenEvent = (id: string, token: number): AddressedEvent => ({
  id,
  event: { type: 'token', token, text: `${token}` },
})
const endEvent = (id: string): AddressedEvent => ({
  id,
  event: { type: 'end', reason: 'stop', text: '', usage: {}, timings: {} } as GenerateEvent,
})
const nothing = { submit: () => {}, cancel: () => {} }

t.test('every stream gets each of its events once and in order', async (t) => {
  let parallel = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(3), { minLength: 1, maxLength: 60 }),
      fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 10 }),
      fc.nat(3),
      async (owners, batchSizes, reads) => {
        const streams = new EventStreams()
        const ids = ['a', 'b', 'c', 'd']
        const readers = ids.map(async (id) => {
          const stream = streams.open(id, undefined, nothing)
          // Some events are asked for before they come, `reads` at once.
          const early = await Promise.all(Array.from({ length: reads }, () => stream.next()))
          const events = early.flatMap(({ done, value }) => (done === true ? [] : [value]))
          for await (const event of stream) events.push(event)
          return events.map((event) => (event.type === 'token' ? event.token : event.type))
        })
        const events = owners.map((owner, index) => tokenEvent(ids[owner] ?? 'a', index))
        events.push(...ids.map(endEvent))
        for (let at = 0, batch = 0; at < events.length; batch++) {
          const size = batchSizes[batch % batchSizes.length] ?? 1
          streams.dispatch(events.slice(at, at + size))
          at += size
          if (batch % 2 === 0) await Promise.resolve()
        }
        const found = await Promise.all(readers)
        for (const [owner, events] of found.entries()) {
          const tokens = owners.flatMap((its, index) => (its === owner ? [index] : []))
          const expected = [...tokens, 'end'].join()
          if (events.join() !== expected) throw new Error(`${events.join()}, not ${expected}`)
        }
        if (reads > 1) parallel++
      },
    ),
    { numRuns: 200 },
  )
  t.ok(parallel > 20, 'also to several reads at once')
})

t.test('a stream that is left cancels its request, once, and frees its id', async (t) => {
  const streams = new EventStreams()
  const cancels: (string | undefined)[] = []
  const open = (signal?: AbortSignal) =>
    streams.open('x', signal, { ...nothing, cancel: (reason) => void cancels.push(reason) })
  const left = open()
  streams.dispatch([tokenEvent('x', 1)])
  await left.return?.()
  await left.return?.()
  t.equal(cancels.length, 1)
  t.match(await left.next(), { done: true }, 'what had come is dropped')

  const controller = new AbortController()
  const aborted = open(controller.signal)
  streams.dispatch([tokenEvent('x', 2)])
  controller.abort()
  t.match(await aborted.next(), { value: { token: 2 } }, 'what had come can still be read')
  await t.rejects(aborted.next(), { code: 'cancelled' })
  t.match(await aborted.next(), { done: true }, 'the error comes once')
  t.equal(cancels.length, 2)

  const ended = open(new AbortController().signal)
  streams.dispatch([endEvent('x'), tokenEvent('x', 3)])
  t.match(await ended.next(), { value: { type: 'end' } })
  t.match(await ended.next(), { done: true }, 'nothing follows the end')
  await ended.return?.()
  t.equal(cancels.length, 2, 'a request that has ended is not cancelled')
})

t.test('streams that cannot begin', async (t) => {
  const streams = new EventStreams()
  const first = streams.open('x', undefined, nothing)
  let submits = 0
  const request = { ...nothing, submit: () => void submits++ }
  await t.rejects(streams.open('x', undefined, request).next(), { code: 'duplicate_request' })
  await t.rejects(streams.open('y', AbortSignal.abort(), request).next(), { code: 'cancelled' })
  t.equal(submits, 0, 'neither was submitted')
  const failing = () => {
    throw new CllmError('engine_unavailable', 'gone')
  }
  const { signal } = new AbortController()
  await t.rejects(streams.open('y', signal, { ...nothing, submit: failing }).next(), {
    code: 'engine_unavailable',
  })
  t.equal(getEventListeners(signal, 'abort').length, 0, 'its listener is removed')
  streams.dispatch([tokenEvent('x', 1), endEvent('x')])
  t.match(await first.next(), { value: { token: 1 } }, 'the first one goes on')
})

t.test('failAll ends every open stream, and pending reads', async (t) => {
  const streams = new EventStreams()
  const [one, two] = ['a', 'b'].map((id) => streams.open(id, undefined, nothing))
  const pending = one?.next()
  streams.dispatch([tokenEvent('b', 7)])
  streams.failAll(new CllmError('engine_unavailable', 'gone'))
  await t.rejects(pending!, { code: 'engine_unavailable' })
  t.match(await two?.next(), { value: { token: 7 } }, 'what had come can still be read')
  await t.rejects(two!.next(), { code: 'engine_unavailable' })
  t.match(await streams.open('a', undefined, nothing).return?.(), { done: true }, 'ids are free')
})
