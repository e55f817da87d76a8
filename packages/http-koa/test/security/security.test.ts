import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { type EngineDirectory, type GenerateRequest, SimulatedClock } from '@cllm/core'
import { plainEnvironment, testEngineClient, testEngineDirectory } from '@cllm/testing'
import {
  type ApiKey,
  type KoaRouter,
  adminProtocol,
  anthropicProtocol,
  hashKey,
  keyRing,
  type LimitCounter,
  llamaServerProtocol,
  metricsProtocol,
  modelsProtocol,
  nativeProtocol,
  ollamaProtocol,
  openAiProtocol,
  parseKeys,
} from '@cllm/http-koa'
import t from 'tap'
import { watchEngines } from '../../src/engines/watch-engines.js'
import { RateLimits } from '../../src/security/rate-limits.js'
import { requestScope } from '../../src/security/authenticate.js'
import { wrappedPool } from '../conformance-engines.js'
import { drive } from '@cllm/testing'
import { testEach } from '../each-client.js'
import { type ServeOptions, rawRequest, serve, until } from '../serve.js'

const key = (name: string, more: Partial<ApiKey> = {}): ApiKey => ({
  name,
  tenant: name,
  role: 'user',
  hash: hashKey(`secret-of-${name}`),
  ...more,
})
const ann = key('ann')
const bob = key('bob')
const root = key('root', { role: 'admin' })
const prom = key('prom', { role: 'metrics' })

const as = (name: string, more: Record<string, string> = {}) => ({
  headers: {
    'Content-Type': 'application/json',
    Authorization: `Bearer secret-of-${name}`,
    ...more,
  },
})

const all = () => [
  metricsProtocol(),
  nativeProtocol(),
  openAiProtocol(),
  ollamaProtocol(),
  llamaServerProtocol(),
  modelsProtocol(),
  adminProtocol(),
]

const serveKeys = async (keys: readonly ApiKey[], more: ServeOptions = {}) => {
  const server = await serve({
    protocols: all(),
    engine: { isolateTenants: true },
    ...more,
    transport: { security: { keys: keyRing(() => keys), ...more.transport?.security } },
  })
  t.teardown(server.close)
  return server
}

testEach('nobody is let in without a key, in the words of each protocol', async (t) => {
  const server = await serveKeys([ann, root])
  const paths = ['/generate', '/encode', '/v1/chat/completions', '/v1/nothing', '/api/chat']
  for (const path of [...paths, '/completion', '/admin/scheduler', '/metrics', '/slots']) {
    for (const init of [{}, as('eve'), { headers: { 'x-api-key': 'eve' } }]) {
      const answer = await server.post(path, { prompt: 'Hi' }, init)
      t.equal(answer.status, 401, path)
      t.equal(answer.headers.get('www-authenticate'), 'Bearer')
      t.equal(answer.headers.get('x-should-retry'), 'false', 'no program tries it again')
      t.notMatch(await answer.text(), 'secret')
    }
  }
  const body = async (path: string): Promise<unknown> => (await server.post(path, {})).json()
  t.match(await body('/generate'), { success: false, code: 'unauthenticated' })
  t.match(await body('/v1/completions'), {
    error: { type: 'authentication_error', code: 'invalid_api_key' },
  })
  t.match(await body('/api/chat'), { error: String })
  t.match(await body('/completion'), { error: { code: 401, type: 'authentication_error' } })
  for (const path of ['/', '/health', '/v1/health', '/metrics/load', '/Metrics/Load/']) {
    t.equal((await server.get(path)).status, 200, path)
  }
  t.equal((await server.post('/generate', { prompt: 'Hi' }, as('ann'))).status, 200)
  const headers = { 'x-api-key': 'secret-of-ann' }
  t.equal((await server.get('/model/info', { headers })).status, 200)
})

testEach('what is for admins only', async (t) => {
  const server = await serveKeys([ann, root])
  const paths = ['/metrics', '/metrics/', '/METRICS', '/admin/scheduler', '/Admin/Scheduler/']
  for (const path of [...paths, '/admin/nothing']) {
    const refused = await server.get(path, as('ann'))
    t.equal(refused.status, 403, path)
    t.match(await refused.json(), { code: 'forbidden', error: /admin.*"ann"/ })
  }
  for (const path of paths) t.equal((await server.get(path, as('root'))).status, 200, path)
  t.equal((await server.post('/benchmark', {}, as('ann'))).status, 403)
  for (const path of ['/v1/load_lora_adapter', '/v1/unload_lora_adapter', '/lora-adapters']) {
    t.equal((await server.post(path, {}, as('ann'))).status, 403, path)
    t.not((await server.post(path, {}, as('root'))).status, 403, path)
  }
  t.not((await server.get('/lora-adapters', as('ann'))).status, 403, 'users may look at them')
  const slots = async (key: string) => await (await server.get('/slots', as(key))).json()
  t.hasStrict(await slots('root'), [{ n_past: 0 }])
  t.notHas(await slots('ann'), [{ n_past: Number }], 'how long the prompts of others are')
})

testEach('what a key for metrics may', async (t) => {
  const mount = (router: KoaRouter) => void router.get('/mounted', (ctx) => (ctx.body = 'yes'))
  const protocols = [...all(), { name: 'mounting', mount }]
  const server = await serveKeys([ann, prom], { protocols })
  for (const path of ['/metrics', '/metrics/load', '/health', '/health/ready']) {
    t.equal((await server.get(path, as('prom'))).status, 200, path)
  }
  const refused = async (answer: Response, roles: string) => {
    t.equal(answer.status, 403, answer.url)
    t.match(await answer.text(), `needs a key with the role ${roles}; that of`)
  }
  for (const path of ['/model/info', '/v1/models', '/requests/1', '/slots', '/mounted', '/none']) {
    await refused(await server.get(path, as('prom')), 'user or admin')
  }
  for (const path of ['/generate', '/v1/chat/completions', '/api/chat', '/completion']) {
    await refused(await server.post(path, { prompt: 'Hi' }, as('prom')), 'user or admin')
  }
  await refused(await server.get('/admin/keys', as('prom')), 'admin')
  await refused(await server.get('/metrics', as('ann')), 'metrics or admin')
})

testEach('what is mounted for all methods answers OPTIONS only with a key', async (t) => {
  const mount = (router: KoaRouter) =>
    void router.all(['/mounted', '/health'], (ctx) => (ctx.body = 'yes'))
  const server = await serveKeys([ann, root], {
    protocols: [...all(), { name: 'mounting', mount }],
  })
  const options = async (path: string, { headers }: RequestInit = {}) =>
    await fetch(`${server.url}${path}`, { method: 'OPTIONS', ...(headers && { headers }) })
  t.equal((await options('/mounted')).status, 401)
  t.equal((await options('/mounted', as('ann'))).status, 403)
  t.equal(await (await options('/mounted', as('root'))).text(), 'yes')
  const route = await options('/health')
  t.equal(route.headers.get('allow'), 'HEAD, GET', "a route's own path is the route's")
  t.equal(await route.text(), '')
})

testEach('what users of Ollama may not do to others', async (t) => {
  const server = await serveKeys([ann, root])
  const { directory } = server.server
  const [kept, unloaded]: [(number | undefined)[], string[]] = [[], []]
  const open = directory.open.bind(directory)
  directory.open = (id, options) => {
    if (options?.peek !== true) kept.push(options?.keepAliveMs)
    return open(id, options)
  }
  directory.unload = async (id) => void unloaded.push(id)
  const ask = async (path: string, body: object, name: string) => {
    const answer = await server.post(path, { stream: false, ...body }, as(name))
    return [answer.status, await answer.text()]
  }
  for (const [path, body] of [
    ['/api/create', { model: 'own', from: 'fake' }],
    ['/api/copy', { source: 'fake', destination: 'other' }],
  ] as const) {
    t.match(await ask(path, body, 'ann'), [403, /needs a key with the role admin;/])
    t.match(await ask(path, body, 'root'), [200, String])
  }
  const prompt = { prompt: 'Hi', options: { num_predict: 1 } }
  for (const model of ['fake', 'own']) {
    const unload = { model, keep_alive: 0 }
    t.match(await ask('/api/generate', unload, 'ann'), [403, /keep_alive: .* admin/])
    t.match(await ask('/api/chat', unload, 'ann'), [403, /keep_alive: .* admin/])
    t.same(unloaded, [])
    kept.splice(0)
    t.match(await ask('/api/generate', { ...unload, ...prompt }, 'ann'), [200, String])
    t.ok(kept.length > 0 && kept.every((ms) => ms === undefined), 'it stays for the others')
    t.match(await ask('/api/generate', { ...unload, ...prompt }, 'root'), [200, String])
    t.ok(kept.includes(0))
    t.match(await ask('/api/generate', unload, 'root'), [200, /unload/])
    t.same(unloaded.splice(0), ['fake'])
  }
})

testEach('requests are the tenant of their key, and nobody else sees them', async (t) => {
  const server = await serveKeys([ann, bob, root, key('ann-2', { tenant: 'ann' })])
  const requests: GenerateRequest[] = []
  const submit = server.client.submit.bind(server.client)
  server.client.submit = (request, options) => {
    requests.push(request)
    return submit(request, options)
  }
  const tenantOf = async (path: string, body: object, name: string, header = 'ann') => {
    const init = as(name, { 'x-cllm-tenant': header })
    const answer = await server.post(path, { ...body, stream: false }, init)
    t.equal(answer.status, 200, answer.ok ? path : await answer.text())
    return requests.at(-1)?.tenant
  }
  const messages = [{ role: 'user', content: 'Hi' }]
  for (const [path, body] of [
    ['/generate', { prompt: 'Hi', max_tokens: 2, tenant: 'ann' }],
    ['/v1/completions', { prompt: 'Hi', max_tokens: 2, tenant: 'ann' }],
    ['/v1/chat/completions', { messages, max_tokens: 2, tenant: 'ann' }],
    ['/completion', { prompt: 'Hi', n_predict: 2, tenant: 'ann' }],
    ['/api/generate', { model: 'fake', prompt: 'Hi', options: { num_predict: 2 } }],
    ['/api/chat', { model: 'fake', messages, options: { num_predict: 2 } }],
  ] as const) {
    t.equal(await tenantOf(path, body, 'bob'), 'bob', `${path}: a user is who the key says`)
  }
  const body = { prompt: 'Hi', max_tokens: 2 }
  t.equal(await tenantOf('/generate', body, 'root'), 'ann', 'an admin may act for others')
  t.equal(await tenantOf('/generate', body, 'root', ''), 'root')

  await server.post('/generate', body, as('ann', { 'x-request-id': 'of-ann' }))
  const look = async (name: string) => {
    const answer = await server.get('/requests/of-ann', as(name))
    return { status: answer.status, body: (await answer.json()) as { code?: string } }
  }
  t.equal((await look('ann')).status, 200)
  t.equal((await look('ann-2')).status, 200, 'another key of the tenant')
  t.equal((await look('root')).status, 200)
  const hidden = await look('bob')
  const missing = await server.get('/requests/of-nobody', as('bob'))
  t.equal(hidden.status, 404)
  t.equal(
    JSON.stringify(hidden.body).replace('of-ann', 'X'),
    (await missing.text()).replace('of-nobody', 'X'),
    'as if there was none',
  )
})

testEach('no cache hit, and no timing of one, crosses tenants', async (t) => {
  const server = await serveKeys([ann, bob])
  const secret = 'The code of the safe is one two three four five six seven eight nine ten'
  const ask = async (name: string) => {
    const body = { prompt: secret, max_tokens: 1, timings: true }
    const answer = await server.post('/generate', body, as(name))
    const { data } = (await answer.json()) as {
      data: { cached_tokens: number; prompt_tokens: number; timings: { prefill_chunks: number } }
    }
    return data
  }
  const first = await ask('ann')
  t.equal(first.cached_tokens, 0)
  const before = (await server.client.statistics()).prefillTokens
  const other = await ask('bob')
  t.equal(other.cached_tokens, 0)
  const computed = (await server.client.statistics()).prefillTokens - before
  t.equal(computed, first.prompt_tokens, 'as much is computed as if nobody had asked before')
  t.equal(other.timings.prefill_chunks, first.timings.prefill_chunks)
  t.equal((await ask('ann')).cached_tokens, first.prompt_tokens - 1, 'its own is found')
  t.equal((await ask('bob')).cached_tokens, first.prompt_tokens - 1)
})

testEach('limits per key, with the headers of OpenAI', async (t) => {
  const limited = key('ann', { requestsPerMinute: 3 })
  const tokens = key('bob', { tokensPerMinute: 12 })
  const server = await serveKeys([limited, tokens, root], {
    transport: { security: { limits: { requestsPerMinute: 100 } } },
  })
  const ask = (name: string, max = 1) =>
    server.post('/v1/completions', { prompt: 'Hi', max_tokens: max, ignore_eos: true }, as(name))
  for (const remaining of ['2', '1', '0']) {
    const { status, headers } = await ask('ann')
    t.equal(status, 200)
    t.equal(headers.get('x-ratelimit-limit-requests'), '3')
    t.equal(headers.get('x-ratelimit-remaining-requests'), remaining)
    t.match(headers.get('x-ratelimit-reset-requests'), /^\d+s$/)
  }
  const refused = await ask('ann')
  t.equal(refused.status, 429)
  const seconds = Number(refused.headers.get('retry-after'))
  t.ok(seconds >= 1 && seconds <= 60, `${seconds} s`)
  t.match(await refused.json(), {
    error: { type: 'rate_limit_error', code: 'rate_limit_exceeded', message: /3 requests/ },
  })
  t.equal((await server.get('/v1/models', as('ann'))).status, 200, 'looking is free')

  const { headers } = await ask('bob', 10)
  t.equal(headers.get('x-ratelimit-limit-requests'), '100', "the server's")
  t.equal(headers.get('x-ratelimit-remaining-tokens'), '12')
  const over = await ask('bob')
  t.equal(over.status, 429)
  t.equal(over.headers.get('x-ratelimit-remaining-tokens'), '0')
  t.match(await over.json(), { error: { message: /12 tokens/ } })
  t.equal((await ask('root')).headers.get('x-ratelimit-limit-tokens'), null)
})

t.test('the prompt of a request that pauses counts once', async (t) => {
  const clock = new SimulatedClock(0)
  const used: number[] = []
  const counter: LimitCounter = {
    get: async () => null,
    penalty: async (_key, points) => ({ consumedPoints: used.push(points), msBeforeNext: 1 }),
  }
  const limits = new RateLimits({ tokensPerMinute: 100 }, clock, () => counter)
  for (const continued of [
    undefined,
    { tokens: [1], elapsedMs: 1 },
    { tokens: [1], elapsedMs: 2 },
  ]) {
    const request = { prompt: { text: '' }, ...(continued && { continued }) }
    const watch = requestScope.run({ key: ann }, () =>
      limits.onSubmit({ model: 'fake', request, at: 0 }),
    )
    watch.onEvent({ type: 'start', id: 'a', promptTokens: 50 }, 0)
    watch.onEvent({ type: 'token', token: 1, text: '' }, 0)
    watch.onEnd(0)
  }
  clock.advance(1000)
  t.same(used, [53])
  requestScope.run({ key: ann }, () => limits.onEmbedded({ model: 'fake', tokens: 7, ms: 1 }))
  clock.advance(1000)
  t.same(used, [53, 7], 'inputs that are embedded count, too')
})

t.test("a key whose limit is undefined has the server's", async (t) => {
  const unlimited = { ...ann, requestsPerMinute: undefined } as never
  const limits = new RateLimits({ requestsPerMinute: 1 }, new SimulatedClock(0))
  await limits.count(unlimited)
  await t.rejects(limits.count(unlimited), { code: 'rate_limited' })
})

t.test('who is over two limits is told when the later one ends', async (t) => {
  for (const [ofRequests, ofTokens] of [
    [5000, 40_000],
    [40_000, 5000],
  ] as const) {
    const both = { requestsPerMinute: 1, tokensPerMinute: 1 }
    const limits = new RateLimits(both, new SimulatedClock(0), (unit) => {
      const used = { consumedPoints: 9, msBeforeNext: unit === 'tokens' ? ofTokens : ofRequests }
      return { get: async () => used, penalty: async () => used }
    })
    const error = { code: 'rate_limited', message: /in 40 s/, details: { retryAfterMs: 40_000 } }
    await t.rejects(limits.count(ann), error)
  }
})

t.test(
  'a clock that is set does not tell clients to wait for an hour, or a negative time',
  async (t) => {
    for (const hour of [3_600_000, -3_600_000]) {
      const used = async () => ({ consumedPoints: 4, msBeforeNext: 30_000 + hour })
      const counter = () => ({ get: used, penalty: used })
      const limits = new RateLimits({ requestsPerMinute: 3 }, new SimulatedClock(0), counter)
      const told: Record<string, string> = {}
      await t.rejects(
        limits.count(ann, (headers) => Object.assign(told, headers)),
        { message: /try again in 60 s/, details: { retryAfterMs: 60_000 } },
      )
      t.match(told, { 'x-ratelimit-reset-requests': '60s' })
    }
  },
)

testEach('keys may change while it runs', async (t) => {
  let keys = [ann]
  const server = await serve({ transport: { security: { keys: keyRing(() => keys) } } })
  t.teardown(server.close)
  const status = async (name: string) => (await server.get('/model/info', as(name))).status
  t.equal(await status('ann'), 200)
  keys = [bob]
  t.equal(await status('ann'), 401)
  t.equal(await status('bob'), 200)
})

t.test('a file of keys says what is wrong with it', (t) => {
  const good = { keys: [{ ...ann, requestsPerMinute: 5 }] }
  t.same(parseKeys(JSON.stringify(good), 'f'), good.keys)
  for (const [bad, message] of [
    ['no json', /f: expected JSON/],
    [{ keys: [{ ...ann, role: 'boss' }] }, /f: keys\.0\.role/],
    [{ keys: [{ ...ann, hash: 'secret' }] }, /f: keys\.0\.hash: expected 64/],
    [{ keys: [{ ...ann, tokensPerMinute: 0 }] }, /keys\.0\.tokensPerMinute/],
    [{}, /f: keys/],
  ] as const) {
    const text = typeof bad === 'string' ? bad : JSON.stringify(bad)
    t.throws(() => parseKeys(text, 'f'), { code: 'invalid_configuration', message })
  }
  t.equal(hashKey('x'), createHash('sha256').update('x').digest('hex'))
  t.end()
})

testEach('pages of other origins only where allowed', async (t) => {
  const origin = 'https://chat.example.org'
  const preflight = {
    method: 'OPTIONS',
    headers: { Origin: origin, 'Access-Control-Request-Method': 'POST' },
  }
  const closed = await serveKeys([ann])
  const asked = await closed.get('/generate', preflight)
  t.equal(asked.status, 403, 'it is asked before a key is sent')
  t.equal(asked.headers.get('access-control-allow-origin'), null)
  const why = `Pages of ${origin} may not use this server; --cors-origins ${origin} would let them`
  t.equal(asked.headers.get('x-cllm-warning'), why, 'browsers hide the body')
  t.match(await asked.json(), { code: 'origin_not_allowed', error: why })
  const open = await serveKeys([ann], { transport: { security: { corsOrigins: [origin] } } })
  const answer = await open.get('/generate', preflight)
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('access-control-allow-origin'), origin)
  const methods = async (path: string) =>
    (await open.get(path, preflight)).headers.get('access-control-allow-methods')
  t.equal(await methods('/generate'), 'GET, POST, DELETE, OPTIONS', 'as with llama-server')
  t.equal(await methods('/admin/scheduler'), 'GET, POST, DELETE, OPTIONS, PUT, PATCH')
  const other = await open.get('/generate', {
    ...preflight,
    headers: { ...preflight.headers, Origin: 'https://evil.example.org' },
  })
  t.equal(other.headers.get('access-control-allow-origin'), null)
  const refused = await open.post('/generate', {}, { headers: { Origin: origin } })
  t.equal(refused.status, 401)
  t.equal(refused.headers.get('access-control-allow-origin'), origin, 'pages can read errors')
  const local = await serveKeys([ann], { transport: { security: { corsOrigins: ['localhost'] } } })
  for (const [page, isLocal] of [
    ['http://localhost:3000', true],
    ['https://127.0.0.1', true],
    ['http://[::1]:5173', true],
    ['http://localhost.example.org', false],
    ['http://notlocalhost', false],
  ] as const) {
    const headers = { ...preflight.headers, Origin: page }
    const asked = await local.get('/generate', { ...preflight, headers })
    t.equal(asked.headers.get('access-control-allow-origin'), isLocal ? page : null, page)
  }
})

testEach('pages and apps of the same machine, while only it reaches the server', async (t) => {
  const own = await serve()
  t.teardown(own.close)
  const keyed = await serveKeys([ann])
  const shared = await serve({ host: '0.0.0.0' })
  t.teardown(shared.close)
  const body = { prompt: 'a', max_tokens: 1 }
  const ask = async (server: typeof own, origin: string) =>
    await server.post('/generate', body, {
      headers: { Origin: origin, 'Sec-Fetch-Site': 'cross-site' },
    })
  for (const origin of [
    'http://localhost:5173',
    'http://127.0.0.1:3000',
    'https://[::1]',
    'app://obsidian.md',
    'tauri://localhost',
    'http://tauri.localhost',
    'vscode-webview://0abc',
    'capacitor://localhost',
  ]) {
    const answer = await ask(own, origin)
    t.equal(answer.status, 200, origin)
    t.equal(answer.headers.get('access-control-allow-origin'), origin)
    const method = { Origin: origin, 'Access-Control-Request-Method': 'POST' }
    const preflight = await own.get('/generate', { method: 'OPTIONS', headers: method })
    t.equal(preflight.headers.get('access-control-allow-origin'), origin)
    t.equal((await ask(keyed, origin)).status, 403, `${origin}: a server with keys`)
    t.equal((await ask(shared, origin)).status, 403, `${origin}: others reach it`)
  }
  for (const origin of [
    'https://evil.example.org',
    'http://localhost.evil.example.org',
    'http://evil.example.org:8080/app://x',
    'chrome-extension://abc',
    'file://',
    'null',
  ]) {
    const answer = await ask(own, origin)
    t.equal(answer.status, 403, origin)
    t.equal(answer.headers.get('access-control-allow-origin'), null)
  }
  const rebound = await rawRequest(
    own.port,
    'GET /health HTTP/1.1\r\nHost: evil.example.org\r\nConnection: close\r\n\r\n',
  )
  await until(() => rebound.closed)
  t.match(rebound.received, /^HTTP\/1\.1 403 /, 'a rebound name')
  for (const [hosts, status] of [
    ['', 400],
    ['Host: a\r\nHost: b\r\n', 400],
    ['Host: a\r\n', 200],
  ] as const) {
    const head = `GET /model/info HTTP/1.1\r\n${hosts}Connection: close\r\n\r\n`
    const answer = await rawRequest(own.port, head)
    await until(() => answer.closed)
    t.match(answer.received, new RegExp(`^HTTP/1.1 ${status} [^]*application/json`), hosts)
  }
  t.match(await (await ask(keyed, 'app://obsidian.md')).json(), {
    error: /--cors-origins apps all apps$/,
  })
})

testEach('with * any page is let in, also with credentials', async (t) => {
  const any = await serve({ transport: { security: { corsOrigins: ['*'] } } })
  t.teardown(any.close)
  const origin = 'https://chat.example.org'
  const answer = await any.get('/health', { headers: { Origin: origin } })
  t.equal(answer.headers.get('access-control-allow-origin'), origin)
  t.equal(answer.headers.get('access-control-allow-credentials'), 'true')
  const named = await serve({ transport: { security: { corsOrigins: [origin] } } })
  t.teardown(named.close)
  const other = await named.get('/health', { headers: { Origin: origin } })
  t.equal(other.headers.get('access-control-allow-credentials'), null)
})

testEach('names that were rebound to this machine, and origins that are allowed', async (t) => {
  const origin = 'https://chat.example.org'
  const closed = await serve()
  t.teardown(closed.close)
  const open = await serve({ transport: { security: { corsOrigins: [origin] } } })
  t.teardown(open.close)
  const any = await serve({ transport: { security: { corsOrigins: ['*'] } } })
  t.teardown(any.close)
  const status = async ({ port }: { port: number }, host: string, headers: string) => {
    const body = '{"prompt":"a","max_tokens":1}'
    const client = await rawRequest(
      port,
      `POST /generate HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${headers}` +
        `Content-Length: ${body.length}\r\n\r\n${body}`,
    )
    await until(() => client.closed)
    return Number(/^HTTP\/1\.1 (\d+)/.exec(client.received)?.[1])
  }
  const own = (host: string) => `Origin: http://${host}\r\n`
  for (const host of [
    'localhost:8080',
    'app.localhost',
    '127.0.0.1:1',
    '[::1]:8080',
    'gpu',
    'a.local',
  ]) {
    t.equal(await status(closed, host, own(host)), 200, `${host} is this machine's`)
    t.equal(await status(closed, host, own('evil.example.org')), 403, `${host}: another origin`)
  }
  const rebound = 'evil.example.org:8080'
  t.equal(await status(closed, rebound, own(rebound)), 403, 'the page and the name agree')
  t.equal(await status(closed, rebound, ''), 200, 'no browser sent this')
  const secure = `${own(rebound)}Sec-Fetch-Site: same-origin\r\n`
  t.equal(await status(closed, rebound, secure), 200, 'behind a proxy with TLS')
  const [named, shouted] = ['chat.example.org:8080', 'Chat.Example.org']
  t.equal(await status(open, named, own(named)), 200, 'a proxy under an allowed name')
  t.equal(await status(open, shouted, own(shouted)), 200)
  t.equal(await status(open, 'localhost', `Origin: ${origin}\r\n`), 200)
  t.equal(await status(open, 'localhost', `Origin: ${origin}.evil.example\r\n`), 403)
  t.equal(
    await status(open, 'localhost', `Origin: ${origin}\r\nSec-Fetch-Site: cross-site\r\n`),
    200,
  )
  t.equal(await status(any, 'localhost', 'Origin: null\r\nSec-Fetch-Site: cross-site\r\n'), 200)
  const listed = await closed.post('/generate', {}, { headers: { Origin: origin } })
  t.match(await listed.json(), {
    code: 'origin_not_allowed',
    error: `Pages of ${origin} may not use this server; --cors-origins ${origin} would let them`,
  })
})

testEach('a page whose name was rebound to this machine reads nothing', async (t) => {
  const origin = 'https://chat.example.org'
  const plain = await serve()
  t.teardown(plain.close)
  const named = await serve({ transport: { security: { corsOrigins: [origin] } } })
  t.teardown(named.close)
  const any = await serve({ transport: { security: { corsOrigins: ['*'] } } })
  t.teardown(any.close)
  const keyed = await serveKeys([ann])
  const ask = async ({ port }: { port: number }, path: string, ...headers: readonly string[]) => {
    const head = [`${path} HTTP/1.1`, ...headers, 'Connection: close', '', '']
    const client = await rawRequest(port, head.join('\r\n'))
    await until(() => client.closed)
    return client.received
  }
  const status = async (...asked: Parameters<typeof ask>) =>
    Number(/^HTTP\/1\.1 (\d+)/.exec(await ask(...asked))?.[1])
  const rebound = 'Host: evil.example.org:8080'
  for (const path of ['/', '/health', '/health/live', '/scheduler', '/requests/a', '/none']) {
    const answer = await ask(plain, `GET ${path}`, rebound)
    t.match(answer, /^HTTP\/1\.1 403 /, path)
    t.match(answer, '"code":"origin_not_allowed"')
    t.match(answer, '--cors-origins http://evil.example.org:8080 says so')
    t.equal(await status(plain, `HEAD ${path}`, rebound), 403)
  }
  for (const host of [
    'evil.example.org.',
    '127.0.0.1.evil.example.org',
    'localhost.evil.example',
  ]) {
    t.equal(await status(plain, 'GET /health', `Host: ${host}`), 403, host)
  }
  for (const host of ['127.0.0.1', '[::1]:8080', 'localhost:1', 'LOCALHOST.', 'gpu', 'a.local']) {
    t.equal(await status(plain, 'GET /health', `Host: ${host}`), 200, host)
  }
  const page = 'Sec-Fetch-Site: same-origin'
  t.equal(await status(plain, 'GET /health', rebound, page), 200, 'behind a proxy with TLS')
  t.equal(await status(named, 'GET /health', rebound), 403)
  t.equal(await status(named, 'GET /health', 'Host: chat.example.org'), 200, 'a configured name')
  t.equal(await status(named, 'GET /health', 'Host: api.example.org', `Origin: ${origin}`), 200)
  t.equal(await status(any, 'GET /health', rebound), 200)
  t.equal(await status(keyed, 'GET /health', rebound), 200, 'what needs no key tells nothing')
  t.equal(await status(keyed, 'GET /scheduler', rebound), 401, 'it has no key')
})

testEach('deep JSON, long heads, too many connections', async (t) => {
  const server = await serve({ transport: { maxConnections: 3, headerLimitBytes: 2048 } })
  t.teardown(server.close)
  const nested = (levels: number) => `{"prompt":${'['.repeat(levels)}${']'.repeat(levels)}}`
  t.match(await (await server.post('/generate', nested(100))).json(), {
    code: 'invalid_json',
    error: 'Expected JSON of at most 100 levels, instead got more',
  })
  t.match(await (await server.post('/generate', nested(99))).json(), { code: 'invalid_request' })
  const brackets = { prompt: `${'['.repeat(200)}"\\`, max_tokens: 1 }
  t.equal((await server.post('/generate', brackets)).status, 200, 'texts do not count')
  const long = { headers: { 'x-long': 'x'.repeat(3000) } }
  t.equal((await server.get('/health', long)).status, 431)

  const sockets = await Promise.all([1, 2, 3, 4, 5].map(() => rawRequest(server.port, '')))
  await until(() => sockets.some(({ closed }) => closed))
  for (const { socket } of sockets) socket.destroy()
})

testEach('headers that keep browsers safe', async (t) => {
  const page = {
    name: 'page',
    mount(router: KoaRouter) {
      router.get('/page', (ctx) => {
        ctx.type = 'html'
        ctx.body = '<p>'
      })
    },
  }
  const server = await serve({ protocols: [nativeProtocol(), page] })
  t.teardown(server.close)
  const { headers } = await server.get('/page')
  t.match(headers.get('content-security-policy'), /default-src 'self'.*frame-ancestors 'none'/)
  t.equal(headers.get('x-frame-options'), 'DENY')
  t.equal(headers.get('x-content-type-options'), 'nosniff')
  const json = (await server.get('/health')).headers
  t.equal(json.get('x-content-type-options'), 'nosniff')
  t.equal(json.get('x-frame-options'), null)
})

testEach('TLS', async (t) => {
  const folder = t.testdir()
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const subject = ['-subj', '/CN=localhost', '-days', '2', '-nodes']
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1']
  const files = ['-keyout', keyFile, '-out', certFile]
  try {
    execFileSync('openssl', ['req', '-x509', ...curve, ...subject, ...files], {
      env: plainEnvironment(process.env),
      stdio: 'pipe',
    })
  } catch {
    t.comment('there is no openssl to make a certificate with')
    return
  }
  const tls = { cert: readFileSync(certFile), key: readFileSync(keyFile) }
  const server = await serve({ transport: { tls } })
  t.match(server.url, /^https:/)
  const body = await new Promise<string>((resolve, reject) => {
    request(`${server.url}/health`, { ca: tls.cert, servername: 'localhost' }, (answer) => {
      resolve(text(answer))
    })
      .on('error', reject)
      .end()
  })
  t.match(body, /healthy/)
  const silent = await rawRequest(server.port, '')
  await drive(server.clock, server.close())
  await until(() => silent.closed)
  t.pass('a client that says nothing does not keep it open')
})

const guarded = (directory: EngineDirectory) =>
  watchEngines(directory, { clock: new SimulatedClock(), isGuarded: true })

await testEngineClient(t, 'guarded', () => wrappedPool(guarded))
await testEngineDirectory(t, 'guarded', () => wrappedPool(guarded))

testEach('where prompts part is told in words to their tenant and to admins', async (t) => {
  const server = await serveKeys([ann, bob, root], {
    backend: { contextSize: 2048, stepMs: () => 10 },
  })
  const rules = 'Be exact. '.repeat(30)
  const task = { role: 'user', content: 'List the files.' }
  const say = async (time: string, ...more: object[]): Promise<string> => {
    const system = { role: 'system', content: `It is ${time}. ${rules}` }
    const body = { messages: [system, task, ...more], max_tokens: 3 }
    const answer = await drive(server.clock, server.post('/v1/chat/completions', body, as('ann')))
    t.equal(answer.status, 200)
    return answer.headers.get('x-request-id') ?? ''
  }
  await say('12:01')
  const id = await say('12:02', { role: 'assistant', content: 'a.txt' }, task)
  const seenBy = async (name: string) => {
    const { data } = (await (await server.get(`/requests/${id}`, as(name))).json()) as {
      data: { parting: object; sentences: string[] }
    }
    return data
  }
  for (const name of ['ann', 'root']) {
    const { parting, sentences } = await seenBy(name)
    t.match(parting, { by: 'messages', message: 0, role: 'system', text: /It is 12:0$/ })
    t.match(
      sentences[0],
      /from token \d+ on, in message 0 \(system\): after ".*It is 12:0" came "1\..*", and now "2\./,
    )
    t.match(sentences[1], /^3\d\d tokens had to be computed again, about \d+ ms\.$/)
  }
  t.equal((await server.get(`/requests/${id}`, as('bob'))).status, 404)
  const metrics = await (await server.get('/metrics', as('root'))).text()
  t.match(metrics, /cllm_prompts_parted_total\{[^}]*by="messages"\} 1/)
  t.match(metrics, /cllm_prompt_tokens_parted_total\{[^}]*by="messages"\} 3\d\d/)
})

testEach('images are shared within a tenant', async (t) => {
  const backend = { images: true, contextSize: 2048 }
  const protocols = [anthropicProtocol(), metricsProtocol()]
  const server = await serveKeys([ann, bob, root], { backend, protocols })
  const source = { type: 'base64', media_type: 'image/png', data: btoa('a cat') }
  const content = [
    { type: 'image', source },
    { type: 'text', text: 'What is it?' },
  ]
  const body = { model: 'fake', max_tokens: 2, messages: [{ role: 'user', content }] }
  for (const name of ['ann', 'ann', 'bob']) {
    const { status } = await server.post('/v1/messages/count_tokens', body, as(name))
    t.equal(status, 200)
  }
  const metrics = await (await server.get('/metrics', as('root'))).text()
  t.match(metrics, /cllm_encodes_total\{[^}]*outcome="encoded"\} 2/)
  t.match(metrics, /cllm_encodes_total\{[^}]*outcome="found"\} 1/)
  t.match(metrics, /cllm_encodes_waiting\{[^}]*\} 0/)
})
