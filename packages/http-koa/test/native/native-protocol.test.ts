import { drive, testProtocol, FakeTokenizer } from '@cllm/core/testing'
import { nativeProtocol } from '@cllm/http-koa'
import { clientKind, testEach } from '../each-client.js'
import { serveDirectory } from '../serve-directory.js'
import { serve } from '../serve.js'
import { eventsOf, json, script } from './native-answers.js'

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
    [{ requests: 0 }, 'requests: expected an integer from 1 to 10000, instead got 0'],
    [{ concurrency: 'x' }, 'concurrency: expected an integer from 1 to 1024, instead got "x"'],
    [{ prompt: '' }, 'prompt: expected a non-empty string, instead got ""'],
  ] as const) {
    t.match(await bench(body), { success: false, error: message, code: 'invalid_request' })
  }
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
