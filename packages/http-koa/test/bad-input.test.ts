import t from 'tap'
import type { z } from 'zod'
import {
  addressOf,
  ask,
  checkUnharmed,
  errorShape,
  everyRoute,
  isRepeated,
  send,
  serveEverything,
  takeBodies,
  validBodies,
} from './every-route.js'
import { rawRequest, until } from './serve.js'

/** They take none, or, like a slot's, only for some of what they do, or a list. */
const withoutSchema = new Set([
  'DELETE /admin/cache',
  'DELETE /admin/keys',
  'POST /slots/:id',
  'POST /lora-adapters',
  'POST /api/blobs/:digest',
  'DELETE /v1/stream',
  // forms
  'POST /v1/audio/transcriptions',
  'POST /audio/transcriptions',
  'POST /v1/audio/translations',
])

t.test('every route is in these tests', (t) => {
  for (const { method, path, body } of everyRoute) {
    const takesBody = method !== 'get' && !withoutSchema.has(`${method.toUpperCase()} ${path}`)
    t.equal(body !== undefined, takesBody, `${method} ${path}: its schema is described`)
    if (takesBody) t.ok(path in validBodies, `${path}: a valid body in every-route.ts`)
  }
  t.end()
})

/** Whether a route is asked this one of several things: each route a part of them, and each of them by as many routes. */
const isDue = (route: number, nth: number, share: number): boolean =>
  process.argv.includes('--all') || route % share === nth % share

/** Values of any type, as JSON that `JSON.stringify` may not write. */
const values = [
  '1e999',
  '-1e999',
  '-1',
  '0.5',
  '1e300',
  'true',
  '""',
  '"x"',
  '"\\u0000\\ud800"',
  '{}',
  '{"__proto__":{"x":1}}',
  '[]',
  '[[]]',
  '[{}]',
  '[null]',
  '[-1]',
]

t.test('what is described is what is checked', async (t) => {
  const server = await serveEverything()
  t.teardown(server.close)
  for (const route of takeBodies) {
    for (const [index, [field, type]] of Object.entries(route.body!.shape).entries()) {
      if (isRepeated(route) && index % 8 > 0) continue
      const wrong = values.filter(
        (value) => !(type as z.ZodType).safeParse(JSON.parse(value)).success,
      )
      // Each field with one of them, or a fifth, and each of them with as many of the fields.
      const share = process.argv.includes('--all') ? 5 : wrong.length
      for (const value of wrong.filter((_, place) => place % share === index % share)) {
        const fields = Object.entries({ ...validBodies[route.path], [field]: 0 }).map(
          ([name, other]) => `"${name}":${name === field ? value : JSON.stringify(other)}`,
        )
        const { status, body, text } = await send(server, route, `{${fields.join()}}`)
        const wanted = { status: 400, body: errorShape(route.path), isNamed: true }
        const isNamed = text.includes(field)
        t.match({ status, body, isNamed }, wanted, `${route.path}: ${field}: ${value}`)
      }
    }
  }
  const warned = server.log.filter(({ message }) => /unknown field/.test(message))
  t.same(warned, [], 'every described field is known')
  await checkUnharmed(t, server)
})

t.test('bad bodies', async (t) => {
  const server = await serveEverything({ bodyLimitBytes: 200_000 })
  t.teardown(server.close)
  // More than a call may have arguments: what spreads a prompt's pieces into one fails.
  const longPrompt = JSON.stringify('x'.repeat(150_000))
  const parts = '--x\r\nContent-Disposition: form-data; name="prompt"\r\n\r\na\r\n--x--\r\n'
  const generates = /generate|completion|responses|chat/
  for (const [nth, route] of takeBodies.entries()) {
    const { path } = route
    const valid = JSON.stringify(validBodies[path])
    const long = valid.replace('"a"', longPrompt)
    const cases: [what: string, status: unknown, body: string | Buffer | null, type?: string][] = [
      ['no body', 400, null],
      ['malformed', 400, valid.slice(0, -1)],
      ['no object', 400, '[1]'],
      ['NaN', 400, valid.replace('}', ',"x":NaN}')],
      ['no UTF-8', 400, Buffer.from([0x22, 0xff, 0x22])],
      ['too deep', 400, valid.replace('{', `{"x":${'['.repeat(200)}${']'.repeat(200)},`)],
      ['an empty prompt', Number, valid.replace('"a"', '""')],
      [
        'a long prompt',
        generates.test(path) && !path.endsWith('/input_tokens') ? 400 : Number,
        long,
      ],
      ['too large', 413, JSON.stringify('x'.repeat(210_000))],
      ['another type', 400, 'a,b', 'text/csv'],
      ['a form', 400, 'prompt=a&text=a', 'application/x-www-form-urlencoded'],
      ['a form in parts', 400, parts, 'multipart/form-data; boundary=x'],
      ['another encoding', 400, Buffer.from(valid, 'utf16le'), 'application/json; charset=utf-16'],
    ]
    for (const [index, [what, status, body, type]] of cases.entries()) {
      if (isRepeated(route) && !isDue(nth, index, 4)) continue
      const answer = await send(server, route, body, type)
      const wanted = { status, body: answer.status === 200 ? {} : errorShape(path) }
      t.match({ status: answer.status, body: answer.body }, wanted, `${path}: ${what}`)
    }
  }
  await checkUnharmed(t, server)
})

t.test('JSON in texts is as deep as a body may be', async (t) => {
  const server = await serveEverything()
  t.teardown(server.close)
  const messages = [{ role: 'user', content: 'a' }]
  const called = (text: string) => ({ name: 'f', arguments: text })
  const calling = (text: string) => [{ type: 'function', function: called(text) }]
  const fields: [name: string, path: string, body: (text: string) => object][] = [
    ['guided_json', '/v1/chat/completions', (guided_json) => ({ messages, guided_json })],
    [
      'messages.0.tool_calls.0.function.arguments',
      '/apply-template',
      (text) => ({ messages: [{ role: 'assistant', tool_calls: calling(text) }, ...messages] }),
    ],
    [
      'input.0.arguments',
      '/v1/responses/input_tokens',
      (text) => ({ input: [{ type: 'function_call', call_id: 'a', ...called(text) }] }),
    ],
  ]
  for (const [name, path, body] of fields) {
    for (const depth of [100, 101, 100_000]) {
      const nested = `{"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`
      const answer = await server.post(path, body(nested))
      const isRefused = (await answer.text()).includes(
        `${name}: expected JSON of at most 100 levels`,
      )
      t.equal(isRefused, depth > 100, `${name}: ${depth} levels`)
      if (isRefused) t.equal(answer.status, 400)
    }
  }
  await checkUnharmed(t, server)
})

t.test('what curl -d sends, and what pages of other origins send', async (t) => {
  const server = await serveEverything()
  t.teardown(server.close)
  const foreign: Readonly<Record<string, string>>[] = [
    { Origin: 'https://evil.example.org' },
    { Origin: 'null' },
    { Origin: 'http://localhost.example.org:3000' },
    { Origin: 'https://evil.example.org', 'Sec-Fetch-Site': 'cross-site' },
    { Origin: 'https://evil.example.org', 'Sec-Fetch-Site': 'same-site' },
    { 'Sec-Fetch-Site': 'cross-site' },
  ]
  const welcome: Readonly<Record<string, string>>[] = [
    {},
    { Origin: server.url },
    { Origin: server.url, 'Sec-Fetch-Site': 'same-origin' },
    { Origin: server.url, 'Sec-Fetch-Site': 'cross-site' },
    { Origin: 'http://localhost:3000' },
    { 'Sec-Fetch-Site': 'none' },
  ]
  const type = 'application/x-www-form-urlencoded'
  for (const [nth, route] of takeBodies.entries()) {
    const { path } = route
    const body = JSON.stringify(validBodies[path])
    for (const headers of welcome.filter((_, index) => isDue(nth, index, 3))) {
      const { status, text } = await send(server, route, body, type, headers)
      t.equal(status, 200, `${path}: ${JSON.stringify(headers)}: ${text}`)
    }
    for (const headers of foreign.filter((_, index) => isDue(nth, index, 3))) {
      const answer = await send(server, route, body, 'text/plain', headers)
      const wanted = {
        status: 403,
        body: errorShape(path),
        text: /origins? .*--cors-origins|Pages of/,
      }
      t.match(answer, wanted, `${path}: ${JSON.stringify(headers)}`)
    }
  }
  const read = await server.get('/health', { headers: foreign[0]! })
  t.equal(read.status, 200, 'reading is not refused')
  await checkUnharmed(t, server)
})

t.test('unknown roles, tools that are no schemas, images to a text model', async (t) => {
  const server = await serveEverything()
  t.teardown(server.close)
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
  const content = [{ type: 'text', text: 'a' }, image]
  const tool = (parameters: unknown) => [{ type: 'function', function: { name: 'f', parameters } }]
  const invalid = [5, {}, ...tool('x'), ...tool(5), { type: 'function', function: { name: '' } }]
  const tools = invalid.map((one) => ({ tools: [one] }))
  const cases: Readonly<Record<string, readonly object[]>> = {
    '/v1/chat/completions': [
      { messages: [{ role: 'wizard', content: 'a' }] },
      { messages: [{ role: 'user', content }] },
      { tools: tool({ type: 'nonsense' }), tool_choice: 'required' },
      ...tools,
    ],
    '/v1/responses': [
      { input: [{ role: 'wizard', content: 'a' }] },
      { input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] },
      { tools: tool({}) },
    ],
    '/api/chat': [
      { messages: [{ role: 'wizard', content: 'a' }] },
      { messages: [{ role: 'user', content: 'a', images: ['AAAA'] }] },
      ...tools,
    ],
    '/api/generate': [{ images: ['AAAA'] }],
    '/apply-template': [
      { messages: [{ role: 'wizard', content: 'a' }] },
      { messages: [{ role: 'user', content }] },
    ],
  }
  for (const [path, changes] of Object.entries(cases)) {
    for (const change of changes) {
      const answer = await server.post(path, { ...validBodies[path], ...change })
      const text = await answer.text()
      t.equal(answer.status, 400, `${path}: ${JSON.stringify(change)}: ${text}`)
      t.match(JSON.parse(text), errorShape(path), path)
      t.match(text, /role|content|tool|image|input/, 'says which')
    }
  }
  await checkUnharmed(t, server)
})

t.test(
  'other methods, bodies where none belong, odd queries, paths that do not exist',
  async (t) => {
    const server = await serveEverything()
    t.teardown(server.close)
    const paths = [...new Set(everyRoute.map(addressOf))]
    for (const path of paths) {
      const own = everyRoute.filter((route) => addressOf(route) === path)
      const methods = own.map(({ method }) => method.toUpperCase())
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND']) {
        if (methods.includes(method)) continue
        const answer = await ask(server.url + path, { method })
        t.equal(answer.status, 405, `${method} ${path}`)
        const allowed = (answer.headers.allow ?? '').split(', ')
        for (const each of methods) t.ok(allowed.includes(each), `Allow has ${each}`)
        t.match(JSON.parse(answer.text), errorShape(path), `${method} ${path}`)
      }
      if (!methods.includes('GET')) continue
      const query = '?level=detailed&level=x&model=fake&model=none&id=%00&__proto__=1&a[b]=c&%ff=%'
      for (const odd of ['', query, `?${'x'.repeat(8000)}`]) {
        const { status, text } = await ask(server.url + path + odd)
        t.ok(status < 500, `${path}${odd.slice(0, 30)}: ${status}`)
        if (status >= 400) t.match(JSON.parse(text), errorShape(path), text)
      }
      const head = await ask(server.url + path, { method: 'HEAD' })
      t.ok(head.status < 500, `HEAD ${path}`)
    }
    for (const path of [...paths.map((path) => `${path}/nothing/at/all`), '/%', '/%00', '//x']) {
      const answer = await ask(server.url + path)
      t.equal(answer.status, 404, path)
      const { pathname } = new URL(server.url + path)
      t.match(JSON.parse(answer.text), errorShape(pathname), path)
    }
    await checkUnharmed(t, server)
  },
)

t.test('bodies that stop half-way', async (t) => {
  const server = await serveEverything()
  t.teardown(server.close)
  for (const route of takeBodies) {
    const head =
      `${route.method.toUpperCase()} ${addressOf(route)} HTTP/1.1\r\nHost: a\r\n` +
      'Content-Type: application/json\r\n'
    for (const length of ['Transfer-Encoding: chunked\r\n\r\n10', 'Content-Length: 99\r\n']) {
      for (const leave of ['destroy', 'end'] as const) {
        const connection = await rawRequest(server.port, `${head}${length}\r\n{"prompt":`)
        connection.socket[leave]()
        await until(() => connection.closed)
      }
    }
  }
  await checkUnharmed(t, server)
})
