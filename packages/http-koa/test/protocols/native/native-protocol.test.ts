import { CllmError, type EngineClient, type EngineInfo, SimulatedClock } from '@cllm/core'
import { createServer } from '@cllm/host'
import { FakeTokenizer, drive, testProtocol } from '@cllm/testing'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import { clientKind, testEach } from '../../each-client.js'
import { serveDirectory } from '../../serve-directory.js'
import { eventsOf, serve, until, warningsIn } from '../../serve.js'
import { json, script } from './native-answers.js'

const tokenizer = new FakeTokenizer()

testEach('conformance', async (t) => {
  await testProtocol(
    t,
    serveDirectory(() => nativeProtocol()),
    {
      client: clientKind(),
      request: (prompt, max_tokens, stream) => ({
        path: stream ? '/generate_stream' : '/generate',
        body: JSON.stringify({ prompt, max_tokens, ignore_eos: true }),
      }),
    },
  )
})

testEach('POST /benchmark', async (t) => {
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
    [{ requests: 0 }, 'requests: expected an integer from 1 to 1000, instead got 0'],
    [{ concurrency: 'x' }, 'concurrency: expected an integer from 1 to 1024, instead got "x"'],
    [{ prompt: '' }, 'prompt: expected a non-empty string, instead got ""'],
  ] as const) {
    t.match(await bench(body), { success: false, error: message, code: 'invalid_request' })
  }
})

testEach('POST /benchmark may have many requests at once', async (t) => {
  const server = await serve({ backend: { script, stepMs: () => 10, slots: 16 } })
  t.teardown(() => server.close())
  const warnings = warningsIn(t)
  const answer = json(server.post('/benchmark', { requests: 16, concurrency: 16, max_tokens: 2 }))
  t.match(await drive(server.clock, answer), { data: { successful_requests: 16 } })
  t.same(await warnings(), [])
})

testEach('POST /benchmark lets requests of clients go first', async (t) => {
  const server = await serve({ backend: { script, stepMs: () => 10, slots: 1 } })
  t.teardown(() => server.close())
  const fields = { requests: 20, concurrency: 1000, max_tokens: 20 }
  const answer = json(server.post('/benchmark', fields))
  const activity = async () => await drive(server.clock, server.client.activity())
  await until(async () => (await activity()).slots.some(({ state }) => state !== 'idle'))
  t.same((await activity()).queue, [])
  const asked = { prompt: 'euro', max_tokens: 2, timings: true }
  const { data } = await drive(server.clock, json(server.post('/generate', asked)))
  const { queue_ms: waited } = data.timings as { queue_ms: number }
  t.ok(waited <= 20 * 10, `it waited ${waited} ms, for one request`)
  t.match(await drive(server.clock, answer), { data: { successful_requests: 20 } })
})

testEach('POST /encode and /decode', async (t) => {
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
    'text: expected a string, instead got 1',
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

testEach('"timings", X-Request-Id and GET /requests/{id}', async (t) => {
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
  t.same((await report('chatcmpl-job-7.a:b_c')).data, data, "by the id of an answer of OpenAI's")
  t.match(data.timeline, [
    { type: 'queued', at_ms: 0 },
    { type: 'admitted', at_ms: 0, slot: 0, cached_tokens: 0 },
    { type: 'prefill', at_ms: 0, until_ms: 10, chunks: 1, tokens: 5 },
    { type: 'first_token', at_ms: 10 },
    { type: 'end', reason: 'stop' },
  ])
  const told = (data.timeline as { sentence?: string }[]).map(({ sentence }) => sentence)
  t.same(told, [undefined, ...(data.sentences as string[])], 'each event has its own')
  t.match(data.sentences, [
    'After 0 ms it got slot 0, with 0 of 5 prompt tokens computed before.',
    '5 prompt tokens took 10 ms in 1 step.',
    'Its first token came after 10 ms.',
    /^After \d+ ms it ended with \d+ tokens \(stop\)\.$/,
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
  t.match(await json(unknown), {
    code: 'request_not_found',
    error: /"nobody": expected the X-Request-Id/,
  })
})

testEach('GET /, /health and /model/info', async (t) => {
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
        sampling: {},
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

testEach('several engines: what one of them still does, the server does', async (t) => {
  const away = async (): Promise<never> => {
    throw await Promise.resolve(new CllmError('engine_unavailable', 'is restarting'))
  }
  const unknown = async (): Promise<never> => {
    throw await Promise.resolve(new CllmError('request_not_found', 'no such request'))
  }
  const report = { id: 'known', state: 'done', timeline: [], timings: {}, usage: {} }
  const parts = (waiting: number, explain: () => Promise<unknown>) => ({
    info: async () => ({}),
    statistics: async () => ({ waiting, workers: { list: [{ id: 'worker-1' }] } }),
    getScheduler: async () => ({}),
    tokenize: async () => [1],
    close: async () => {},
    drain: async () => {},
    explain,
  })
  type Engine = ReturnType<typeof parts>
  const gone = (engine: Engine): Engine => {
    return {
      ...engine,
      info: away,
      statistics: away,
      getScheduler: away,
      tokenize: away,
      explain: away,
    }
  }
  const one = parts(2, unknown)
  const other = parts(3, async () => report)
  const ask = async (first: Engine, second: Engine) => {
    const engines = { first, second } as unknown as Record<string, EngineClient>
    const transports = [koaTransport({ port: 0, protocols: [nativeProtocol()] })]
    const server = createServer({ engines, transports })
    const url = (await server.listen())[0]?.url ?? ''
    const levels = ['basic', 'detailed', 'full'].map((level) => `/health?level=${level}`)
    const answers = [...levels, '/requests/known'].map(async (path) => await fetch(url + path))
    const all = await Promise.all(answers)
    const full = await json(all[2]!)
    await server.close()
    if (full.success) t.same(full.data['workers'], [{ id: 'worker-1' }])
    return {
      statuses: all.map(({ status }) => status),
      waiting: (full.data['metrics'] as Record<string, string>)['scheduler_queue_size'],
    }
  }
  t.same(await ask(one, other), { statuses: [200, 200, 200, 200], waiting: '5' })
  t.same(await ask(gone(one), other), { statuses: [200, 200, 200, 200], waiting: '3' })
  t.same(await ask(one, gone(other)), { statuses: [200, 200, 200, 503], waiting: '2' })
  t.same(await ask(gone(one), gone(other)), { statuses: [503, 503, 503, 503], waiting: '0' })
})

testEach('the average wait is measured', async (t) => {
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
