import {
  createServer,
  type EngineClient,
  type GenerateEvent,
  type GenerateRequest,
} from '@cllm/core'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import { testEach } from '../each-client.js'
import { serve } from '../serve.js'
import { json, script } from './native-answers.js'

testEach('wrong requests name the field, what was expected and what came', async (t) => {
  const server = await serve({ backend: { contextSize: 20 } })
  t.teardown(() => server.close())
  const cases: [body: Record<string, unknown>, error: string][] = [
    [{}, 'Missing required field: prompt'],
    [{ prompt: '' }, 'prompt: expected a non-empty string, instead got ""'],
    [{ prompt: 5 }, 'prompt: expected a string, instead got 5'],
    [{ prompt: ['a'] }, 'prompt: expected a string, instead got an array'],
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
      'stop: expected a non-empty string or up to 32 of them, instead got an array',
    ],
    [
      { stop: ['a', 5] },
      'stop: expected a non-empty string or up to 32 of them, instead got an array',
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
