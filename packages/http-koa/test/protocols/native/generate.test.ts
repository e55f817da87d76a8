import type { EngineClient, GenerateEvent, GenerateRequest } from '@cllm/core'
import { createServer } from '@cllm/host'
import { drive } from '@cllm/testing'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import { testEach } from '../../each-client.js'
import { type Served, eventsOf, rawPost, rawRequest, serve, until } from '../../serve.js'
import { json, script, textOf } from './native-answers.js'

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
      t.match(server.log.find(({ message }) => message === 'request')?.fields, {
        status: path === '/generate' ? 499 : 200,
        cut: true,
        tokensPerSecond: Number,
      })
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

testEach('wrong requests name the field, what was expected and what came', async (t) => {
  const server = await serve({ backend: { contextSize: 20 } })
  t.teardown(() => server.close())
  const cases: [body: Record<string, unknown>, error: string][] = [
    [{}, 'Missing required field: prompt'],
    [{ prompt: '' }, 'prompt: expected a non-empty string, instead got ""'],
    [{ prompt: 5 }, 'prompt: expected a string, instead got 5'],
    [{ prompt: ['a'] }, 'prompt: expected a string, instead got an array of 1'],
    [{ prompt: null }, 'prompt: expected a string, instead got null'],
    [{ max_tokens: '5' }, 'max_tokens: expected an integer from 1 to 2147483647, instead got "5"'],
    [{ max_tokens: 0 }, 'max_tokens: expected an integer from 1 to 2147483647, instead got 0'],
    [{ max_tokens: 1.5 }, 'max_tokens: expected an integer from 1 to 2147483647, instead got 1.5'],
    [{ temperature: 'hot' }, 'temperature: expected a number from 0 to 2, instead got "hot"'],
    [{ temperature: -0.1 }, 'temperature: expected a number from 0 to 2, instead got -0.1'],
    [{ temperature: 2.1 }, 'temperature: expected a number from 0 to 2, instead got 2.1'],
    [{ top_p: 1.1 }, 'top_p: expected a number from 0 to 1, instead got 1.1'],
    [{ top_k: -1 }, 'top_k: expected an integer from 0 to 2147483647, instead got -1'],
    [{ min_p: true }, 'min_p: expected a number from 0 to 1, instead got true'],
    [{ seed: 2 ** 32 }, 'seed: expected an integer from 0 to 4294967295, instead got 4294967296'],
    [
      { repetition_penalty: 0 },
      'repetition_penalty: expected a number from 0.01 to 10, instead got 0',
    ],
    [{ presence_penalty: 3 }, 'presence_penalty: expected a number from -2 to 2, instead got 3'],
    [
      { frequency_penalty: -3 },
      'frequency_penalty: expected a number from -2 to 2, instead got -3',
    ],
    [{ stop: 5 }, 'stop: expected a non-empty string or up to 32 of them, instead got 5'],
    [{ stop: '' }, 'stop: expected a non-empty string or up to 32 of them, instead got ""'],
    [
      { stop: Array.from({ length: 33 }, () => 'a') },
      'stop: expected a non-empty string or up to 32 of them, instead got an array of 33',
    ],
    [
      { stop: ['a', 5] },
      'stop: expected a non-empty string or up to 32 of them, instead got an array of 2',
    ],
    [{ ignore_eos: 1 }, 'ignore_eos: expected true or false, instead got 1'],
    [{ stream: 'yes' }, 'stream: expected true or false, instead got "yes"'],
    [{ cache: {} }, 'cache: expected true or false, instead got an object'],
    [
      { priority: 0.5 },
      'priority: expected an integer from -2147483648 to 2147483647, instead got 0.5',
    ],
    [
      { cllm: { retain_s: -1 } },
      'cllm.retain_s: expected a number from 0 to 86400, instead got -1',
    ],
    [{ cllm: { retain: 1 } }, 'cllm: expected an object with retain_s only, instead got an object'],
    [{ deadline_ms: 0 }, 'deadline_ms: expected a number above 0, instead got 0'],
    [{ timeout_ms: '1s' }, 'timeout_ms: expected a number above 0, instead got "1s"'],
    [{ tenant: '' }, 'tenant: expected a name, instead got ""'],
    [
      { session: 'x'.repeat(257) },
      'session: expected a name of at most 256 characters, instead got a string of 257 characters',
    ],
    [
      { logit_bias: [1] },
      'logit_bias: expected an object or pairs of up to 1024 token ids or texts with numbers from -100 to 100, instead got an array of 1',
    ],
    [
      { logit_bias: { '5': 101 } },
      'logit_bias: expected an object or pairs of up to 1024 token ids or texts with numbers from -100 to 100, instead got an object',
    ],
    [
      { logit_bias: { the: '1' } },
      'logit_bias: expected an object or pairs of up to 1024 token ids or texts with numbers from -100 to 100, instead got an object',
    ],
    [{ logit_bias: { '300': 1 } }, 'logit_bias: expected token ids from 0 to 299, instead got 300'],
  ]
  for (const [fields, error] of cases) {
    const body = Object.keys(fields).length === 0 ? {} : { prompt: 'x', ...fields }
    const field = error.startsWith('Missing') ? 'prompt' : error.slice(0, error.indexOf(':'))
    for (const path of ['/generate', '/generate_stream']) {
      const response = await server.post(path, body)
      const { status } = response
      const answer = await json(response)
      t.same([status, answer.error, answer.field, answer.success], [400, error, field, false])
    }
  }
  const long = await server.post('/generate', { prompt: 'x'.repeat(30) })
  t.equal(long.status, 400)
  const answer = await json(long)
  t.match(answer, { code: 'prompt_too_long', error: /31.*20/ }, 'both numbers')
  t.match(await json(server.post('/generate', { prompt: 'x'.repeat(3000) })), {
    code: 'prompt_too_long',
    error: /at least \d+.*20/,
  })
  t.equal((await server.post('/generate', '{"prompt":')).status, 400)
})

testEach('every field reaches the engine', async (t) => {
  const requests: unknown[] = []
  const end: GenerateEvent = {
    type: 'end',
    reason: 'length',
    text: '',
    usage: { promptTokens: 1, cachedTokens: 0, generatedTokens: 0 },
    timings: {
      queueMs: 0,
      prefillMs: 0,
      firstTokenMs: 0,
      decodeMs: 0,
      totalMs: 0,
      preemptions: 0,
      prefillChunks: 0,
    },
  }
  const engine = {
    async *submit({ id, ...request }: GenerateRequest) {
      t.match(id, /^[0-9a-f]{32}$/)
      requests.push(request)
      yield { type: 'start', id: '1', promptTokens: 1 } as const
      yield end
    },
  } as unknown as EngineClient
  const start = async (defaults = {}) => {
    const transport = koaTransport({ port: 0, protocols: [nativeProtocol(defaults)] })
    const server = createServer({ engines: { engine }, transports: [transport] })
    const url = (await server.listen())[0]?.url ?? ''
    t.teardown(() => server.close().catch(() => {}))
    return (body: object) =>
      fetch(`${url}/generate`, {
        method: 'POST',
        body: JSON.stringify(body),
        headers: { 'Content-Type': 'application/json' },
      })
  }
  const post = await start()
  await post({
    prompt: 'p',
    max_tokens: 5,
    temperature: 0,
    top_p: 0.5,
    top_k: 3,
    min_p: 0.1,
    seed: 4294967295,
    repetition_penalty: 1.1,
    presence_penalty: -2,
    frequency_penalty: 2,
    logit_bias: { '5': -100, '6': 1.5 },
    stop: 's',
    ignore_eos: true,
    priority: -3,
    deadline_ms: 10,
    timeout_ms: 20.5,
    tenant: 't',
    session: 'u',
    cllm: { retain_s: 1.5 },
    cache: false,
  })
  t.strictSame(requests.pop(), {
    prompt: { text: 'p' },
    maxTokens: 5,
    sampling: {
      temperature: 0,
      topP: 0.5,
      topK: 3,
      minP: 0.1,
      seed: 4294967295,
      repetitionPenalty: 1.1,
      presencePenalty: -2,
      frequencyPenalty: 2,
      logitBias: [
        [5, -100],
        [6, 1.5],
      ],
      ignoreEos: true,
    },
    fallbackSampling: { temperature: 0.7, topP: 0.9 },
    stop: ['s'],
    priority: -3,
    deadlineMs: 10,
    timeoutMs: 20.5,
    tenant: 't',
    session: 'u',
    retainMs: 1500,
    cache: false,
  })
  const answer = await json(post({ prompt: 'p' }))
  t.strictSame(requests.pop(), {
    prompt: { text: 'p' },
    maxTokens: 100,
    sampling: {},
    fallbackSampling: { temperature: 0.7, topP: 0.9 },
    stop: [],
  })
  t.match(answer, { data: { tokens_per_second: 0, response_time: 0 } }, 'no division by zero')
  const configured = await start({ defaults: { maxTokens: 7, sampling: { topK: 40, topP: 0.8 } } })
  await configured({ prompt: 'p', top_p: 1 })
  t.strictSame(requests.pop(), {
    prompt: { text: 'p' },
    maxTokens: 7,
    sampling: { topP: 1, topK: 40 },
    fallbackSampling: { temperature: 0.7, topP: 0.8, topK: 40 },
    stop: [],
  })
  const seeded = await start({ defaults: { sampling: { seed: 5 } } })
  for (const [seed, expected] of [
    [undefined, 5],
    [7, 7],
  ]) {
    await seeded({ prompt: 'p', ...(seed !== undefined && { seed }) })
    t.equal(
      (requests.pop() as GenerateRequest).sampling?.seed,
      expected,
      'the set seed, or its own',
    )
  }
})

testEach('unknown fields are warned of, once per name', async (t) => {
  const server = await serve({ backend: { script } })
  t.teardown(() => server.close())
  const warned = () =>
    server.log.filter(({ level }) => level === 'warn').map(({ fields }) => fields.field)
  const body = { prompt: 'euro', modle: 1, toString: 2 }
  t.match(await json(server.post('/generate', body)), { success: true })
  await server.post('/generate', body)
  t.same(warned(), ['modle', 'toString'])
  const many = Object.fromEntries(Array.from({ length: 500 }, (_, index) => [`f${index}`, 1]))
  await server.post('/generate', { prompt: 'euro', ...many })
  t.equal(warned().length, 100, 'no client can fill the log')
})
