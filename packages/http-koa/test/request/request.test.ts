import { CllmError, type EngineClient, type GenerateRequest, type Prompt } from '@cllm/core'
import { FakeTokenizer, drive } from '@cllm/testing'
import { llamaServerProtocol, nativeProtocol, ollamaProtocol, openAiProtocol } from '@cllm/http-koa'
import { buildRequest, type Generation, mergeGenerations } from '@cllm/http-koa/protocol'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import type { Call } from '../../src/routes/route.js'
import { collect, startGenerations } from '../../src/request/generation.js'
import { scorePairs } from '../../src/request/embeddings.js'
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

testEach('every API tells of a request under the X-Request-Id of its answer', async (t) => {
  const server = await serve({ protocols })
  t.teardown(() => server.close())
  const ask = async (path: string, body: object, headers: object = {}) =>
    await drive(
      server.clock,
      server
        .post(path, body, { headers: { 'Content-Type': 'application/json', ...headers } })
        .then(async (answer) => ({
          id: answer.headers.get('x-request-id'),
          ...(await read(answer)),
        })),
    )
  const read = async (answer: Response) => ({ status: answer.status, text: await answer.text() })
  for (const [path, body] of routes) {
    const { id } = await ask(path, body)
    const report = await server.get(`/requests/${id}`)
    t.match(await report.json(), { data: { id, state: 'done' } }, path)
  }
  const proxied = { 'X-Request-Id': 'of-a-proxy' }
  const [, , ...others] = routes
  const both = others.map(async ([path, body]) => await ask(path, body, proxied))
  for (const { id, status, text } of await Promise.all(both)) {
    t.match({ id, status }, { id: 'of-a-proxy', status: 200 }, text)
  }
  const lines = () => server.log.filter(({ fields }) => fields['requestId'] === 'of-a-proxy')
  await until(() => lines().length === both.length)
  const generated = lines().map(({ fields }) => Number(fields['generatedTokens'] ?? 0))
  t.same(
    generated.toSorted((one, other) => one - other),
    [0, 3, 3, 3, 3, 3, 3, 3],
    'each its own; several answers have none',
  )
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
    t.equal(answer.headers.get('x-should-retry'), 'false', 'no program waits for as long again')
    t.match(await answer.text(), /time/i)
  }
})

const embeddingProtocols = [openAiProtocol(), ollamaProtocol(), llamaServerProtocol()]
const tokenizer = new FakeTokenizer()

type Json = Record<string, unknown>

testEach('embeddings through every API', async (t) => {
  const server = await serve({
    protocols: embeddingProtocols,
    backend: { embeddingSize: 3, contextSize: 16 },
  })
  t.teardown(() => server.close())
  const ask = async (path: string, body: object) => {
    const response = await server.post(path, body)
    return { status: response.status, json: (await response.json()) as Json }
  }
  const { vector, promptTokens } = await server.client.embed({ text: 'euro' })
  const other = await server.client.embed({ text: 'other' })
  t.not(vector[0], other.vector[0])

  const { json } = await ask('/v1/embeddings', { input: ['euro', 'other'] })
  t.match(json['id'], /^embd-/)
  const tokens = promptTokens + other.promptTokens
  t.match(json, {
    object: 'list',
    data: [
      { object: 'embedding', index: 0, embedding: vector },
      { object: 'embedding', index: 1, embedding: other.vector },
    ],
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  })
  const ids = tokenizer.encode('euro')
  for (const input of ['euro', ids, [ids]]) {
    t.match((await ask('/v1/embeddings', { input })).json, { data: [{ embedding: vector }] })
  }
  const packed = await ask('/v1/embeddings', { input: 'euro', encoding_format: 'base64' })
  const [{ embedding }] = packed.json['data'] as [{ embedding: string }]
  const bytes = Buffer.from(embedding, 'base64')
  t.same(
    vector.map((_, index) => bytes.readFloatLE(index * 4)),
    [...new Float32Array(vector)],
  )

  const model = 'fake'
  const [x = 0, y = 0] = vector
  const short = [x / Math.hypot(x, y), y / Math.hypot(x, y)]
  const cut = { input: 'euro', dimensions: 2 }
  t.match((await ask('/v1/embeddings', cut)).json, { data: [{ embedding: short }] })
  t.match((await ask('/api/embed', { model, ...cut })).json, { embeddings: [short] })
  const same = (await ask('/api/embed', { model, ...cut, dimensions: 9 })).json
  t.match(same, { embeddings: [vector] }, 'no more than there are')
  t.match((await ask('/api/embed', { model, input: ['euro', 'other'] })).json, {
    model,
    embeddings: [vector, other.vector],
    prompt_eval_count: tokens,
  })
  t.match((await ask('/api/embed', { model, input: ['', 'euro', ''] })).json, {
    embeddings: [[Number], vector, [Number]],
  })
  t.same((await ask('/api/embed', { model, input: '' })).json['embeddings'], [])
  t.same((await ask('/api/embeddings', { model, prompt: 'euro' })).json, { embedding: vector })
  t.same((await ask('/api/embed', { model })).json['embeddings'], [])
  t.same((await ask('/api/embeddings', { model })).json, { embedding: [] })
  const long = 'a long text that has more tokens than a slot holds'
  t.match((await ask('/api/embed', { model, input: long })).json, { prompt_eval_count: 16 })
  t.equal((await ask('/api/embed', { model, input: long, truncate: false })).status, 400)

  for (const path of ['/embedding', '/embeddings']) {
    t.same((await ask(path, { content: ['euro', 'other'] })).json, [
      { index: 0, embedding: [vector] },
      { index: 1, embedding: [other.vector] },
    ])
  }

  t.match((await ask('/embeddings', { input: 'euro' })).json, [{ embedding: [vector] }])
  t.equal((await ask('/v1/embeddings', { input: ['a', [5, 'b', 6], ''] })).status, 200)
  const refused: [path: string, body: object, field: RegExp][] = [
    ['/v1/embeddings', {}, /input$/],
    ['/v1/embeddings', { input: [] }, /^input/],
    ['/v1/embeddings', { input: ['a', {}] }, /^input/],
    ['/v1/embeddings', { input: 'a', dimensions: 0 }, /^dimensions/],
    ['/v1/embeddings', { input: 'a', embd_normalize: -1 }, /^embd_normalize: expected 2/],
    ['/v1/embeddings', { input: 'a', dimensions: 9999 }, /^dimensions: expected at most \d/],
    ['/v1/embeddings', { input: 'a', encoding_format: 'hex' }, /^encoding_format/],
    ['/v1/embeddings', { input: long }, /tokens, a slot holds 16/],
    ['/v1/embeddings', { input: [[5000]] }, /5000/],
    ['/api/embed', { model, input: 5 }, /^input/],
    ['/api/embed', { model, input: 'a', dimensions: 0 }, /^dimensions/],
    ['/embedding', { content: 'a', embd_normalize: 0 }, /^embd_normalize/],
  ]
  for (const [path, body, message] of refused) {
    const { status, json } = await ask(path, body)
    t.equal(status, 400, `${path} ${JSON.stringify(body)}`)
    const error = json['error'] as string | { message: string }
    t.match(typeof error === 'string' ? error : error.message, message)
  }
  let embedded = 0
  const embed = server.client.embed.bind(server.client)
  server.client.embed = async (...given) => await embed(...given).finally(() => embedded++)
  const many = { input: Array.from({ length: 200 }, () => 'a'), dimensions: 9999 }
  t.equal((await ask('/v1/embeddings', many)).status, 400)
  t.ok(embedded < 20, `${embedded} of 200 are computed`)
  t.same(server.backend.violations, [])
})

testEach('the vectors of single tokens', async (t) => {
  const server = await serve({
    protocols: embeddingProtocols,
    // as many numbers as the input has tokens, times two
    backend: { embeddingSize: 10, contextSize: 16, details: { pooling: 'none' } },
  })
  t.teardown(() => server.close())
  const made = (await (await server.post('/embeddings', { input: 'euro' })).json()) as Json[]
  const { vector, promptTokens } = await server.client.embed({ text: 'euro' })
  t.equal(promptTokens, 5)
  const rows = [0, 2, 4, 6, 8].map((at) => vector.slice(at, at + 2))
  t.same(made, [{ index: 0, embedding: rows }])
  const raw = await server.post('/embedding', { content: 'euro', embd_normalize: -1 })
  t.equal(raw.status, 200)
  for (const path of ['/v1/embeddings', '/api/embed']) {
    const response = await server.post(path, { model: 'fake', input: 'euro' })
    t.equal(response.status, 400)
    t.match(await response.text(), /--pooling none/)
  }
})

testEach('texts compared by a model that was trained for it', async (t) => {
  const details = { pooling: 'rank', pairBetween: '5 6', pairAfter: '7' }
  const server = await serve({
    protocols: embeddingProtocols,
    backend: { embeddingSize: 1, contextSize: 100, details },
  })
  t.teardown(() => server.close())
  const ask = async (path: string, body: object) => {
    const response = await server.post(path, body)
    return { status: response.status, json: (await response.json()) as Json }
  }
  const query = 'What is a cat?'
  const documents = ['A cat is an animal', 'Paris', { text: 'Seven' }]
  const pair = (document: string) => [
    ...tokenizer.encode(query),
    5,
    6,
    ...tokenizer.encode(document, { addBos: false }),
    7,
  ]
  const scores = await Promise.all(
    ['A cat is an animal', 'Paris', 'Seven'].map(async (document) => {
      const { vector } = await server.client.embed({ tokens: pair(document) })
      return vector[0]!
    }),
  )
  const order = scores.map((_, index) => index).toSorted((a, b) => scores[b]! - scores[a]!)
  for (const path of ['/v1/rerank', '/rerank', '/v2/rerank', '/v1/reranking', '/reranking']) {
    const { json } = await ask(path, { query, documents, return_documents: true })
    const results = json['results'] as { index: number; relevance_score: number }[]
    t.same(
      results.map(({ index }) => index),
      order,
    )
    t.same(
      results.map((one) => one.relevance_score),
      order.map((index) => scores[index]),
    )
    const tokens = ['A cat is an animal', 'Paris', 'Seven'].flatMap(pair).length
    t.match(json, { usage: { prompt_tokens: tokens, total_tokens: tokens } })
  }
  const best = await ask('/rerank', {
    query,
    texts: ['Paris', 'Seven'],
    top_n: 1,
    return_text: true,
  })
  t.match(best.json, [{ index: Number, score: Number, text: String }])
  t.equal((best.json as unknown as []).length, 1)
  t.match((await ask('/v1/score', { text_1: query, text_2: ['Paris', 'Seven'] })).json, {
    data: [
      { index: 0, score: scores[1] },
      { index: 1, score: scores[2] },
    ],
  })
  for (const [path, body, message] of [
    ['/rerank', { query }, /documents/],
    ['/rerank', { query, documents: [] }, /documents: expected an array of 1/],
    ['/rerank', { query, documents: [1, 2] }, /documents/],
    ['/v1/score', { text_1: ['a', 'b'], text_2: ['c'] }, /text_1/],
  ] as const) {
    t.match(await ask(path, body), { status: 400, json: { error: { message } } })
  }
  const other = await serve({ protocols: embeddingProtocols, backend: { embeddingSize: 3 } })
  t.teardown(() => other.close())
  const refused = await other.post('/v1/rerank', { query, documents })
  t.match([refused.status, await refused.json()], [501, { error: { message: /does not compare/ } }])
})

testEach('a backend without embeddings', async (t) => {
  const server = await serve({ protocols: embeddingProtocols })
  t.teardown(() => server.close())
  const answer = await server.post('/v1/embeddings', { input: 'a' })
  t.equal(answer.status, 400)
  t.match(await answer.json(), { error: { code: 'unsupported', param: 'input' } })
})

t.test('many pairs of texts are compared a few at a time, until the client has left', async (t) => {
  const query = 'q'.repeat(1000)
  const pairs = Array.from({ length: 2048 }, (_, index) => [query, String(index)] as const)
  for (const details of [
    { pooling: 'rank' },
    { pooling: 'rank', pairTemplate: '{query}{document}' },
  ]) {
    const leaving = new AbortController()
    let [open, most, queries, embedded, afterwards] = [0, 0, 0, 0, 0]
    const call = async <T>(answer: T): Promise<T> => {
      if (leaving.signal.aborted) afterwards++
      most = Math.max(most, ++open)
      await new Promise(setImmediate)
      open--
      return answer
    }
    const client = {
      info: async () => ({ model: { details }, capabilities: { embeddings: true } }),
      async tokenize(text: string) {
        if (text === query) queries++
        return await call([5])
      },
      async embed(_: Prompt, { signal }: { signal: AbortSignal }) {
        if (++embedded === 100) leaving.abort()
        signal.throwIfAborted()
        await call({})
        signal.throwIfAborted()
        return { vector: [1], promptTokens: 1 }
      },
    } as unknown as EngineClient
    await t.rejects(scorePairs(client, pairs, leaving.signal))
    t.equal(queries, 'pairTemplate' in details ? 0 : 1, 'the query is tokenized once')
    t.ok(most <= 18, `${most} calls at a time`)
    t.ok(embedded < 120)
    t.equal(afterwards, 0)
  }
})

t.test('a negative seed is a random one, whatever the operator has set', (t) => {
  const defaults = { maxTokens: 9, sampling: {}, set: { seed: 5, topK: 3 } }
  const sampling = (seed?: number) => buildRequest({ text: 'p' }, { seed }, defaults).sampling
  t.strictSame(sampling(), { seed: 5, topK: 3 })
  t.strictSame(sampling(7), { seed: 7, topK: 3 })
  t.strictSame(sampling(-1), { topK: 3 })
  t.end()
})

t.test(
  'what nobody reads ends where another of its answer is refused, or its client leaves',
  async (t) => {
    const ended: (number | undefined)[] = []
    const client = {
      submit: ({ sample }: GenerateRequest) => ({
        async next() {
          if (sample === 1) throw new CllmError('queue_full', 'no place')
          return { done: false, value: { type: 'start', id: 'a', promptTokens: 1 } }
        },
        return: async () => void ended.push(sample),
      }),
    } as unknown as EngineClient
    const left = new AbortController()
    const call = { signal: left.signal, header: () => '', fields: {} } as unknown as Call
    const request = { prompt: { text: 'p' } }
    await t.rejects(startGenerations(call, client, [request, request, request]), /no place/)
    t.same(ended, [0, 2])
    const [one] = await startGenerations(call, client, [request])
    left.abort()
    t.same(ended, [0, 2, undefined])
    await t.rejects(collect(one!), { code: 'cancelled' })
  },
)

t.test('merged streams', async (t) => {
  const token = { type: 'token', token: 1, text: 'a' } as const
  const end = (): IteratorResult<never> => ({ done: true, value: undefined })
  const streamOf = (next: () => Promise<IteratorResult<typeof token>>): Generation => ({
    id: 'a',
    promptTokens: 1,
    fingerprint: undefined,
    events: { [Symbol.asyncIterator]: () => ({ next, return: async () => end() }) },
  })
  const tokens = (count: number, error?: Error): Generation => {
    let left = count
    return streamOf(async () => {
      if (left-- > 0) return { done: false, value: token }
      if (error === undefined) return end()
      throw error
    })
  }
  const indexes = async (...generations: readonly Generation[]): Promise<string> => {
    let seen = ''
    for await (const { index } of mergeGenerations(generations)) seen += index
    return seen
  }
  t.equal(await indexes(), '')
  t.equal(await indexes(tokens(2)), '00')
  t.equal(await indexes(tokens(1), tokens(0), tokens(3)), '0222', 'each is heard out')
  await t.rejects(indexes(tokens(9), tokens(1, new Error('broken'))), /broken/)

  // those that wait for a slot gave each event of the others something to keep
  let begin = (): void => {}
  const begun = new Promise<IteratorResult<typeof token>>((resolve) => {
    begin = () => resolve(end())
  })
  const waiting = Array.from({ length: 127 }, () => streamOf(async () => await begun))
  setFlagsFromString('--expose-gc')
  const sweep = runInNewContext('gc') as () => void
  const heap = (): number => {
    sweep()
    return process.memoryUsage().heapUsed
  }
  const before = heap()
  let [count, grown] = [0, 0]
  for await (const { index } of mergeGenerations([tokens(4000), ...waiting])) {
    if (index === 0 && ++count < 4000) continue
    grown = heap() - before
    begin()
  }
  t.ok(grown < 5e6, `${grown} bytes more`)
})
