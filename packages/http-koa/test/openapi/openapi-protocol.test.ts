import {
  llamaServerProtocol,
  nativeProtocol,
  ollamaProtocol,
  openAiProtocol,
  openApiProtocol,
  type OpenApiDocument,
} from '@cllm/http-koa'
import t from 'tap'
import { rawRequest, serve, until } from '../serve.js'

const described = [nativeProtocol(), openAiProtocol(), ollamaProtocol(), llamaServerProtocol()]

interface Operation {
  readonly operationId: string
  readonly parameters?: readonly { readonly name: string }[]
  readonly requestBody?: {
    readonly content: Record<
      string,
      { schema: { type: string; required?: readonly string[]; properties: object } }
    >
  }
  readonly responses: object
}

t.test('the description holds together, and every route of it is there', async (t) => {
  const protocols = [...described, openApiProtocol({ protocols: described, version: '1.2.3' })]
  const server = await serve({ protocols })
  t.teardown(() => server.close())
  const document = (await (await server.get('/openapi.json')).json()) as OpenApiDocument
  t.match(document, { openapi: '3.1.0', info: { version: '1.2.3' } })
  const ids = new Set<string>()
  for (const [path, methods] of Object.entries(document.paths)) {
    for (const [method, value] of Object.entries(methods)) {
      const operation = value as unknown as Operation
      t.match(operation.operationId, /^\w+$/)
      t.notOk(ids.has(operation.operationId), `${operation.operationId} is unique`)
      ids.add(operation.operationId)
      const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name)
      t.same(
        (operation.parameters ?? []).map(({ name }) => name),
        names,
      )
      t.ok(Object.keys(operation.responses).length > 0)
      const schema = operation.requestBody?.content['application/json']?.schema
      if (schema !== undefined) {
        t.equal(schema.type, 'object')
        for (const name of schema.required ?? []) t.ok(name in schema.properties, name)
      }
      const answer = await server.get(path.replace(/\{\w+\}/g, 'x'), {
        method: method.toUpperCase(),
        ...(method === 'post' ? { body: '{' } : {}),
      })
      t.notMatch(await answer.text(), /There is nothing at|takes /, `${method} ${path} is served`)
    }
  }
  t.match(document.paths['/v1/chat/completions']?.['post'], {
    requestBody: { content: { 'application/json': { schema: { required: ['messages'] } } } },
  })
  const page = await server.get('/docs')
  t.match(page.headers.get('content-type'), /text\/html/)
  t.match(await page.text(), /POST \/v1\/chat\/completions/)
})

const requests: [path: string, valid: object][] = [
  ['/generate', { prompt: 'a', max_tokens: 1 }],
  ['/v1/chat/completions', { messages: [{ role: 'user', content: 'a' }], max_tokens: 1 }],
  ['/v1/completions', { prompt: 'a', max_tokens: 1 }],
  ['/v1/responses', { input: 'a', max_output_tokens: 1 }],
  ['/api/generate', { model: 'fake', prompt: 'a', options: { num_predict: 1 } }],
  [
    '/api/chat',
    { model: 'fake', messages: [{ role: 'user', content: 'a' }], options: { num_predict: 1 } },
  ],
  ['/completion', { prompt: 'a', n_predict: 1 }],
]

t.test('bad input gets an error in the words of its protocol', async (t) => {
  const server = await serve({ protocols: described, backend: { contextSize: 64 } })
  t.teardown(() => server.close())
  const wording = (path: string) =>
    path.startsWith('/v1') || path === '/completion'
      ? { error: { message: /./, type: /./ } }
      : path.startsWith('/api')
        ? { error: /./ }
        : { success: false, error: /./ }
  const json = { 'content-type': 'application/json' }
  for (const [path, valid] of requests) {
    const with_ = (fields: object) => JSON.stringify({ ...valid, ...fields })
    const field = ['messages', 'input'].find((name) => name in valid) ?? 'prompt'
    const long =
      'messages' in valid ? [{ role: 'user', content: 'x'.repeat(900_000) }] : 'x'.repeat(900_000)
    const cases: [what: string, status: number, init: RequestInit][] = [
      ['no body', 400, { method: 'POST' }],
      ['malformed', 400, { method: 'POST', headers: json, body: '{"prompt": "a"' }],
      ['no object', 400, { method: 'POST', headers: json, body: '[1]' }],
      ['NaN', 400, { method: 'POST', headers: json, body: '{"prompt": NaN}' }],
      ['no UTF-8', 400, { method: 'POST', headers: json, body: Buffer.from([0x22, 0xff, 0x22]) }],
      ['a wrong type', 400, { method: 'POST', headers: json, body: with_({ [field]: 5 }) }],
      ['a wrong stream', 400, { method: 'POST', headers: json, body: with_({ stream: 'x' }) }],
      ['a long prompt', 400, { method: 'POST', headers: json, body: with_({ [field]: long }) }],
      [
        'a huge number',
        400,
        { method: 'POST', headers: json, body: with_({ stream: 0 }).replace(/0\}$/, '1e999}') },
      ],
      ['another type', 415, { method: 'POST', headers: { 'content-type': 'text/csv' }, body: 'a' }],
      ['another method', 405, { method: 'PUT' }],
      [
        'too much',
        413,
        { method: 'POST', headers: json, body: JSON.stringify('x'.repeat(1_100_000)) },
      ],
    ]
    for (const [what, status, init] of cases) {
      const response = await server.get(path, init)
      t.equal(response.status, status, `${path}: ${what}`)
      t.match(await response.json(), wording(path), `${path}: ${what}`)
    }
    const good = await server.post(path, valid)
    t.equal(good.status, 200, `${path} still works`)
    await good.text()
  }
  const { running, waiting, slots } = await server.client.statistics()
  t.same([running, waiting], [0, 0])
  t.ok(slots.every(({ state }) => state === 'idle'))
  t.same(
    server.log.filter(({ level }) => level === 'error'),
    [],
    'nothing looks like a crash',
  )
  t.same(server.backend.violations, [])
})

t.test('bodies that stop half-way, tools without a schema, routes that take no body', async (t) => {
  const server = await serve({ protocols: described, backend: { embeddingSize: 2 } })
  t.teardown(() => server.close())
  const others = ['/v1/embeddings', '/api/embed', '/embedding', '/tokenize', '/detokenize']
  for (const path of [...requests.map(([path]) => path), ...others]) {
    for (const length of ['Transfer-Encoding: chunked\r\n\r\n10', 'Content-Length: 99\r\n']) {
      const head = `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`
      const connection = await rawRequest(server.port, `${head}${length}\r\n{"prompt":`)
      connection.socket.destroy()
      await until(() => connection.closed)
    }
    t.equal((await server.post(path, {})).status, 400, `${path}: nothing given`)
  }
  const chat = { model: 'fake', messages: [{ role: 'user', content: 'a' }] }
  for (const path of ['/v1/chat/completions', '/api/chat']) {
    const tools = [5, {}, { type: 'function', function: { name: 'a', parameters: 'x' } }]
    for (const tool of tools) {
      const answer = await server.post(path, { ...chat, tools: [tool] })
      t.equal(answer.status, 400, `${path}: ${JSON.stringify(tool)}`)
      t.match(await answer.text(), /tools/)
    }
  }
  for (const path of ['/v1/models', '/api/tags', '/api/ps', '/props', '/slots']) {
    t.equal((await server.post(path, {})).status, 405, path)
  }
  t.equal((await server.get('/v1/models/none')).status, 404)
  const { running, waiting, slots } = await server.client.statistics()
  t.same([running, waiting], [0, 0])
  t.ok(slots.every(({ state }) => state === 'idle'))
  t.same(
    server.log.filter(({ level }) => level === 'error'),
    [],
    'nothing looks like a crash',
  )
})
