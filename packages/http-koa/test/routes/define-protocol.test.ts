import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { type PartToken, PluginRegistry, definePlugin, token } from '@cllm/core'
import { registerPlugin } from '@cllm/host'
import { testProtocol } from '@cllm/testing'
import {
  API_DEFAULTS,
  LOG_LEVEL,
  type KoaProtocolsOptions,
  Services,
  createKoaProtocols,
  defineProtocol,
  hashKey,
  keyRing,
  type ObservedRequest,
  protocolsPlugin,
  unwatched,
} from '@cllm/http-koa'
import { encoded, Reply, StreamReply } from '@cllm/http-koa/protocol'
import t, { type Test } from 'tap'
import { clientKind, testEach } from '../each-client.js'
import { serveDirectory } from '../serve-directory.js'
import { rawRequest, serve, until } from '../serve.js'
import { messagesProtocol } from './messages-protocol.js'

type Definitions = Parameters<PluginRegistry['registerProtocol']>[0][]

const path = '/v1/answers'
const user = (content: string) => ({ messages: [{ role: 'user', content }] })

/** The built-in protocols, then those of a plug-in. */
async function registryWith(...definitions: Definitions): Promise<PluginRegistry> {
  const registry = new PluginRegistry()
  await registerPlugin(protocolsPlugin, registry)
  const plugin = definePlugin({
    name: 'mine',
    apiVersion: 1,
    register(host) {
      for (const definition of definitions) host.registerProtocol(definition)
    },
  })
  await registerPlugin(plugin, registry)
  return registry
}

async function serveNamed(t: Test, registry: PluginRegistry, options: KoaProtocolsOptions = {}) {
  const protocols = createKoaProtocols(registry, options)
  const server = await serve({ protocols, backend: { endProbability: 0 } })
  t.teardown(() => server.close())
  return server
}

testEach('a protocol of a plug-in passes the suite', async (t) => {
  const registry = await registryWith(messagesProtocol)
  const create = () => createKoaProtocols(registry, { names: ['answers'] })[0]!
  await testProtocol(t, serveDirectory(create), {
    client: clientKind(),
    request: (prompt, max_tokens, stream) => ({
      path,
      body: JSON.stringify({ ...user(prompt), max_tokens, stream }),
    }),
  })
})

t.test('it is served and described beside the built-in ones, with errors of its own', async (t) => {
  const registry = await registryWith(messagesProtocol)
  const server = await serveNamed(t, registry, { options: { answers: { max_tokens: 3 } } })
  t.match(await (await server.post(path, user('a'))).json(), {
    type: 'message',
    content: [{ type: 'text', text: /./ }],
    usage: { output_tokens: 3 },
  })
  const stream = await (await server.post(path, { ...user('a'), stream: true })).text()
  t.match(stream, /^event: message_start\n/)
  t.match(stream, /event: message_stop\ndata: .*\n\n$/)

  const wrong = await server.post(path, { messages: [] })
  t.equal(wrong.status, 400)
  t.match(await wrong.json(), { type: 'error', error: { message: /at least one message/ } })
  const elsewhere = await server.post('/v1/nothing', {})
  t.match(await elsewhere.json(), { error: { code: 'not_found', param: null } }, "OpenAI's words")

  const { paths } = (await (await server.get('/openapi.json')).json()) as { paths: object }
  t.hasProps(paths, [path, '/v1/chat/completions', '/metrics', '/docs'])
})

t.test('the protocols are made by name, with checked options', async (t) => {
  const registry = await registryWith(messagesProtocol)
  const names = (options?: KoaProtocolsOptions) =>
    createKoaProtocols(registry, options).map(({ name }) => name)
  t.same(names(), registry.protocolNames(), 'every registered one')
  t.same(names({ names: ['answers', 'native', 'native'] }), ['answers', 'native'])
  const code = 'invalid_configuration'
  t.throws(() => names({ names: ['answer'] }), { code, message: /did you mean "answers"/ })
  t.throws(() => names({ options: { openapi: { a: 1 } } }), { code, message: /it has no options/ })
  t.throws(() => names({ options: { anwers: {} } }), {
    code,
    message: /protocol_options: .*anwers/,
  })
  t.throws(() => names({ options: { native: { top_p: 2 } } }), {
    code,
    message: /protocol "native": option "top_p": a number from 0 to 1/,
  })
})

t.test('a protocol in plain JavaScript that would serve nothing is told', async (t) => {
  for (const made of [{}, { route: [] }, { routes: {} }]) {
    const create = () => ({ name: 'mute', ...made }) as never
    const registry = await registryWith(defineProtocol({ name: 'mute', doc: '-', create }))
    const message = /^protocol "mute": routes: Invalid input: expected array, received/
    t.throws(() => createKoaProtocols(registry), { code: 'plugin_invalid', message })
  }
})

const ping = { method: 'get', path: '/ping', access: 'open', summary: '-', handle: () => 'pong' }
/** A protocol with this route and these hooks, as plain JavaScript may have them. */
const pinging = (more: object, route: object = {}) =>
  defineProtocol({
    name: 'ping',
    doc: '-',
    create: () => ({ name: 'ping', routes: [{ ...ping, ...route }], ...more }) as never,
  })

t.test('a route that no request would reach, or that always fails, is told', async (t) => {
  for (const [route, at] of [
    [{ method: 'GET' }, 'routes.0.method: '],
    [{ path: 'ping' }, 'routes.0.path: expected such as "/a/:segment/\\*rest"'],
    [{ path: '/ping/{id}' }, 'routes.0.path: '],
    [{ path: '/ping/*' }, 'routes.0.path: '],
    [{ access: 'everyone' }, 'routes.0.access: '],
    [{ handle: undefined }, 'routes.0.handle: expected a function'],
  ] as const) {
    const registry = await registryWith(pinging({}, route))
    const message = new RegExp(`^protocol "ping": ${at}`)
    t.throws(() => createKoaProtocols(registry), { code: 'plugin_invalid', message })
  }
  const routes = ['/a/:b', '/ping', '/a/:c'].map((path) => ({ ...ping, path }))
  const registry = await registryWith(pinging({ routes }))
  const message = 'protocol "ping": routes: expected each path once for a method'
  t.throws(() => createKoaProtocols(registry), { code: 'plugin_invalid', message })
})

const throwing = (): never => {
  throw new Error('no luck')
}
const rejecting = async () => await Promise.reject(new Error('no luck'))

t.test('a hook that fails at the start is told with its protocol', async (t) => {
  for (const [hooks, problem] of [
    [{ observe: throwing }, 'observe: no luck'],
    [{ observe: rejecting }, 'observe: observe returned a promise'],
    [{ around: throwing }, 'around: no luck'],
    [{ around: (engines: object) => ({ ...engines }) }, 'around: it made no directory'],
    [{ start: throwing }, 'start: no luck'],
    [{ mount: throwing }, 'mount: no luck'],
  ] as const) {
    const message = new RegExp(`^protocol "ping": ${problem}`)
    const starting = serveNamed(t, await registryWith(pinging(hooks)))
    await t.rejects(starting, { code: 'plugin_invalid', message })
  }
  const hooks = { start: rejecting, mount: rejecting }
  const server = await serveNamed(t, await registryWith(pinging(hooks)))
  t.equal(await (await server.get('/ping')).text(), 'pong')
  const told = server.log.filter(({ level }) => level === 'error').map(({ message }) => message)
  t.same(told, ['protocol "ping": start: no luck', 'protocol "ping": mount: no luck'])
})

t.test('what observes requests fails none of them, and each is logged once', async (t) => {
  const ending = { onSubmit: () => ({ onEvent: throwing, onEnd: throwing }) }
  const observe = () => [{ onSubmit: () => ({ onEvent: rejecting, onEnd: rejecting }) }, ending]
  const server = await serveNamed(t, await registryWith(pinging({ observe })))
  const ask = async (on: typeof server, body: object = {}) =>
    await on.post('/v1/chat/completions', { ...user('a'), max_tokens: 2, ...body })
  t.equal((await ask(server)).status, 200)
  t.match(await (await ask(server, { stream: true })).text(), /\[DONE\]\n\n$/)
  const told = server.log.filter(({ message }) => message.startsWith('an observer of requests'))
  t.match(told, [{ fields: { protocol: 'ping' } }, { fields: { protocol: 'ping' } }])
  t.equal(told.length, 2, 'each of two')
  const late = pinging({ observe: () => ({ onSubmit: rejecting }) })
  const refusing = await serveNamed(t, await registryWith(late))
  t.equal((await ask(refusing)).status, 500, 'one that may refuse does not let everybody in')
  const [{ fields } = { fields: {} }] = refusing.log.filter(({ level }) => level === 'error')
  const err = { message: 'onSubmit returned a promise: it is synchronous' }
  t.match(fields, { protocol: 'ping', err })
})

t.test('what answers a request is named when it fails, once', async (t) => {
  const failing = Readable.from(
    (async function* () {
      yield 'abc'
      throw new Error('no luck')
    })(),
  )
  const unmade = encoded('text/event-stream', [] as never, throwing)
  const passing = pinging({ name: 'other' }, { handle: () => undefined })
  const other = { ...passing, name: 'other' }
  for (const answer of [throwing, () => new Reply(failing), () => unmade]) {
    const registry = await registryWith(other, pinging({}, { handle: answer }))
    const server = await serveNamed(t, registry)
    await server
      .get('/ping')
      .then(async (response) => await response.text())
      .catch(() => {})
    const errors = server.log.filter(({ level }) => level === 'error')
    const named = { protocol: 'ping', route: 'get /ping', err: { message: 'no luck' } }
    t.match(errors, [{ fields: named }])
    t.equal(errors.length, 1)
  }
})

t.test('a protocol may let clients in, by keys that it looks up', async (t) => {
  const hash = hashKey('secret')
  const ann = { name: 'ann', tenant: 'shop', role: 'user', hash } as const
  const find = async (secret: string) => {
    if (secret === 'broken') throw new Error('no luck')
    return secret === 'secret' ? ann : (null as never)
  }
  const seen: object[] = []
  const observe = () => ({
    onSubmit({ key, request }: ObservedRequest) {
      seen.push({ key, tenant: request.tenant })
      return unwatched
    },
  })
  const keys = { find, withHash: () => ann }
  const registry = await registryWith(pinging({ keys, observe }))
  const server = await serveNamed(t, registry)
  const ask = async (path: string, key: string) => {
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const body = { prompt: 'a', max_tokens: 1, tenant: 'another' }
    return (await server.post(path, body, { headers })).status
  }
  t.equal(await ask('/generate', 'guess'), 401)
  t.equal(await ask('/generate', 'secret'), 200)
  t.same(seen, [{ key: 'ann', tenant: 'shop' }], 'not whose the client says that it is')
  t.equal(await ask('/admin/drain', 'secret'), 403)
  t.equal(await ask('/generate', 'broken'), 500)
  const [failed] = server.log.filter(({ level }) => level === 'error')
  t.match(failed, { fields: { err: { message: 'no luck' }, route: undefined } }, 'no route did')
  t.equal((await server.get('/health/live')).status, 200, 'open to everybody')
  const unmade = serve({ protocols: [pinging({ keys }) as never] })
  const expected = 'protocol "ping": create: expected what it makes, instead got its definition'
  await t.rejects(unmade, { message: expected }, 'or everybody would be let in')
  const protocols = createKoaProtocols(registry)
  const both = serve({ protocols, transport: { security: { keys: keyRing(() => [ann]) } } })
  const message = 'protocol "ping": keys: the server has other keys already'
  await t.rejects(both, { code: 'plugin_invalid', message })
})

t.test(
  'a route that leaves the answer to another one does not let in whom that refuses',
  async (t) => {
    const ann = { name: 'ann', tenant: 'a', role: 'user', hash: hashKey('secret') } as const
    const leaving = { name: 'leaving', routes: [{ ...ping, handle: () => undefined }] }
    for (const [access, guest, user] of [
      ['open', 200, 200],
      ['user', 401, 200],
      ['metrics', 401, 403],
      ['admin', 401, 403],
    ] as const) {
      const answering = { name: 'answering', routes: [{ ...ping, access }] }
      const security = { keys: keyRing(() => [ann]) }
      const protocols = [leaving, answering] as never
      const server = await serve({ protocols, transport: { security } })
      t.teardown(server.close)
      t.equal((await server.get('/ping')).status, guest)
      const headers = { authorization: 'Bearer secret' }
      t.equal((await server.get('/ping', { headers })).status, user)
    }
  },
)

t.test('a protocol closes after the last answer; one that cannot is named', async (t) => {
  const registry = await registryWith(pinging({ close: throwing }))
  const [ping] = createKoaProtocols(registry, { names: ['ping'] })
  const closed: string[] = []
  const well = { name: 'well', close: async () => void closed.push('well') }
  const hanging = { name: 'hanging', close: async () => await new Promise<void>(() => {}) }
  const server = await serve({ protocols: [ping!, hanging, well] })
  const closing = server.close()
  await until(() => closed.length > 0 && server.log.length > 0)
  server.clock.advance(1500)
  await closing
  t.same(closed, ['well'])
  t.match(server.log, [
    { message: 'protocol "ping": close: no luck' },
    { message: 'protocol "hanging": close: it has not ended after 1.5 s' },
  ])
})

t.test('what is around each request may forget to wait for its answer', async (t) => {
  const within = (_: object, handle: () => Promise<void>) => void handle()
  const body = { ...user('a'), max_tokens: 2 }
  const chat = '/v1/chat/completions'
  const server = await serveNamed(t, await registryWith(pinging({ within })))
  t.equal((await server.post(chat, body)).status, 200)
  const deaf = await serveNamed(t, await registryWith(pinging({ within: () => {} })))
  const answer = await deaf.post(chat, body)
  t.equal(answer.status, 500)
  const message = 'protocol "ping": within: it answers no request'
  t.match(await answer.json(), { error: { code: 'plugin_invalid', message } })
})

t.test('a stream of no media type fails, and is not left open', async (t) => {
  const handle = () => new StreamReply('text/\nplain', () => {})
  const server = await serveNamed(t, await registryWith(pinging({}, { handle })))
  const answer = await server.get('/ping')
  t.equal(answer.status, 500)
  t.match(await answer.json(), { code: 'internal' })
})

t.test('what a handler answers that is no JSON is told in the words of its protocol', async (t) => {
  const circle: Record<string, unknown> = {}
  circle['self'] = circle
  async function* pieces() {
    yield 'a'
  }
  const unawaited = new Reply(Promise.resolve({ a: 1 }))
  const big = new Reply({ big: 1n }, { status: 201 })
  for (const answer of [{ big: 1n }, circle, big, pieces(), unawaited, new Map([['a', 1]])]) {
    const server = await serveNamed(t, await registryWith(pinging({}, { handle: () => answer })))
    const failed = await server.get('/ping')
    t.equal(failed.status, 500)
    const error = /^get \/ping answered no JSON: /
    t.match(await failed.json(), { code: 'plugin_invalid', error })
    t.equal(server.log.filter(({ level }) => level === 'error').length, 1)
  }
  for (const [answer, text] of [
    [[1], '[1]'],
    ['a', 'a'],
    [{}, '{}'],
    [null, ''],
    [new Reply(new Blob(['{ }']).stream(), { type: 'json' }), '{ }'],
    [Response.json([2]), '[2]'],
  ] as const) {
    const server = await serveNamed(t, await registryWith(pinging({}, { handle: () => answer })))
    t.equal(await (await server.get('/ping')).text(), text)
  }
})

t.test('a stream that is only asked for its head keeps no connection', async (t) => {
  const handle = () => new StreamReply('text/plain', async () => await new Promise(() => {}))
  const server = await serveNamed(t, await registryWith(pinging({}, { handle })))
  const next = 'GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'
  const both = await rawRequest(server.port, `HEAD /ping HTTP/1.1\r\nHost: a\r\n\r\n${next}`)
  t.teardown(() => both.socket.destroy())
  await until(() => both.closed)
  t.match(both.received, /^HTTP.1.1 200 OK\r\n[^]*text.plain[^]*"alive"/)
})

t.test('a stream whose encoder is not made is cut off, not ended', async (t) => {
  for (const create of [throwing, () => undefined]) {
    const handle = () => encoded('text/event-stream', [] as never, create as never)
    const server = await serveNamed(t, await registryWith(pinging({}, { handle })))
    await t.rejects((await server.get('/ping')).text())
  }
})

t.test('a built-in protocol is replaced on purpose only', async (t) => {
  const mine = (replaces: boolean) =>
    defineProtocol({
      name: 'openai',
      doc: 'Lists one model.',
      replaces,
      create: () => ({
        name: 'openai',
        mount(router) {
          router.get('/v1/models', (ctx) => void (ctx.body = ['mine']))
        },
      }),
    })
  await t.rejects(registryWith(mine(false)), { code: 'plugin_conflict', message: /replaces: true/ })
  const server = await serveNamed(t, await registryWith(mine(true)))
  t.same(await (await server.get('/v1/models')).json(), ['mine'])
  t.equal((await server.post('/v1/completions', { prompt: 'a' })).status, 404)
})

t.test("the operator's defaults, and those of one protocol's options", async (t) => {
  const server = await serveNamed(t, await registryWith(), {
    services: new Services().set(API_DEFAULTS, { maxTokens: 5 }),
    options: { openai: { max_tokens: 2 }, ollama: { max_tokens: 4, temperature: 0 } },
  })
  const ask = async (path: string, body: object) => await (await server.post(path, body)).json()
  t.match(await ask('/generate', { prompt: 'a' }), { data: { generated_tokens: 5 } })
  t.match(await ask('/v1/completions', { prompt: 'a' }), { usage: { completion_tokens: 2 } })
  const raw = { model: 'fake', prompt: 'a', raw: true, stream: false }
  t.match(await ask('/api/generate', raw), { eval_count: 4 })
})

t.test('a protocol gets services by token, its own as well', async (t) => {
  const GREETING: PartToken<string> = token('Greeting')
  const greeting = defineProtocol({
    name: 'greeting',
    doc: 'Greets.',
    create: (_options, services) => ({
      name: 'greeting',
      routes: [
        {
          method: 'get',
          path: '/greeting',
          access: 'open',
          summary: 'A greeting',
          handle: () => [services.get(GREETING), services.get(LOG_LEVEL)?.level ?? 'none'],
        },
      ],
    }),
  })
  const services = new Services().set(GREETING, 'Hello')
  const server = await serveNamed(t, await registryWith(greeting), { services })
  t.same(await (await server.get('/greeting')).json(), ['Hello', 'none'])
})

const root = new URL('../../../..', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

t.test('the code of the README is that of the tested examples', (t) => {
  const blocks = Array.from(
    read('packages/http-koa/README.md').matchAll(/```js\n([^]*?)```/g),
    ([, code]) => code,
  )
  const examples = ['examples/compose-server/server.js', 'examples/protocol-plugin/plain-text.js']
  t.same(
    blocks,
    examples.map((path) => read(path).replace('// @ts-check\n', '')),
  )
  t.end()
})
