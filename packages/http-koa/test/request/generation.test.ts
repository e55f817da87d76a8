import { llamaServerProtocol, nativeProtocol, ollamaProtocol, openAiProtocol } from '@cllm/http-koa'
import { drive } from '@cllm/core/testing'
import { testEach } from '../each-client.js'
import { serve, until } from '../serve.js'

const protocols = [nativeProtocol(), openAiProtocol(), ollamaProtocol(), llamaServerProtocol()]

const asking = (asked: string) => ({
  headers: { 'Content-Type': 'application/json', 'x-cllm-forecast': asked },
})
const messages = [{ role: 'user', content: 'Hello' }]
const routes: readonly [path: string, body: object][] = [
  ['/generate', { prompt: 'Hello', max_tokens: 3 }],
  ['/generate_stream', { prompt: 'Hello', max_tokens: 3 }],
  ['/v1/completions', { prompt: 'Hello', max_tokens: 3 }],
  ['/v1/completions', { prompt: 'Hello', max_tokens: 3, stream: true, n: 2 }],
  ['/v1/chat/completions', { messages, max_tokens: 3 }],
  ['/v1/chat/completions', { messages, max_tokens: 3, stream: true }],
  ['/v1/responses', { input: 'Hello', max_output_tokens: 3 }],
  ['/api/chat', { model: 'fake', messages, options: { num_predict: 3 }, stream: false }],
  ['/api/generate', { model: 'fake', prompt: 'Hello', options: { num_predict: 3 } }],
  ['/completion', { prompt: 'Hello', n_predict: 3 }],
]

testEach('a client that asks is told when its turn comes', async (t) => {
  const server = await serve({ protocols, backend: { slots: 1, stepMs: () => 50 } })
  t.teardown(() => server.close())
  const ask = async (path: string, body: object, asked?: string) => {
    const answer = server.post(path, body, asked === undefined ? {} : asking(asked))
    await drive(
      server.clock,
      answer.then((response) => response.text()),
    )
    return await answer
  }
  await ask('/generate', { prompt: 'Hello', max_tokens: 30 })
  for (const [path, body] of routes) {
    const { status, headers } = await ask(path, body, 'true')
    const isFirst = !('n' in body)
    t.equal(status, 200, path)
    t.equal(headers.get('x-queue-position'), isFirst ? '0' : '1', path)
    const ttft = Number(headers.get('x-predicted-ttft-ms'))
    // A step takes 50 ms whatever it computes; the chats' prompts are six times as long as those before.
    t.ok(isFirst ? ttft >= 40 && ttft <= 200 : ttft > 100, `${path} ${ttft}`)
    for (const asked of [undefined, 'no']) {
      const plain = await ask(path, body, asked)
      t.equal(plain.headers.get('x-queue-position'), null)
      t.equal(plain.headers.get('x-predicted-ttft-ms'), null)
    }
  }

  const running = server.post('/generate', { prompt: 'Hello', max_tokens: 100 })
  await until(async () => (await server.client.statistics()).running === 1)
  const stream = await server.post('/generate_stream', { prompt: 'Hello' }, asking('TRUE'))
  t.equal(stream.headers.get('x-queue-position'), '1', 'told while it waits')
  const ttft = Number(stream.headers.get('x-predicted-ttft-ms'))
  const report = await server.get(`/requests/${stream.headers.get('x-request-id')}`)
  t.match(await report.json(), {
    data: { state: 'queued', queue_position: 1, forecast: { position: 1 } },
  })
  await drive(server.clock, Promise.all([running, stream.text()]))
  const after = await server.get(`/requests/${stream.headers.get('x-request-id')}`)
  const { data } = (await after.json()) as { data: { timings: Record<string, number> } }
  t.notOk('queue_position' in data)
  const actual = data.timings['ttft_ms']!
  t.ok(ttft / actual > 0.8 && ttft / actual < 1.25, `${ttft} ms were predicted, it took ${actual}`)
})

testEach('a full queue and a long wait are refused with a time to retry', async (t) => {
  const full = {
    native: { success: false, error: 'Request queue is full', retry_after: Number },
    openai: { error: { type: 'rate_limit_error', code: 'rate_limit_exceeded' } },
    ollama: { error: 'server busy, please try again.  maximum pending requests exceeded' },
    llama: { error: { code: 429, message: /limit/ } },
  }
  const bodyOf = (path: string) => {
    if (path.startsWith('/v1')) return full.openai
    if (path.startsWith('/api')) return full.ollama
    return path === '/completion' ? full.llama : full.native
  }
  const engines = [
    { options: { maxQueuedRequests: 1 }, code: 'queue_full' },
    { options: { maxQueueWaitMs: 6000 }, code: 'wait_too_long' },
  ]
  for (const { options, code } of engines) {
    const server = await serve({
      protocols,
      backend: { slots: 1, stepMs: () => 50 },
      engine: options,
    })
    t.teardown(() => server.close())
    await drive(server.clock, server.post('/generate', { prompt: 'Hello', max_tokens: 30 }))
    const first = [100, 100].map((max_tokens) =>
      server.post('/generate', { prompt: 'Hello', max_tokens }),
    )
    await until(async () => (await server.client.statistics()).waiting === 1)
    for (const [path, body] of routes) {
      const answer = await server.post(path, body)
      t.equal(answer.status, 429, path)
      const seconds = Number(answer.headers.get('retry-after'))
      t.ok(seconds >= 2 && seconds <= 6, `${path}: again after ${seconds} s`)
      const words = (await answer.json()) as { code?: string; retry_after?: number }
      t.match(words, bodyOf(path), path)
      if (path.startsWith('/generate')) t.match(words, { code, retry_after: seconds })
    }
    const answers = await drive(server.clock, Promise.all(first))
    t.ok(answers.every(({ status }) => status === 200))
  }
})

testEach('what runs out of time is 408 where the original is spoken, 504 elsewhere', async (t) => {
  const server = await serve({
    protocols,
    backend: { stepMs: () => 50 },
    engine: { requestTimeoutMs: 70 },
  })
  t.teardown(() => server.close())
  const isWhole = (path: string, body: object): boolean =>
    path !== '/generate_stream' && path !== '/api/generate' && !('stream' in body && body.stream)
  for (const [path, body] of routes.filter(([path, body]) => isWhole(path, body))) {
    const answer = await drive(server.clock, server.post(path, body))
    t.equal(answer.status, path === '/generate' ? 408 : 504, path)
    t.match(await answer.text(), /time/i)
  }
})
