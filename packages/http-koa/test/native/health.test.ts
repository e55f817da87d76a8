import { createServer, SimulatedClock, type EngineClient, type EngineInfo } from '@cllm/core'
import { drive } from '@cllm/core/testing'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import { testEach } from '../each-client.js'
import { serve, until } from '../serve.js'
import { json } from './native-answers.js'

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
