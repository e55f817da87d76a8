import {
  batchesProtocol,
  openApiDocument,
  openApiProtocol,
  type OpenApiDocument,
} from '@cllm/http-koa'
import { createConfig, lintFromString } from '@redocly/openapi-core'
import t from 'tap'
import {
  addressOf,
  errorSchema,
  everyProtocol,
  everyRoute,
  serveEverything,
  validBodies,
  validQueries,
} from '../every-route.js'
import { serve } from '../serve.js'

interface Operation {
  readonly operationId: string
  readonly parameters?: readonly { readonly name: string; readonly in: string }[]
  readonly requestBody?: {
    readonly content: Record<
      string,
      { schema: { type: string; required?: readonly string[]; properties: object } }
    >
  }
  readonly responses: Readonly<Record<string, { readonly content: object }>>
}

t.test('the description holds together, and every route of it is there', async (t) => {
  const described = everyProtocol.filter(({ name }) => name !== 'openapi')
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
        (operation.parameters ?? []).flatMap((each) => (each.in === 'path' ? [each.name] : [])),
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
        ...(schema === undefined ? {} : { body: '{' }),
      })
      const text = await answer.text()
      t.notMatch(text, /There is nothing at|takes /, `${method} ${path} is served`)
      if (answer.ok) continue
      t.ok(errorSchema(path).strict().safeParse(JSON.parse(text)).success, text)
    }
  }
  t.match(document.paths['/v1/chat/completions']?.['post'], {
    requestBody: { content: { 'application/json': { schema: { required: ['messages'] } } } },
  })
  t.match(document.paths['/v1/stream']?.['get'], {
    parameters: [
      { name: 'conv_id', required: true },
      { name: 'from', required: undefined },
    ],
  })
  t.match(document.paths['/v1/audio/transcriptions']?.['post'], {
    requestBody: {
      content: {
        'multipart/form-data': {
          schema: { required: ['file'], properties: { file: { format: 'binary' }, prompt: {} } },
        },
      },
    },
  })
  const parts = { anyOf: [{ type: 'string' }, { items: { type: 'object' } }] }
  const message = { properties: { content: { anyOf: [parts] } } }
  const bodyOf = (properties: object) => {
    return { requestBody: { content: { 'application/json': { schema: { properties } } } } }
  }
  t.match(
    document.paths['/v1/chat/completions']?.['post'],
    bodyOf({ messages: { items: message } }),
  )
  const noneOfTexts = bodyOf({ input: {}, n_probs: undefined })
  t.match(document.paths['/v1/responses']?.['post'], noneOfTexts, 'it would change nothing')
  const page = await server.get('/docs')
  t.match(page.headers.get('content-type'), /text\/html/)
  t.match(page.headers.get('content-security-policy'), /default-src 'self'/)
  t.equal(page.headers.get('x-frame-options'), 'DENY')
  const html = await page.text()
  t.match(html, /name="viewport"[^]*rel="icon"[^]*POST \/v1\/chat\/completions/)
  t.match(html, /name="conv_id" data-in="query" required>/)
  t.match(html, /name="model" data-in="query">/, 'what may be left out')
  t.match(
    html,
    /data-path="\/admin\/keys"><label>name <input[^>]*><\/label>\s*<button>/,
    'nor a body',
  )
})

t.test('what succeeds is described, with its status and its type', async (t) => {
  const server = await serveEverything()
  t.teardown(() => server.close())
  const { paths } = openApiDocument(everyProtocol, '1.2.3')
  for (const route of everyRoute) {
    const body = route.body && JSON.stringify(validBodies[route.path])
    const leaves = new AbortController()
    const query = route.path === '/v1/stream' ? '?conv_id=a' : (validQueries[route.path] ?? '')
    const answer = await server.get(addressOf(route) + query, {
      method: route.method.toUpperCase(),
      signal: leaves.signal,
      ...(body !== undefined && { body, headers: { 'content-type': 'application/json' } }),
    })
    leaves.abort()
    const path = route.path.replace(/[:*](\w+)/g, '{$1}')
    const { responses } = paths[path]![route.method] as unknown as Operation
    const { [answer.status]: described } = responses
    const [type] = answer.headers.get('content-type')?.split(';') ?? []
    if (!answer.ok) continue
    t.ok(described, `${route.method} ${path} answers ${answer.status}`)
    if (type !== undefined) t.hasOwnProp(described?.content ?? {}, type, `${route.method} ${path}`)
  }
})

t.test('batches fail in the words of the API that they belong to', (t) => {
  const { paths } = openApiDocument([batchesProtocol({ folder: 'unused' })], '1.2.3')
  const errors = { '/v1/batches': 'openai-error', '/v1/messages/batches': 'anthropic-error' }
  for (const [path, name] of Object.entries(errors)) {
    const schema = { $ref: `#/components/schemas/${name}` }
    const failure = { content: { 'application/json': { schema } } }
    t.match(paths[path]?.['post'], { responses: { 400: failure, default: failure } })
  }
  t.end()
})

t.test('a linter finds nothing to say', async (t) => {
  const document = openApiDocument(everyProtocol, '1.2.3')
  const problems = await lintFromString({
    source: JSON.stringify(document),
    config: await createConfig({ extends: ['recommended-strict'] }),
  })
  t.same(
    problems.map(({ message, location }) => `${location[0]?.pointer}: ${message}`),
    [],
  )
})
