import { type GenerateRequest, type TokenId, batchPriority, createEngine } from '@cllm/core'
import { FakeTokenizer, drive, firstComeFirstServed, runUntilIdle } from '@cllm/testing'
import { getEventListeners } from 'node:events'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import * as fc from 'fast-check'
import t from 'tap'
import type { Sequence } from '../../../src/engine/requests/sequence.js'
import { Expiry, WaitingQueue } from '../../../src/engine/requests/request-sets.js'
import {
  type Answer,
  collect,
  empty,
  expectedTokens,
  greedy,
  isDone,
  leftovers,
  nothingLeft,
  policyOf,
  promptOf,
  rig,
  watching,
} from '../../rig.js'
import { sequenceOf } from '../../sequences.js'

t.test('cancelling frees the slot before the next step', async (t) => {
  const { seen, policy } = watching()
  const made = rig({ slots: 1, batchSize: 16, policy })
  const { client, clock, run, engine } = made
  const prompt = promptOf(40)
  const first = collect(client.submit({ ...greedy(prompt, 50), id: 'first' }))
  const second = collect(client.submit({ ...greedy(promptOf(4, 1), 50), id: 'second' }))
  const third = collect(client.submit({ ...greedy(promptOf(4, 2), 3), id: 'third' }))
  const queued = collect(client.submit({ ...greedy(promptOf(4, 3), 3), id: 'queued' }))

  await runUntilIdle(clock, 1015)
  t.equal(engine.statistics().slots[0]?.state, 'prefilling', '16 of 40 tokens are computed')
  client.cancel('first')
  client.cancel('queued')
  client.cancel('queued')
  client.cancel('nobody')
  await runUntilIdle(clock, 1020)
  t.match(seen.at(-1), { now: 1020, free: 1, running: [], waiting: ['second', 'third'] })
  t.match((await first).error, { code: 'cancelled' })
  t.match((await queued).error, { code: 'cancelled' })

  await runUntilIdle(clock, 1045)
  t.equal(engine.statistics().slots[0]?.state, 'decoding')
  client.cancel('second')
  await runUntilIdle(clock, 1050)
  t.match(seen.at(-1), { now: 1050, free: 1, running: [], waiting: ['third'] })
  t.equal((await second).tokens.length, 2, 'the token of the step under way is discarded')
  t.equal((await run(third)).tokens.length, 3)
  await isDone(t, made)
  t.match(engine.statistics().requests, { done: 1, cancelled: 3, failed: 0, timed_out: 0 })
})

t.test(
  'streams that an engine lost go before requests that wait for their first token',
  async (t) => {
    const { seen, policy } = watching()
    const made = rig({ slots: 1, batchSize: 50, policy })
    const { client, clock, run, backend } = made
    const prompt = promptOf(200)
    const expected = expectedTokens(backend, prompt, 9)
    const submit = (id: string, done = 0, priority = 0) => {
      const continued = { tokens: expected.slice(0, done), elapsedMs: 5 }
      return collect(client.submit({ ...greedy(prompt, 9), id, continued, priority }))
    }
    const first = submit('first')
    await runUntilIdle(clock, 1005)
    const all = [
      submit('line', 3, batchPriority),
      submit('fresh'),
      submit('one', 3),
      submit('other', 5),
    ]
    const answers = await run(Promise.all([first, ...all]))
    t.same(
      answers.map(({ tokens }) => tokens),
      [0, 3, 0, 3, 5].map((done) => expected.slice(done)),
    )
    const whole = seen.filter(({ waiting }) => waiting.length === 4).at(-1)
    t.same(whole?.waiting, ['one', 'other', 'line', 'fresh'], 'held until the prefix was there')
    await isDone(t, made)
  },
)

t.test('a stream that another engine began has to fit a slot with its tokens', async (t) => {
  const made = rig({ contextSize: 64 })
  const { client, run, backend } = made
  const prompt = promptOf(50)
  const expected = expectedTokens(backend, prompt, 15)
  const ask = async (done: number) => {
    const continued = { tokens: expected.slice(0, done), elapsedMs: 5 }
    return await run(collect(client.submit({ ...greedy(prompt, 20), continued })))
  }
  t.same((await ask(14)).tokens, expected.slice(14), 'its last token needs no place')
  t.match((await ask(15)).error, { code: 'prompt_too_long', details: { promptTokens: 65 } })
  await isDone(t, made)
})

t.test('clients that leave', async (t) => {
  const made = rig()
  const { client, clock, run, engine, backend } = made
  const request = greedy(promptOf(9), 50)

  const leaving = (async () => {
    let tokens = 0
    for await (const event of client.submit(request)) {
      if (event.type === 'token' && ++tokens === 2) break
    }
  })()
  await run(leaving)
  await runUntilIdle(clock)
  t.equal(engine.statistics().requests.cancelled, 1)
  await isDone(t, made)

  const steps = backend.steps.length
  const aborted = AbortSignal.abort()
  t.match((await run(collect(client.submit(request, { signal: aborted })))).error, {
    code: 'cancelled',
  })
  t.equal(backend.steps.length, steps, 'nothing was computed')
  t.equal(engine.statistics().requests.cancelled, 1, 'nor was the engine told')

  const controller = new AbortController()
  const answer = collect(client.submit(request, { signal: controller.signal }))
  await runUntilIdle(clock, clock.now() + 25)
  controller.abort()
  const { tokens, error } = await run(answer)
  t.match(error, { code: 'cancelled', status: 499 })
  t.equal(tokens.length, 2, 'what came before can still be read')
  await runUntilIdle(clock)
  t.equal(engine.statistics().requests.cancelled, 2)
  await isDone(t, made)

  const late = new AbortController()
  const whole = await run(collect(client.submit(greedy([5], 3), { signal: late.signal })))
  t.equal(getEventListeners(late.signal, 'abort').length, 0, 'the signal is let go')
  late.abort()
  t.equal(whole.error, undefined)
  await runUntilIdle(clock)
  t.match(engine.statistics().requests, { done: 1, cancelled: 2 })

  const stream = client.submit(greedy([5], 3))
  const both = Promise.all([stream.next(), stream.next()])
  t.same(
    (await run(both)).map(({ value }) => value?.type),
    ['start', 'token'],
    'next can be called twice at once',
  )
  const pending = [stream.next(), stream.next(), stream.next(), stream.next()]
  t.same(
    (await run(Promise.all(pending))).map(({ done }) => done),
    [false, false, false, true],
  )
  const failing = client.submit(greedy([], 3))
  await failing.return?.()
  t.match(await failing.next(), { done: true }, 'who has left hears of no error')
})

t.test('cancelled while others are admitted', async (t) => {
  const admitted: string[] = []
  const policy = policyOf(
    (state) => firstComeFirstServed.plan(state),
    (event) => {
      if (event.type === 'admitted') admitted.push(event.request.id)
    },
  )
  const made = rig({ slots: 4, copyMs: () => 50, policy })
  const { client, clock, run, backend, engine } = made
  const first = collect(client.submit(greedy(promptOf(100), 20)))
  await runUntilIdle(clock, 1025)
  const ids = ['copied', 'next', 'last']
  const [copied, next, last] = ids.map((id) =>
    collect(client.submit({ ...greedy(id === 'copied' ? promptOf(100) : promptOf(9, 4), 5), id })),
  )
  await runUntilIdle(clock, 1055)
  client.cancel('copied')
  client.cancel('next')
  await runUntilIdle(clock, 1082)
  const batch = backend.steps.at(-1)?.batch
  t.equal(batch?.length, 2, 'the step is that of the other two')
  t.match(engine.statistics(), { running: 2, waiting: 0, requests: { cancelled: 2 } })
  t.match([(await copied)?.error?.code, (await next)?.error?.code], ['cancelled', 'cancelled'])
  t.equal(clock.now(), 1082, 'and they are told at once')
  t.same(admitted.slice(1), ['copied', 'last'], 'who has left gets no slot first')
  t.same((await run(first)).tokens, expectedTokens(backend, promptOf(100), 20))
  t.equal((await last)?.tokens.length, 5)
  await isDone(t, made)
})

t.test('an id is taken until its last event was said', async (t) => {
  const made = rig({ slots: 2 })
  const { client, clock, run, engine, batches } = made
  const request = { ...greedy(promptOf(9), 3), id: 'same' }
  const first = collect(client.submit(request))
  t.match(await collect(client.submit(request)), {
    events: [],
    error: { code: 'duplicate_request', status: 400, message: /"same"/ },
  })
  t.equal((await run(first)).tokens.length, 3, 'the first one goes on')
  await run(collect(client.submit(request)))
  t.equal(engine.statistics().requests.done, 2, 'and then the id is free')

  engine.submit('direct', greedy([5], 3))
  engine.submit('direct', greedy([5], 3))
  t.match(batches.at(-1)?.events, [
    { id: 'direct', event: { type: 'error', error: { code: 'duplicate_request' } } },
  ])
  await runUntilIdle(clock)
  t.equal(engine.statistics().requests.failed, 1)
  await isDone(t, made)

  t.test('also when its end is known and not said yet', async (t) => {
    let copies = 0
    const made = rig({ slots: 3, copyMs: () => (copies++, 5) })
    const { client, clock, engine, run } = made
    const other = collect(client.submit(greedy(promptOf(100), 20)))
    const stream = client.submit({ ...greedy([5, 6], 2), id: 'again' })
    await runUntilIdle(clock, 1015)
    const copying = collect(client.submit(greedy([...promptOf(100), 9], 2)))
    await runUntilIdle(clock, 1022)
    t.equal(copies, 1, 'the engine is copying before it says the end')
    await stream.return?.()
    const answer = collect(client.submit({ ...greedy([7, 8], 2), id: 'again' }))
    const { tokens, error } = await run(answer)
    t.match(error, { code: 'duplicate_request' })
    t.equal(tokens.length, 0, 'it gets nothing of the other request')
    t.equal((await run(copying)).tokens.length, 2)
    await run(other)
    t.equal(engine.statistics().requests.done, 3)
  })
})

t.test('an id can be used again as soon as its end is told, after a stop text too', async (t) => {
  const { client, clock, backend, engine } = rig({ endProbability: 0 })
  const request: GenerateRequest = { ...greedy(promptOf(9), 40), stop: [' '], id: 'same' }
  const again = async (): Promise<Answer[]> => {
    const answers: Answer[] = []
    for (let time = 0; time < 3; time++) answers.push(await collect(client.submit(request)))
    return answers
  }
  for (const { error, end } of await drive(clock, again())) {
    t.equal(error, undefined)
    t.match(end, { reason: 'stop', stop: ' ' })
  }
  const cancelled = (async () => {
    await collect(client.submit(request))
    const second = collect(client.submit(request))
    client.cancel('same')
    return await second
  })()
  t.match((await drive(clock, cancelled)).error, { code: 'cancelled' })
  await runUntilIdle(clock)
  t.match(leftovers({ backend, engine }), nothingLeft)
})

t.test('time limits', async (t) => {
  const made = rig({ slots: 1, options: { requestTimeoutMs: 95 } })
  const { client, clock, run, engine } = made
  const running = collect(client.submit({ ...greedy(promptOf(9), 90), id: 'running' }))
  const waiting = collect(client.submit({ ...greedy(promptOf(9, 1), 90), timeoutMs: 33 }))
  const patient = collect(client.submit({ ...greedy(promptOf(9, 2), 2), timeoutMs: 1000 }))
  await runUntilIdle(clock, 1039)
  t.equal(engine.statistics().waiting, 2)
  await runUntilIdle(clock, 1040)
  t.match(
    (await waiting).error,
    { code: 'timeout', status: 408, message: /0\.0 s/ },
    'in the queue',
  )
  const { tokens, error } = await run(running)
  t.match(error, { code: 'timeout' }, 'while running')
  t.equal(tokens.length, 9, 'after the step in which it ran out')
  t.equal((await run(patient)).end?.timings.queueMs, 100, 'at once the next one has its slot')
  t.match(engine.statistics().requests, { done: 1, timed_out: 2, failed: 0, cancelled: 0 })
  await isDone(t, made)
  t.match((await made.ask({ ...greedy([5], 5), timeoutMs: 0 })).error, { code: 'timeout' })

  const asleep = rig({ policy: policyOf(() => ({ ...empty, wakeAt: 1_000_000 })) })
  const answer = await asleep.ask({ ...greedy([5], 5), timeoutMs: 70 })
  t.match(answer.error, { code: 'timeout' })
  t.equal(asleep.clock.now(), 1070, 'a sleeping engine wakes for it')

  t.test('of many requests that ended long before', async (t) => {
    const made = rig({ slots: 4 })
    for (let round = 0; round < 50; round++) {
      const requests = [1, 2, 3, 4, 5].map((n) => ({ ...greedy([n + 4], 1), timeoutMs: n * 1e7 }))
      await made.run(Promise.all(requests.map((request) => collect(made.client.submit(request)))))
    }
    const last = collect(made.client.submit({ ...greedy([5], 200), timeoutMs: 25 }))
    t.match((await made.run(last)).error, { code: 'timeout' })
    t.match(made.engine.statistics().requests, { done: 250, timed_out: 1 })
  })

  t.test('requests that ended before are let go', async (t) => {
    const decoders: WeakRef<object>[] = []
    class Watched extends FakeTokenizer {
      override createDecoder(before: readonly TokenId[] = []) {
        const decoder = super.createDecoder(before)
        decoders.push(new WeakRef(decoder))
        return decoder
      }
    }
    const { backend, clock } = rig({ contextSize: 1000 })
    const tokenizer = new Watched()
    const engine = createEngine({ backend, clock, tokenizer, policy: firstComeFirstServed })
    engine.submit('steady', { ...greedy([5], 900), timeoutMs: 1e8 })
    for (let n = 0; n < 300; n++) {
      engine.submit(`r${n}`, { ...greedy([5], 1), timeoutMs: 1e9 })
      await runUntilIdle(clock, 1010 + 20 * n)
    }
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc') as () => void
    collectGarbage()
    const kept = decoders.filter((reference) => reference.deref() !== undefined).length
    t.ok(kept < 100, `${kept} of 300 are kept, whose limit is far away`)
    t.match(engine.statistics(), { running: 1, requests: { done: 300 } })
  })
})

t.test('Expiry gives each active request at its limit, the soonest first', async (t) => {
  let runs = 0
  let expired = 0
  fc.assert(
    fc.property(
      fc.array(
        fc.record({ expires: fc.option(fc.nat(300), { nil: undefined }), ends: fc.nat(400) }),
        {
          maxLength: 200,
        },
      ),
      (given) => {
        runs++
        const expiry = new Expiry()
        const sequences = given.map(({ expires, ends }, index) => {
          const sequence = sequenceOf([5], { id: `${index}`, expires })
          if (expires !== undefined) expiry.add(sequence, expires)
          return { sequence, expires: expires ?? Infinity, ends }
        })
        for (let now = 0; now <= 400; now += 7) {
          for (const { sequence, ends } of sequences) {
            if (ends <= now && sequence.isActive) sequence.isActive = false
          }
          const active = sequences.filter(({ sequence }) => sequence.isActive)
          const limits = active.map(({ expires }) => expires)
          const next = expiry.next()
          if (next !== Math.min(Infinity, ...limits)) throw new Error(`next is ${next} at ${now}`)
          const due = [...expiry.due(now)]
          const order = due.map(([sequence]) => sequence.request.expires ?? Infinity)
          if (order.some((at, index) => at < (order[index - 1] ?? 0))) {
            throw new Error(`${order.join()} is not in order`)
          }
          const expected = active.filter(({ expires }) => expires <= now)
          if (due.length !== expected.length) throw new Error(`${due.length} at ${now}`)
          for (const [sequence, error] of due) {
            if (error.code !== 'timeout') throw new Error(error.code)
            sequence.isActive = false
          }
          expired += due.length
        }
      },
    ),
    { numRuns: 100 },
  )
  t.ok(expired > runs, `${expired} expired`)
})

t.test(
  'the queue: those that have begun in front, the others by arrival, held ones too',
  async () => {
    const change = fc.record({
      kind: fc.constantFrom('add', 'add', 'remove', 'hold', 'unhold'),
      arrival: fc.nat(20),
      begun: fc.boolean(),
      which: fc.nat(30),
    })
    const property = fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
      const queue = new WaitingQueue()
      const held = new Set<Sequence>()
      let all: Sequence[] = []
      for (const [index, { kind, arrival, begun, which }] of changes.entries()) {
        const one = all[which % Math.max(1, all.length)]
        if (kind === 'add') {
          const added = sequenceOf([5], { id: `${index}`, arrival })
          if (begun) added.tokens.push(6)
          queue.add(added)
          all.push(added)
        } else if (one !== undefined && kind === 'remove') {
          queue.remove(one)
          held.delete(one)
          all = all.filter((other) => other !== one)
        } else if (one !== undefined && kind === 'hold') {
          queue.hold(one)
          held.add(one)
        } else if (kind === 'unhold') {
          queue.unhold(held)
          held.clear()
        }
        const visible = all.filter((other) => !held.has(other))
        const [front, rest] = [1, 0].map((count) =>
          visible.filter(({ generatedTokens }) => generatedTokens === count),
        )
        // `toSorted` is stable: equals are in the order in which they joined
        const expected = [...front!, ...rest!.toSorted((a, b) => a.arrival - b.arrival)]
        const ids = (list: Iterable<Sequence>) => Array.from(list, ({ id }) => id).join()
        if (ids(queue) !== ids(expected)) throw new Error(`${ids(queue)}, not ${ids(expected)}`)
        if (queue.size !== visible.length || queue.total !== all.length) throw new Error('sizes')
      }
    })
    fc.assert(property, { numRuns: 300 })
  },
)
