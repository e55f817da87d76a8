import {
  createServer,
  SimulatedClock,
  type EngineClient,
  type EngineInfo,
  type GenerateEvent,
  type GenerateRequest,
} from '@cllm/core'
import { drive, FakeTokenizer, scriptAnswers } from '@cllm/core/testing'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import t from 'tap'
import { rawPost, rawRequest, serve, until, type Served } from '../serve.js'

const tokenizer = new FakeTokenizer()
const script = scriptAnswers(tokenizer, {
  euro: 'a€ b',
  'held back': 'aX',
  stopped: 'aXYb',
  quote: '"\n\\',
})

interface Answer {
  readonly success: boolean
  readonly data: Record<string, unknown>
  readonly error: string
  readonly code: string
  readonly field?: string
}

async function json(response: Response | Promise<Response>): Promise<Answer> {
  return (await (await response).json()) as Answer
}

/** The events of a stream, checked for their form. */
function eventsOf(text: string): Record<string, unknown>[] {
  const parts = text.split('\n\n')
  if (parts.pop() !== '') throw new Error(`an event is not ended: ${text}`)
  return parts.map((part) => JSON.parse(part.replace(/^data: /, '')) as Record<string, unknown>)
}

const textOf = (events: readonly Record<string, unknown>[]): string =>
  events.map((event) => event.token).join('')

t.test('POST /generate', async (t) => {
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

t.test('POST /generate_stream, to the byte', async (t) => {
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

t.test('failures of a stream', async (t) => {
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

t.test('wrong requests name the field, what was expected and what came', async (t) => {
  const server = await serve({ backend: { contextSize: 20 } })
  t.teardown(() => server.close())
  const cases: [body: Record<string, unknown>, error: string][] = [
    [{}, 'Missing required field: prompt'],
    [{ prompt: '' }, 'prompt: expected a text that is not empty, instead got ""'],
    [{ prompt: 5 }, 'prompt: expected a text, instead got 5'],
    [{ prompt: ['a'] }, 'prompt: expected a text, instead got an array'],
    [{ prompt: null }, 'prompt: expected a text, instead got null'],
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
    [{ stop: 5 }, 'stop: expected a text or up to 32 texts, none of them empty, instead got 5'],
    [{ stop: '' }, 'stop: expected a text or up to 32 texts, none of them empty, instead got ""'],
    [
      { stop: Array.from({ length: 33 }, () => 'a') },
      'stop: expected a text or up to 32 texts, none of them empty, instead got an array',
    ],
    [
      { stop: ['a', 5] },
      'stop: expected a text or up to 32 texts, none of them empty, instead got an array',
    ],
    [{ ignore_eos: 1 }, 'ignore_eos: expected true or false, instead got 1'],
    [{ stream: 'yes' }, 'stream: expected true or false, instead got "yes"'],
    [{ cache: {} }, 'cache: expected true or false, instead got an object'],
    [
      { priority: 0.5 },
      'priority: expected an integer from -2147483648 to 2147483647, instead got 0.5',
    ],
    [{ deadline_ms: 0 }, 'deadline_ms: expected a number above 0, instead got 0'],
    [{ timeout_ms: '1s' }, 'timeout_ms: expected a number above 0, instead got "1s"'],
    [{ tenant: '' }, 'tenant: expected a name, instead got ""'],
    [
      { session: 'x'.repeat(257) },
      'session: expected a name of at most 256 characters, instead got a string of 257 characters',
    ],
    [
      { logit_bias: [] },
      'logit_bias: expected an object of up to 1024 token ids with numbers from -100 to 100, instead got an empty array',
    ],
    [
      { logit_bias: { '5': 101 } },
      'logit_bias: expected an object of up to 1024 token ids with numbers from -100 to 100, instead got an object',
    ],
    [
      { logit_bias: { the: 1 } },
      'logit_bias: expected an object of up to 1024 token ids with numbers from -100 to 100, instead got an object',
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
  t.equal(
    (await server.post('/generate', { prompt: 'x' }, { headers: { 'Content-Type': 'text/csv' } }))
      .status,
    415,
  )
  t.equal((await server.post('/generate', '{"prompt":')).status, 400)
})

t.test('every field reaches the engine', async (t) => {
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
    stop: ['s'],
    priority: -3,
    deadlineMs: 10,
    timeoutMs: 20.5,
    tenant: 't',
    session: 'u',
    cache: false,
  })
  const answer = await json(post({ prompt: 'p' }))
  t.strictSame(requests.pop(), {
    prompt: { text: 'p' },
    maxTokens: 100,
    sampling: { temperature: 0.7, topP: 0.9 },
    stop: [],
  })
  t.match(answer, { data: { tokens_per_second: 0, response_time: 0 } }, 'no division by zero')
  const configured = await start({ defaults: { maxTokens: 7, sampling: { topK: 40, topP: 0.8 } } })
  await configured({ prompt: 'p', top_p: 1 })
  t.strictSame(requests.pop(), {
    prompt: { text: 'p' },
    maxTokens: 7,
    sampling: { temperature: 0.7, topP: 1, topK: 40 },
    stop: [],
  })
})

t.test('unknown fields are warned of, once per name', async (t) => {
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

t.test('a client that leaves is cancelled', async (t) => {
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

t.test('many streams at once each get their own text', async (t) => {
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

t.test('POST /benchmark', async (t) => {
  const server = await serve({ backend: { script, stepMs: () => 10 } })
  t.teardown(() => server.close())
  const bench = async (body: object) => drive(server.clock, json(server.post('/benchmark', body)))

  const options = { requests: 4, concurrency: 2, max_tokens: 20, prompt: 'euro' }
  const { success, data } = await bench(options)
  t.equal(success, true)
  // 5 steps of 10 ms for 4 tokens, two requests at a time, twice.
  t.same(data, {
    total_requests: 4,
    successful_requests: 4,
    failed_requests: 0,
    avg_response_time: 0.05,
    min_response_time: 0.05,
    max_response_time: 0.05,
    avg_throughput: 160,
    avg_tokens_per_second: 80,
    total_tokens_processed: 16,
    avg_generated_tokens: 4,
    total_time: 0.1,
  })
  t.match(await bench({}), { data: { total_requests: 40, successful_requests: 40 } })
  for (const [body, message] of [
    [{ requests: 0 }, 'requests: expected an integer from 1 to 10000, instead got 0'],
    [{ concurrency: 'x' }, 'concurrency: expected an integer from 1 to 1024, instead got "x"'],
    [{ prompt: '' }, 'prompt: expected a text that is not empty, instead got ""'],
  ] as const) {
    t.match(await bench(body), { success: false, error: message, code: 'invalid_request' })
  }
})

t.test('POST /encode and /decode', async (t) => {
  const server = await serve({ bodyLimitBytes: 1000 })
  t.teardown(() => server.close())
  const text = 'Once upon a time: €, 😀\u0000"'
  const encoded = await json(server.post('/encode', { text }))
  const tokens = tokenizer.encode(text)
  t.strictSame(encoded, { success: true, data: { tokens, length: tokens.length } })
  t.strictSame(await json(server.post('/decode', { tokens })), { success: true, data: { text } })
  t.strictSame(await json(server.post('/decode', { tokens: [] })), {
    success: true,
    data: { text: '' },
  })
  t.match(await json(server.post('/encode', { text: '' })), { success: true })

  const refused = async (path: string, body: unknown) => {
    const response = await server.post(path, body)
    const { error, field } = await json(response)
    return [response.status, error, field]
  }
  t.same(await refused('/encode', {}), [400, 'Missing required field: text', 'text'])
  t.same(await refused('/encode', { text: 1 }), [
    400,
    'text: expected a text, instead got 1',
    'text',
  ])
  t.same(await refused('/decode', {}), [400, 'Missing required field: tokens', 'tokens'])
  t.match(await refused('/decode', { tokens: 'a' }), [
    400,
    /^tokens: expected an array of token ids/,
    'tokens',
  ])
  t.match(await refused('/decode', { tokens: [1, -1] }), [
    400,
    /^tokens: expected token ids from 0 to 299, instead got -1$/,
  ])
  t.match(await refused('/decode', { tokens: [1.5] }), [400, /instead got 1\.5/, 'tokens'])
  t.match(await refused('/decode', { tokens: [300] }), [
    400,
    'tokens: expected token ids from 0 to 299, instead got 300',
  ])
  t.match(await refused('/encode', { text: 'x'.repeat(1000) }), [413])
})

t.test('GET /, /health and /model/info', async (t) => {
  const clock = new SimulatedClock(0)
  const info: EngineInfo = {
    model: {
      id: 'qwen3-0.6b',
      architecture: 'qwen3',
      parameters: 596_049_920,
      vocabularySize: 151_936,
      trainingContext: 40_960,
      quantization: 'Q4_K_M',
      sizeBytes: 396_705_472,
      path: 'models/qwen3.gguf',
      details: {
        hiddenSize: 1024,
        layers: 28,
        attentionHeads: 16,
        keyValueHeads: 8,
        feedForwardSize: 3072,
        ropeTheta: 1_000_000,
        rmsNormEpsilon: 1e-6,
        threads: 4,
        gpuLayers: 0,
        mmap: true,
        mlock: false,
      },
    },
    limits: { slots: 8, contextSize: 4096, batchSize: 512 },
    capabilities: { grammar: false, logprobs: false, embeddings: false, lora: false, gpu: false },
  }
  const works: Record<string, () => Promise<unknown>> = {
    info: async () => info,
    statistics: async () => ({ waiting: 3 }),
    getScheduler: async () => ({}),
    tokenize: async () => [1],
    close: async () => {},
    drain: async () => {},
  }
  const engine = { ...works }
  const server = createServer({
    engines: { engine: engine as unknown as EngineClient },
    clock,
    transports: [
      koaTransport({
        port: 0,
        protocols: [nativeProtocol({ version: '9.8.7', maxQueuedRequests: 50 })],
      }),
    ],
  })
  t.teardown(() => server.close())
  const url = (await server.listen())[0]?.url ?? ''
  const get = async (path: string) => {
    const response = await fetch(url + path)
    return [response.status, await response.json()]
  }

  t.match(await get('/'), [
    200,
    {
      success: true,
      data: {
        name: 'cLLM Server',
        version: '9.8.7',
        endpoints: [
          { method: 'GET', path: '/', description: String },
          { method: 'GET', path: '/health' },
          { method: 'POST', path: '/generate' },
          { method: 'POST', path: '/generate_stream' },
          { method: 'POST', path: '/encode' },
          { method: 'POST', path: '/decode' },
          { method: 'GET', path: '/model/info' },
          { method: 'POST', path: '/benchmark' },
        ],
      },
    },
  ])
  t.strictSame(await get('/model/info'), [
    200,
    {
      success: true,
      data: {
        model_path: 'models/qwen3.gguf',
        model_name: 'qwen3-0.6b',
        model_family: 'qwen',
        model_type: 'qwen3',
        vocab_size: 151936,
        tokenizer_vocab_size: 151936,
        hidden_size: 1024,
        num_layers: 28,
        num_attention_heads: 16,
        num_key_value_heads: 8,
        max_sequence_length: 4096,
        intermediate_size: 3072,
        rope_theta: 1000000,
        rms_norm_eps: 0.000001,
        quantization: { enabled: true, type: 'Q4_K_M' },
        llama_cpp: {
          batch_size: 512,
          num_threads: 4,
          gpu_layers: 0,
          use_mmap: true,
          use_mlock: false,
        },
        use_kv_cache: true,
        parameters: 596049920,
        size_bytes: 396705472,
        training_context: 40960,
        slots: 8,
      },
    },
  ])

  const healthy = { status: 'ok', success: true, data: { status: 'healthy', model_loaded: true } }
  t.strictSame(await get('/health'), [200, healthy])
  t.strictSame(await get('/health?level=basic'), [200, healthy])
  const components = { scheduler: true, model_executor: true, tokenizer: true, request_queue: true }
  const detailed = { healthy: true, status: 'ok', components }
  t.strictSame(await get('/health?level=detailed'), [200, { success: true, data: detailed }])
  t.strictSame(await get('/health?level=full'), [
    200,
    {
      success: true,
      data: {
        ...detailed,
        metrics: {
          scheduler_queue_size: '3',
          http_queue_size: '3',
          http_queue_max_size: '50',
          http_average_wait_time: '0',
        },
        dependencies: { model: 'ok', tokenizer: 'ok' },
      },
    },
  ])
  for (const level of ['all', '', 'basic&level=full']) {
    t.match(await get(`/health?level=${level}`), [
      400,
      {
        success: false,
        code: 'invalid_request',
        field: 'level',
        error: /^level: expected basic, detailed or full, instead got /,
      },
    ])
  }

  engine.tokenize = () => new Promise(() => {})
  const ill = get('/health?level=full')
  await until(() => clock.nextTimer() !== undefined)
  await until(() => {
    clock.advance(5000)
    return true
  })
  t.match(await ill, [
    503,
    {
      success: false,
      error: 'Not working: tokenizer',
      code: 'engine_unavailable',
      data: {
        healthy: false,
        status: 'degraded',
        components: { ...components, tokenizer: false },
        dependencies: { model: 'ok', tokenizer: 'error' },
      },
    },
  ])
  engine.statistics = () => new Promise(() => {})
  const dead = get('/health')
  await until(() => clock.nextTimer() !== undefined)
  clock.advance(5000)
  t.match(await dead, [
    503,
    { success: false, code: 'engine_unavailable', data: { status: 'degraded' } },
  ])
  const unready = get('/health/ready')
  await until(() => clock.nextTimer() !== undefined)
  clock.advance(5000)
  t.match(await unready, [503, { success: false, data: { status: 'degraded' } }])
  t.match(await get('/health/live'), [200, { data: { status: 'alive' } }])
})

t.test('the average wait is measured', async (t) => {
  const server = await serve({ backend: { stepMs: () => 10, slots: 1 } })
  t.teardown(() => server.close())
  const body = { prompt: 'The', max_tokens: 3 }
  const first = server.post('/generate', body)
  await until(async () => (await server.client.statistics()).running === 1)
  const second = server.post('/generate_stream', body).then((response) => response.text())
  await until(async () => (await server.client.statistics()).waiting === 1)
  await drive(server.clock, Promise.all([first, second]))
  const full = await json(server.get('/health?level=full'))
  t.match(full.data.metrics, { http_queue_max_size: '1024', http_average_wait_time: '15' })
})

t.test('"timings", X-Request-Id and GET /requests/{id}', async (t) => {
  const server = await serve({ backend: { script, stepMs: () => 10, slots: 1 } })
  t.teardown(() => server.close())
  const headers = (more: Record<string, string>) => ({
    headers: { 'Content-Type': 'application/json', ...more },
  })
  const post = (path: string, body: object, more: Record<string, string> = {}) =>
    drive(server.clock, server.post(path, body, headers(more)))
  const report = async (id: string) =>
    await drive(server.clock, json(server.get(`/requests/${id}`)))
  const timings = {
    queue_ms: 0,
    prefill_ms: 10,
    decode_ms: 40,
    ttft_ms: 10,
    total_ms: 50,
    prompt_tokens: 5,
    cached_tokens: 0,
    generated_tokens: 4,
    prefill_chunks: 1,
    preemptions: 0,
  }
  const body = { prompt: 'euro', timings: true }
  const named = { 'X-Request-Id': 'job-7.a:b_c', 'X-Cllm-Tenant': 'ann' }
  const whole = await post(
    '/generate',
    { ...body, tenant: 'bob', priority: 2, session: 's' },
    named,
  )
  t.equal(whole.headers.get('x-request-id'), 'job-7.a:b_c')
  const answer = await json(whole)
  t.equal(answer.data.id, 'job-7.a:b_c')
  t.match(answer.data.timings, { ...timings, decode_ms: Number, total_ms: Number })
  const { data } = await report('job-7.a:b_c')
  t.match(data, {
    id: 'job-7.a:b_c',
    state: 'done',
    arrival: 1000,
    tenant: 'ann',
    priority: 2,
    session: 's',
    timings: answer.data.timings as object,
  })
  t.match(data.timeline, [
    { type: 'queued', at_ms: 0 },
    { type: 'admitted', at_ms: 0, slot: 0, cached_tokens: 0 },
    { type: 'prefill', at_ms: 0, until_ms: 10, chunks: 1, tokens: 5 },
    { type: 'first_token', at_ms: 10 },
    { type: 'end', reason: 'stop' },
  ])
  t.notMatch(JSON.stringify(data), /euro|€/, 'neither prompt nor output is told')

  const stream = await post('/generate_stream', { ...body, tenant: 'bob' })
  const id = stream.headers.get('x-request-id') ?? ''
  t.match(id, /^[0-9a-f]{32}$/)
  const events = eventsOf(await drive(server.clock, stream.text()))
  t.match(events.at(-1), { id, done: true, timings: { prompt_tokens: 5, prefill_chunks: 1 } })
  t.ok(events.slice(0, -1).every((event) => !('timings' in event)))
  t.match(await report(id), { data: { tenant: 'bob' } })
  t.notOk('timings' in (await json(await post('/generate', { prompt: 'euro' }))).data)

  for (const wrong of ['', 'a b', 'ä', 'x'.repeat(129)].map(encodeURI)) {
    const given = await post('/generate', body, { 'X-Request-Id': wrong.replace('%20', ' ') })
    t.match(given.headers.get('x-request-id'), /^[0-9a-f]{32}$/, `not "${wrong}"`)
  }
  const long = await post('/generate', body, { 'X-Cllm-Tenant': 'x'.repeat(257) })
  t.match(await json(long), { code: 'invalid_request', field: 'x-cllm-tenant' })
  t.ok(long.headers.get('x-request-id'), 'what is refused has an id too')
  t.match(await json(post('/generate', { prompt: 'euro', timings: 'yes' })), {
    code: 'invalid_request',
    field: 'timings',
    error: 'timings: expected true or false, instead got "yes"',
  })
  const unknown = await drive(server.clock, server.get('/requests/nobody'))
  t.equal(unknown.status, 404)
  t.match(await json(unknown), { code: 'request_not_found', error: /"nobody"/ })
})
