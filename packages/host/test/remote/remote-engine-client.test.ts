import { getEventListeners } from 'node:events'
import {
  type AddressedEvent,
  CllmError,
  type EngineClient,
  type GenerateEvent,
  type GenerateRequest,
  PluginRegistry,
  SimulatedClock,
  createEngine,
  definePolicy,
} from '@cllm/core'
import {
  type FromEngine,
  LocalEngineClient,
  RemoteEngineClient,
  type ToEngine,
  hostEngine,
} from '@cllm/host'
import { drive, fakeTokenIds, firstComeFirstServed, runUntilIdle } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { z } from 'zod'
import { engineCalls } from '../../src/remote/engine-calls.js'
import { EventStreams } from '../../src/remote/event-streams.js'
import { channels } from '../fake-process.js'
import {
  type Answer,
  WatchedBackend,
  collect,
  counting,
  greedy,
  leftovers,
  nothingLeft,
  promptOf,
} from '../../../core/test/rig.js'

function policies(): PluginRegistry {
  const registry = new PluginRegistry()
  const second = definePolicy({
    name: 'second',
    doc: 'Has a size.',
    options: z.object({ size: z.number().default(5) }),
    create(options) {
      if (options.size === 0) throw new CllmError('invalid_policy', 'size: too small')
      return { ...firstComeFirstServed, name: 'second', options }
    },
  })
  registry.registerPolicy(second)
  const create = () => ({ ...firstComeFirstServed, name: 'first' })
  registry.registerPolicy({ name: 'first', doc: 'Has no options.', create })
  return registry
}

function engineParts() {
  const clock = new SimulatedClock(1000)
  const endProbability = 0.02
  const backend = new WatchedBackend({ clock, stepMs: () => 10, endProbability, slots: 2 })
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock, random: counting() })
  return { clock, backend, engine }
}

function local() {
  const made = engineParts()
  const client: EngineClient = new LocalEngineClient(made.engine, policies(), counting())
  return { ...made, client }
}

function remote() {
  const made = engineParts()
  const { here, there } = channels()
  const client = new RemoteEngineClient(here, counting())
  hostEngine(made.engine, policies(), there)
  return { ...made, client, here, there }
}

const requests: readonly GenerateRequest[] = [
  greedy(promptOf(30), 20),
  { prompt: { text: 'Once upon a time' }, sampling: { temperature: 1, seed: 7 }, maxTokens: 50 },
  { prompt: { text: 'Once upon a time' }, maxTokens: 50 },
  {
    prompt: { messages: [{ role: 'user', content: '€ 😀 <|im_end|>' }] },
    stop: [' the', 'a'],
    sampling: { temperature: 0.7, topK: 40, logitBias: [[fakeTokenIds.endOfSequence, 3]] },
    timeoutMs: 10_000,
  },
  { prompt: { text: 'x' }, timeoutMs: 5 },
  { prompt: { text: '' } },
  { prompt: { text: 'x' }, maxTokens: 0 },
  { prompt: { tokens: promptOf(257) } },
  { prompt: { tokens: [300] } },
]

const shownAnswer = ({ events, error, text }: Answer) => ({
  events,
  text,
  error: error?.serialize(),
})

t.test('the same answers as the engine in this process gives', async (t) => {
  const all = async ({ client, clock }: { client: EngineClient; clock: SimulatedClock }) => {
    const answers = requests.map((request, index) =>
      collect(client.submit({ ...request, id: `r${index}` })),
    )
    const left = (async () => {
      for await (const event of client.submit({ ...greedy(promptOf(9), 99), id: 'left' })) {
        if (event.type === 'token') break
      }
    })()
    clock.at(1055, () => client.cancel('r0'))
    const done = await drive(clock, Promise.all(answers))
    await drive(clock, left)
    await runUntilIdle(clock)
    return { answers: done.map(shownAnswer), statistics: await client.statistics() }
  }
  const here = local()
  const there = remote()
  const expected = await all(here)
  t.same(await all(there), JSON.parse(JSON.stringify(expected)))
  const codes = expected.answers.map(({ error }) => error?.code)
  t.same(codes, [
    'cancelled',
    undefined,
    undefined,
    undefined,
    'timeout',
    'invalid_request',
    'invalid_request',
    'prompt_too_long',
    'invalid_token',
  ])
  t.match(expected.statistics.requests, { done: 3, cancelled: 2, timed_out: 1, failed: 4 })
  for (const made of [here, there]) t.match(leftovers(made), nothingLeft)
})

t.test('one message per step', async (t) => {
  const { client, clock, backend, there } = remote()
  const answers = [1, 2].map((n) => collect(client.submit(greedy(promptOf(9, n), 5))))
  await drive(clock, Promise.all(answers))
  const messages = there.sent.filter(({ type }) => type === 'events')
  t.equal(messages.length, 2 + backend.steps.length, 'two starts, and one for each step')
  t.equal(there.sent[0]?.type, 'ready')
})

t.test('calls', async (t) => {
  const here = local()
  const there = remote()
  const messages = [{ role: 'user', content: 'hi <|im_end|>' }]
  const calls: ((client: EngineClient) => Promise<unknown>)[] = [
    (client) => client.tokenize('a<s>b'),
    (client) => client.tokenize('a<s>b', { addBos: false }),
    (client) => client.tokenize('a<s>b', { special: false }),
    (client) => client.detokenize([0, 100, 101]),
    (client) => client.applyTemplate(messages),
    (client) => client.applyTemplate(messages, { addGenerationPrompt: false }),
    (client) => client.info(),
    (client) => client.statistics(),
    (client) => client.getScheduler(),
    (client) => client.explain('nobody'),
    (client) => client.setScheduler('second', { size: 7 }),
    (client) => client.setScheduler('second'),
    (client) => client.getScheduler(),
    (client) => client.detokenize([999]),
    (client) => client.setScheduler('third'),
    (client) => client.setScheduler('second', { size: 0 }),
    (client) => client.drain(),
    (client) => client.close(),
  ]
  const results = async (client: EngineClient) => {
    const all: unknown[] = []
    for (const call of calls) {
      const result = call(client).catch((error: unknown) => {
        if (!(error instanceof CllmError)) throw error
        return error.serialize()
      })
      all.push((await drive(here.clock, result)) ?? 'nothing')
    }
    return all
  }
  const expected = await results(here.client)
  t.same(await results(there.client), JSON.parse(JSON.stringify(expected)))
  t.match(expected.slice(8), [
    {
      policy: 'first-come-first-served',
      options: {},
      available: [{ name: 'first' }, { name: 'second' }],
    },
    { code: 'request_not_found' },
    { policy: 'second', options: { size: 7 } },
    { policy: 'second', options: { size: 5 } },
    { policy: 'second', options: { size: 5 } },
    { code: 'invalid_token', details: { field: 'tokens', received: '999' } },
    { code: 'invalid_policy', message: /"third".*first, second/ },
    { code: 'invalid_policy', message: 'size: too small' },
    'nothing',
    'nothing',
  ])
  t.equal(there.engine.scheduler().policy.name, 'second')
  await t.rejects(there.backend.step([]), { message: /disposed/ })
  const after = await drive(there.clock, collect(there.client.submit(greedy([5], 1))))
  t.match(after.error, { code: 'shutting_down', status: 503 })
  await drive(there.clock, there.client.close())
})

t.test('calls at once are answered each', async (t) => {
  const { client } = remote()
  const texts = ['a', 'bb', 'ccc']
  const tokens = await Promise.all(texts.map((text) => client.tokenize(text, { addBos: false })))
  t.same(
    tokens.map(({ length }) => length),
    [1, 2, 3],
  )
})

t.test('only calls are called', async (t) => {
  const { here, there } = remote()
  t.same(
    engineCalls.toSorted(),
    ['applyTemplate', 'close', 'detokenize', 'drain', 'embed', 'explain', 'getScheduler', 'info']
      .concat('adapters', 'pieces', 'loadAdapter', 'unloadAdapter', 'noteService')
      .concat('activity', 'setScheduler', 'statistics', 'tokenize', 'slotAction', 'cache')
      .concat('programs')
      .sort(),
  )
  const names = ['constructor', 'submit', 'engine', '__proto__', '', 'toString']
  for (const [call, name] of names.entries()) {
    here.send({ type: 'call', call: 100 + call, name, arguments: [] } as unknown as ToEngine)
  }
  await new Promise((resolve) => setImmediate(resolve))
  const answers = there.sent.filter(({ type }) => type === 'error')
  t.match(
    answers,
    names.map((_, call) => ({
      call: 100 + call,
      error: { code: 'internal', message: /tokenize/ },
    })),
  )
  t.equal(answers.length, names.length)
})

t.test('who leaves is cancelled at the other end', async (t) => {
  const { client, clock, engine, backend, here } = remote()
  const controller = new AbortController()
  const request = greedy(promptOf(9), 200)
  const aborted = collect(client.submit(request, { signal: controller.signal }))
  const cancelled = collect(client.submit({ ...request, id: 'mine' }))
  t.match(await collect(client.submit({ ...request, id: 'mine' })), {
    error: { code: 'duplicate_request' },
  })
  await runUntilIdle(clock, 1025)
  controller.abort()
  client.cancel('mine')
  const answers = await drive(clock, Promise.all([aborted, cancelled]))
  for (const { error, tokens } of answers) {
    t.match(error, { code: 'cancelled' })
    t.equal(tokens.length, 2)
  }
  await runUntilIdle(clock)
  t.equal(clock.now(), 1030, 'both slots are free before the next step')
  t.equal(engine.statistics().requests.cancelled, 2)
  t.match(leftovers({ backend, engine }), nothingLeft)

  const sent = here.sent.length
  const never = client.submit(request, { signal: AbortSignal.abort() })
  t.match(await collect(never), { error: { code: 'cancelled' } })
  t.equal(here.sent.length, sent, 'what was aborted before is never sent')
})

t.test('the channel closes', async (t) => {
  const { client, clock, engine, backend, here, there } = remote()
  const answers = [1, 2, 3].map((n) => collect(client.submit(greedy(promptOf(9, n), 200))))
  await runUntilIdle(clock, 1025)
  const draining = client.drain()
  const refused = t.rejects(draining, { code: 'engine_unavailable', message: /it fell/ })
  here.break('it fell')
  there.break('the parent is gone')
  for (const [index, answer] of answers.entries()) {
    const { error, tokens } = await answer
    t.match(error, { code: 'engine_unavailable', status: 503, message: /it fell/ })
    t.equal(tokens.length, index < 2 ? 2 : 0, 'what came before can still be read')
  }
  await refused
  t.match(await collect(client.submit(greedy([5], 5))), { error: { code: 'engine_unavailable' } })
  await t.rejects(client.statistics(), { code: 'engine_unavailable' })
  await t.rejects(client.close(), { code: 'engine_unavailable' })
  t.doesNotThrow(() => client.cancel('r'))
  t.match(await client.info(), { model: { id: 'fake' } }, 'what is known is still known')

  await runUntilIdle(clock)
  t.equal(clock.now(), 1030, 'the engine ends what nobody waits for')
  t.match(engine.statistics(), { requests: { failed: 3 } })
  t.match(leftovers({ backend, engine }), nothingLeft)
})

t.test('before it is ready', async (t) => {
  const { here, there } = channels()
  const client = new RemoteEngineClient(here, counting())
  const made = engineParts()
  const early = collect(client.submit(greedy([5], 3)))
  const tokens = client.tokenize('abc')
  const info = client.info()
  const held: ToEngine[] = []
  there.onMessage((message) => held.push(message))
  await new Promise((resolve) => setImmediate(resolve))
  hostEngine(made.engine, policies(), there)
  for (const message of held.splice(0)) there.receive(message)
  t.match(await client.ready(), { limits: { slots: 2 } })
  t.match(await info, { model: { id: 'fake' } })
  t.equal((await tokens).length, 4)
  t.equal((await drive(made.clock, early)).tokens.length, 3, 'what was asked early is answered')

  const failing = channels()
  const other = new RemoteEngineClient(failing.here, counting())
  const waiting = collect(other.submit(greedy([5], 3)))
  const error = {
    code: 'model_invalid',
    message: 'that is a picture',
    details: { path: 'cat.png' },
  }
  failing.there.send({ type: 'failed', error } as FromEngine)
  await t.rejects(other.ready(), { ...error, status: 500 })
  await t.rejects(other.info(), error)
  failing.here.break('its process ended with code 1')
  t.match((await waiting).error, { code: 'engine_unavailable', message: /code 1/ })

  const dead = channels()
  const third = new RemoteEngineClient(dead.here, counting())
  dead.here.break('SIGKILL')
  await t.rejects(third.ready(), { code: 'engine_unavailable', message: /SIGKILL/ })
})

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
  let runs = 0
  let parallel = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.nat(3), { minLength: 1, maxLength: 60 }),
      fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1, maxLength: 10 }),
      fc.nat(3),
      async (owners, batchSizes, reads) => {
        runs++
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
  t.ok(parallel > runs / 10, 'also to several reads at once')
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
