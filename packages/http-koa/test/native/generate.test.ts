import { drive } from '@cllm/core/testing'
import { testEach } from '../each-client.js'
import { rawPost, rawRequest, serve, until, type Served } from '../serve.js'
import { eventsOf, json, script, textOf } from './native-answers.js'

testEach('POST /generate', async (t) => {
  const server = await serve({ backend: { script, stepMs: () => 10 } })
  t.teardown(() => server.close())
  const generate = (body: object) => drive(server.clock, json(server.post('/generate', body)))

  const { data, ...envelope } = await generate({ prompt: 'euro', max_tokens: 20 })
  const { id, ...rest } = data
  t.same(envelope, { success: true })
  t.match(id, /^[0-9a-f]{32}$/)
  t.same(rest, {
    text: 'a€ b',
    response_time: 0.05,
    tokens_per_second: 80,
    generated_tokens: 4,
    max_tokens: 20,
    prompt_tokens: 5,
    cached_tokens: 0,
    finish_reason: 'stop',
  })
  t.match(await generate({ prompt: 'euro', max_tokens: 2 }), {
    data: { text: 'a', generated_tokens: 2, max_tokens: 2, finish_reason: 'length' },
  })
  t.match(await generate({ prompt: 'stopped', stop: 'XY' }), {
    data: { text: 'a', finish_reason: 'stop', max_tokens: 100 },
  })
  t.match(await generate({ prompt: 'stopped', stop: ['nowhere', 'b'] }), { data: { text: 'aXY' } })

  const some = { prompt: 'Once', temperature: 1.5, max_tokens: 10 }
  const first = await generate({ ...some, seed: 7 })
  t.equal(first.data.text, (await generate({ ...some, seed: 7 })).data.text, 'seeded')
  const others = [8, 9, 10].map(async (seed) => (await generate({ ...some, seed })).data.text)
  t.not(
    (await Promise.all(others)).every((text) => text === first.data.text),
    true,
  )

  t.equal((await generate({ prompt: 'x', timeout_ms: 25 })).error, 'Request timeout')
  const late = await drive(server.clock, server.post('/generate', { prompt: 'x', timeout_ms: 25 }))
  t.equal(late.status, 408)
  t.same(server.backend.violations, [])
})

testEach('POST /generate_stream, to the byte', async (t) => {
  const server = await serve({ backend: { script } })
  t.teardown(() => server.close())
  const stream = async (body: object, path = '/generate_stream') => {
    const response = await server.post(path, body)
    t.equal(response.status, 200)
    t.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    t.equal(response.headers.get('cache-control'), 'no-cache')
    t.equal(response.headers.get('x-accel-buffering'), 'no')
    t.equal(response.headers.get('transfer-encoding'), 'chunked')
    return (await response.text()).replace(/"id":"[0-9a-f]{32}"/g, '"id":"ID"')
  }
  const token = (text: string) => `data: {"id":"ID","token":${text},"done":false}\n\n`
  const end = (count: number) =>
    `data: {"id":"ID","token":"","done":true,"generated_tokens":${count}}\n\n`

  const euro = token('"a"') + token('""') + token('"€ "') + token('"b"') + end(4)
  t.equal(await stream({ prompt: 'euro' }), euro, 'one event per token, no broken character')
  t.equal(await stream({ prompt: 'euro', stream: true }, '/generate'), euro)
  t.equal(await stream({ prompt: 'euro', stream: false }), euro)
  t.equal(
    await stream({ prompt: 'quote' }),
    token('"\\""') + token('"\\n"') + token('"\\\\"') + end(3),
  )
  t.equal(
    await stream({ prompt: 'held back', stop: ['XY'] }),
    token('"a"') + token('""') + token('"X"') + end(2),
    'what a stop text held back still comes',
  )
  t.equal(
    await stream({ prompt: 'stopped', stop: 'XY' }),
    token('"a"') + token('""') + token('""') + end(3),
  )
})

testEach('failures of a stream', async (t) => {
  const server = await serve({
    backend: {
      stepMs: () => 10,
      slots: 1,
      failWhen: (batch, step) =>
        batch.length > 0 && step === 8 ? new Error('no memory') : undefined,
    },
    engine: { maxQueuedRequests: 1 },
  })
  t.teardown(() => server.close())
  const body = { prompt: 'The', max_tokens: 50, timeout_ms: 45 }

  const running = server.post('/generate_stream', body)
  await until(async () => (await server.client.statistics()).running === 1)
  const waiting = server.post('/generate_stream', { ...body, timeout_ms: 15 })
  await until(async () => (await server.client.statistics()).waiting === 1)
  for (const path of ['/generate', '/generate_stream']) {
    const refused = await server.post(path, body)
    t.equal(refused.status, 429, 'a refusal is an HTTP error, not an event')
    t.equal(refused.headers.get('retry-after'), '2')
    t.match(await refused.json(), {
      success: false,
      error: 'Request queue is full',
      message: 'Server is currently at maximum capacity. Please try again later.',
      retry_after: 2,
    })
  }
  const texts = await drive(
    server.clock,
    Promise.all([running, waiting].map(async (response) => (await response).text())),
  )
  for (const [index, text] of texts.entries()) {
    const events = eventsOf(text)
    t.equal(events.length > 1, index === 0)
    t.match(text, /data: {"id":"[0-9a-f]{32}","error":"Request timeout","done":true}\n\n$/)
  }
  const failed = await drive(
    server.clock,
    server.post('/generate_stream', { prompt: 'The' }).then((response) => response.text()),
  )
  const last = eventsOf(failed).at(-1)
  t.match(last, { error: /no memory/, done: true })
  t.strictSame(Object.keys(last ?? {}), ['id', 'error', 'done'])
})

testEach('a client that leaves is cancelled', async (t) => {
  const long = { prompt: 'The', max_tokens: 4000 }
  const start = () =>
    serve({ backend: { stepMs: () => 10, slots: 1, contextSize: 5000, batchSize: 8 } })
  const stateOf = async (server: Served) => {
    const [slot] = (await server.client.statistics()).slots
    return slot?.state
  }
  const advanceUntil = (server: Served, condition: () => Promise<boolean>) =>
    until(async () => {
      server.clock.advance(10)
      return condition()
    })

  for (const path of ['/generate', '/generate_stream']) {
    await t.test(`${path}, while it decodes`, async (t) => {
      const server = await start()
      t.teardown(() => server.close())
      const client = await rawRequest(server.port, rawPost(path, long))
      await advanceUntil(server, async () => server.backend.steps.length === 20)
      t.equal(await stateOf(server), 'decoding')
      client.socket.destroy()
      await advanceUntil(server, async () => (await stateOf(server)) === 'idle')
      t.ok(server.backend.steps.length < 1000, 'long before its end')
      t.match((await server.client.statistics()).requests, { cancelled: 1, done: 0 })
      t.equal(server.backend.samplers.size, 0)
      t.same(
        server.log.filter(({ level }) => level === 'error'),
        [],
      )
    })

    await t.test(`${path}, while its prompt is computed`, async (t) => {
      const server = await start()
      t.teardown(() => server.close())
      const prompt = 'x'.repeat(4000)
      const client = await rawRequest(server.port, rawPost(path, { prompt }))
      await advanceUntil(server, async () => server.backend.steps.length === 3)
      t.equal(await stateOf(server), 'prefilling')
      client.socket.destroy()
      await advanceUntil(server, async () => (await stateOf(server)) === 'idle')
      t.ok(server.backend.steps.length < 400, 'before its prompt is done')
    })

    await t.test(`${path}, while it waits`, async (t) => {
      const server = await start()
      t.teardown(() => server.close())
      const first = await rawRequest(server.port, rawPost('/generate', long))
      await until(async () => (await stateOf(server)) === 'prefilling')
      const client = await rawRequest(server.port, rawPost(path, long))
      await until(async () => (await server.client.statistics()).waiting === 1)
      client.socket.end()
      await advanceUntil(server, async () => (await server.client.statistics()).waiting === 0)
      t.match(await server.client.statistics(), { running: 1, requests: { cancelled: 1, done: 0 } })
      first.socket.destroy()
      await advanceUntil(server, async () => (await stateOf(server)) === 'idle')
    })
  }
})

testEach('many streams at once each get their own text', async (t) => {
  const server = await serve({ backend: { slots: 4, endProbability: 0.03 } })
  t.teardown(() => server.close())
  const bodies = Array.from({ length: 24 }, (_, index) => ({
    prompt: `Once upon a time ${index}`,
    max_tokens: 5 + index * 4,
    temperature: index % 2,
    seed: index,
  }))
  const alone: unknown[] = []
  for (const body of bodies) alone.push((await json(server.post('/generate', body))).data)
  const streams = bodies.map(async (body) => {
    const events = eventsOf(await (await server.post('/generate_stream', body)).text())
    const ids = new Set(events.map(({ id }) => id))
    return {
      ids: ids.size,
      text: textOf(events),
      generated_tokens: events.at(-1)?.generated_tokens,
    }
  })
  for (const [index, stream] of (await Promise.all(streams)).entries()) {
    t.match(stream, { ids: 1 })
    t.match(alone[index], { text: stream.text, generated_tokens: stream.generated_tokens })
  }
  t.same(server.backend.violations, [])
})
