import * as fc from 'fast-check'
import t from 'tap'
import {
  addressOf,
  checkUnharmed,
  errorSchema,
  everyRoute,
  serveEverything,
  takeBodies,
  validBodies,
} from './every-route.js'
import { rawRequest, until } from './serve.js'

/** Failures of the server that are documented: unable, full, on its way out. */
const documented = new Set([501, 503])

function checkFailure(path: string, status: number, text: string): void {
  if (status >= 500 && !documented.has(status)) throw new Error(`${path}: ${status}: ${text}`)
  if (status >= 400) errorSchema(path).strict().parse(JSON.parse(text))
}

const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels)
const anyJson = fc.oneof(
  { weight: 3, arbitrary: fc.json({ maxDepth: 3 }) },
  fc.json({ stringUnit: 'binary' }),
  fc.integer().map(String),
  fc.constantFrom('1e999', '-0', '9007199254740993', '1e-400', '0.1', '""', 'null', '{}', '[]'),
  fc.constantFrom('"\\ud800"', '"\\udc00\\ud800"', '"\\u0000"', '"\uFEFF"', '"<|im_end|></s>"'),
  fc.constantFrom(deep(90), deep(200), `[${'0,'.repeat(20_000)}0]`, `"${'x'.repeat(200_000)}"`),
  fc.constant('{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'),
)

/** A valid body with fields added, changed and repeated. */
const bodyOf = fc.constantFrom(...takeBodies).chain((route) => {
  const names = [...Object.keys(route.body!.shape), '__proto__', 'constructor', 'x', '\u0000']
  const change = fc.tuple(fc.constantFrom(...names), anyJson)
  return fc.record({
    route: fc.constant(route).map(({ method, path }) => ({ method, path })),
    body: fc.array(change, { minLength: 1, maxLength: 4 }).map((changes) => {
      const valid = Object.entries(validBodies[route.path]!)
      const fields = valid.map(([name, value]) => [name, JSON.stringify(value)] as const)
      const all = [...fields, ...changes].map(([name, value]) => `${JSON.stringify(name)}:${value}`)
      return `{${all.join()}}`
    }),
  })
})

t.test('bodies of any shape, to every route', async (t) => {
  const server = await serveEverything()
  t.teardown(server.close)
  await fc.assert(
    fc.asyncProperty(bodyOf, async ({ route, body }) => {
      const answer = await server.get(addressOf(route), {
        method: route.method.toUpperCase(),
        headers: { 'content-type': 'application/json' },
        body,
      })
      checkFailure(route.path, answer.status, await answer.text())
    }),
    { numRuns: 600, includeErrorInReport: true },
  )
  t.notOk('polluted' in {}, 'no prototype was touched')
  await checkUnharmed(t, server)
})

const token = fc.string({ maxLength: 20 })
const headerLine = fc.oneof(
  fc.constantFrom(
    'Content-Length: 5',
    'Content-Length: -1',
    'Content-Length: 99999999999999999999',
    'Content-Length: 2\r\nContent-Length: 3',
    'Transfer-Encoding: chunked',
    'Transfer-Encoding: gzip, chunked',
    'Transfer-Encoding: chunked\r\nContent-Length: 4',
    'Content-Type: application/json',
    'Content-Type: ;;;=',
    'Expect: 100-continue',
    'Expect: the moon',
    'Connection: Upgrade\r\nUpgrade: websocket',
    'Connection: close',
    'X-Request-Id: \u00ff\u00fe',
    'Authorization: Bearer',
    'Cookie: __proto__=1',
    ' folded: line',
    'no colon',
  ),
  fc.tuple(token, token).map(([name, value]) => `${name}: ${value}`),
  fc.integer({ min: 1, max: 3000 }).map((length) => `x-long: ${'x'.repeat(length)}`),
  fc.integer({ min: 1, max: 300 }).map((count) => 'x: 1\r\n'.repeat(count).trimEnd()),
)
const target = fc.oneof(
  fc.constantFrom(...everyRoute.map(addressOf)),
  fc.constantFrom(
    '*',
    'http://other/health',
    '/%',
    '/%00',
    '/../../etc/passwd',
    '/v1/models/..%2f',
  ),
  fc.webPath().map((path) => path || '/'),
  token,
)
const rawText = fc
  .tuple(
    fc.constantFrom('GET', 'POST', 'PUT', 'HEAD', 'OPTIONS', 'CONNECT', 'TRACE', 'get', 'X'),
    target,
    fc.constantFrom('HTTP/1.1', 'HTTP/1.1', 'HTTP/1.0', 'HTTP/2.0', 'HTTP/1.1\n', ''),
    fc.array(headerLine, { maxLength: 5 }),
    fc.oneof(
      fc.constantFrom('', '{"prompt":"a"}', '5\r\nhello\r\n0\r\n\r\n', 'zz\r\n'),
      fc.string(),
    ),
  )
  .map(([method, path, version, headers, body]) =>
    [`${method} ${path} ${version}`, 'Host: a', ...headers, '', body].join('\r\n'),
  )
/** Requests one behind the other, in which some bytes are something else. */
const rawBytes = fc
  .tuple(
    fc.array(rawText, { minLength: 1, maxLength: 3 }),
    fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 2 }),
  )
  .map(([texts, changes]) => {
    const bytes = Buffer.from(texts.join(''), 'latin1')
    for (const [at, byte] of changes) bytes[at % bytes.length] = byte
    return bytes
  })

t.test('any bytes', async (t) => {
  const timeouts = { headerTimeoutMs: 200, bodyTimeoutMs: 200, keepAliveMs: 200 }
  const server = await serveEverything(timeouts)
  t.teardown(server.close)
  const check = async (bytes: Buffer) => {
    const client = await rawRequest(server.port, '')
    client.socket.write(bytes)
    await until(() => client.closed) // at the latest when the server has had enough
    for (const answer of client.received.split(/(?=HTTP\/1\.1 \d{3} )/)) {
      if (answer === '') continue
      const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1])
      const isFine = status < 500 || documented.has(status)
      if (!isFine) throw new Error(`${JSON.stringify(bytes.toString('latin1'))}: ${answer}`)
    }
  }
  await fc.assert(
    fc.asyncProperty(fc.array(rawBytes, { minLength: 20, maxLength: 20 }), async (all) => {
      await Promise.all(all.map(check))
    }),
    { numRuns: 12, endOnFailure: true, includeErrorInReport: true },
  )
  await checkUnharmed(t, server)
})
