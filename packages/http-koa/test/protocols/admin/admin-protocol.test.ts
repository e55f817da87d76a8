import { definePolicy, PluginRegistry } from '@cllm/core'
import { drive, runUntilIdle } from '@cllm/testing'
import {
  adminProtocol,
  anthropicProtocol,
  type ApiKey,
  hashKey,
  keyRing,
  type LimitChanges,
  nativeProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import t from 'tap'
import { z } from 'zod'
import { testEach } from '../../each-client.js'
import { runAll, serve, until } from '../../serve.js'

const byTurns = definePolicy({
  name: 'by-turns',
  doc: 'Has a quantum.',
  options: z.object({ quantum: z.number().min(0).default(3) }),
  create: (options) => ({ ...runAll, name: 'by-turns', options }),
})

function policies(): PluginRegistry {
  const registry = new PluginRegistry()
  registry.registerPolicy({ name: 'run-all', doc: 'Runs all.', create: () => runAll })
  registry.registerPolicy(byTurns)
  registry.registerPolicy({
    name: 'broken',
    doc: 'Runs nothing.',
    create: () => ({
      name: 'broken',
      plan: () => ({ admit: [], preempt: [], reject: [], run: [] }),
    }),
  })
  return registry
}

async function serveAdmin() {
  const server = await serve({
    protocols: [nativeProtocol(), adminProtocol()],
    registry: policies(),
    fallbackPolicy: () => ({ ...runAll, name: 'safe' }),
    backend: { stepMs: () => 10, slots: 2 },
  })
  const answer = async (response: Promise<Response>) => {
    const { status, ...rest } = await response.then(async (given) => {
      return { status: given.status, body: (await given.json()) as object }
    })
    return { status, ...rest.body }
  }
  const put = (body: unknown) =>
    drive(server.clock, answer(server.post('/admin/scheduler', body, { method: 'PUT' })))
  const get = () => drive(server.clock, answer(server.get('/admin/scheduler')))
  return { ...server, put, get }
}

testEach('GET and PUT /admin/scheduler', async (t) => {
  const server = await serveAdmin()
  t.teardown(() => server.close())
  const available = [
    { name: 'broken', options: {} },
    { name: 'by-turns', options: { quantum: 3 } },
    { name: 'run-all', options: {} },
  ]
  t.same(await server.get(), {
    status: 200,
    success: true,
    data: {
      policy: 'run-all',
      options: {},
      fallback: null,
      policyFaults: 0,
      model_scheduler: null,
      available,
    },
  })
  const swapped = {
    policy: 'by-turns',
    options: { quantum: 7 },
    fallback: null,
    policyFaults: 0,
    model_scheduler: null,
  }
  t.same(await server.put({ policy: 'by-turns', options: { quantum: 7 } }), {
    status: 200,
    success: true,
    data: swapped,
  })
  const now = { ...swapped, available }
  t.same(await server.get(), { status: 200, success: true, data: now })

  const valid = { policies: ['broken', 'by-turns', 'run-all'] }
  const wrong: [unknown, object][] = [
    [
      { policy: 'by-turn' },
      { code: 'invalid_policy', field: 'policy', valid, error: /did you mean "by-turns"/ },
    ],
    [
      { policy: 'by-turns', options: { quantum: 'two' } },
      { code: 'invalid_policy', error: /quantum: .*expected number/ },
    ],
    [
      { policy: 'by-turns', options: { quantum: -1 } },
      { code: 'invalid_policy', error: /quantum: .*>=0/ },
    ],
    [{ policy: 'by-turns', options: { quantm: 1 } }, { error: /quantm/ }],
    [{ policy: 3 }, { code: 'invalid_request', field: 'policy', error: /name of a policy.*got 3/ }],
    [
      { policy: 'run-all', options: [] },
      { code: 'invalid_request', field: 'options' },
    ],
    [
      { policy: 'run-all', option: {} },
      { code: 'invalid_request', field: 'option' },
    ],
    [{}, { error: 'Missing required field: policy' }],
    ['{', { code: 'invalid_json' }],
  ]
  for (const [body, expected] of wrong) {
    t.match(await server.put(body), { status: 400, success: false, ...expected })
  }
  t.match(await server.get(), { data: swapped }, 'what is wrong changes nothing')
  const unknown = fetch(`${server.url}/admin/scheduler?model=other`)
  t.equal((await drive(server.clock, unknown)).status, 404)
})

testEach('swapped in the middle of load, to a broken policy too', async (t) => {
  const server = await serveAdmin()
  t.teardown(() => server.close())
  const body = (index: number) => ({ prompt: `prompt ${index}`, max_tokens: 40, temperature: 0 })
  const text = async (index: number, options?: object): Promise<string> => {
    const response = await server.post('/generate_stream', { ...body(index), ...options })
    return (await response.text()).replace(/"id":"[0-9a-f]{32}"/g, '')
  }
  const indexes = [0, 1, 2, 3, 4, 5, 6, 7]
  const alone: string[] = []
  for (const index of indexes) alone.push(await drive(server.clock, text(index)))

  const streams = indexes.map((index) => text(index))
  await until(async () => (await server.client.statistics()).waiting === 6)
  await runUntilIdle(server.clock, server.clock.now() + 100)
  const put = (policy: string) => server.post('/admin/scheduler', { policy }, { method: 'PUT' })
  const swaps = ['by-turns', 'run-all', 'broken'].map(async (policy) => (await put(policy)).status)
  t.same(await Promise.all(swaps), [200, 200, 200])
  t.same(await drive(server.clock, Promise.all(streams)), alone)

  t.match(await server.get(), {
    data: { policy: 'safe', fallback: { from: 'broken', reason: /"broken".*no later time/ } },
  })
  const statistics = await server.client.statistics()
  t.match(statistics, { policyFaults: 1, requests: { done: 16, failed: 0, cancelled: 0 } })
  t.equal(server.log.filter(({ level }) => level === 'error').length, 1)
  t.match(await server.put({ policy: 'run-all' }), { data: { policy: 'run-all', fallback: null } })
})

testEach('the log level is changed while it runs', async (t) => {
  const log = { level: 'info' }
  const server = await serve({ protocols: [adminProtocol({ log })] })
  t.teardown(server.close)
  const put = (body: object) =>
    server.post('/admin/log-level', body, {
      method: 'PUT',
      body: JSON.stringify(body),
      headers: { 'Content-Type': 'application/json' },
    })
  t.match(await (await put({ level: 'debug' })).json(), { data: { level: 'debug' } })
  t.equal(log.level, 'debug')
  const wrong = await put({ level: 'loud' })
  t.equal(wrong.status, 400)
  t.match(await wrong.json(), { error: /level: expected one of trace, .*"loud"/ })
  t.equal(log.level, 'debug')
  t.match(await (await server.get('/admin/log-level')).json(), { data: { level: 'debug' } })
  const without = await serve({ protocols: [adminProtocol()] })
  t.teardown(without.close)
  t.equal((await without.get('/admin/log-level')).status, 400)
})

testEach('/admin/cache: warmed, listed, dropped', async (t) => {
  for (const cacheRamBytes of [1e6, 0]) {
    const server = await serve({
      protocols: [nativeProtocol(), adminProtocol()],
      backend: { stepMs: () => 10, slots: 2 },
      engine: { cacheRamBytes },
    })
    t.teardown(() => server.close())
    const answer = async (response: Promise<Response>) => {
      const given = await drive(server.clock, response)
      return {
        status: given.status,
        ...((await given.json()) as { data: Record<string, unknown> }),
      }
    }
    const warm = (body: object) => answer(server.post('/admin/cache', body))
    const prompt = 'a system prompt of some length, again and again '.repeat(4)
    if (cacheRamBytes === 0) {
      t.match(await warm({ prompt }), { status: 400, error: /--cache-ram is 0/ })
      t.match(await warm({ prompt, pin: false }), { status: 200 })
      continue
    }
    t.match(await warm({ prompt }), { status: 200, data: { cached_tokens: 0 } })
    const again = await warm({ prompt, pin: false })
    t.equal(again.data['cached_tokens'], Number(again.data['prompt_tokens']) - 1)
    const messages = [{ role: 'system', content: 'be brief' }]
    t.match(await warm({ messages }), { status: 200 })
    for (const body of [{}, { prompt, messages }, { prompt: 7 }]) {
      t.match(await warm(body), { status: 400, error: /prompt/ })
    }
    const listed = await answer(server.get('/admin/cache'))
    t.match(listed.data['states'], [{ tier: 'ram', pinned: true }, { pinned: true }])
    const dropped = await answer(server.post('/admin/cache', undefined, { method: 'DELETE' }))
    t.equal(dropped.data['dropped'], 2)
  }
})

/** Keys in memory; a secret tells whose it is. */
function storedKeys() {
  const ops = { name: 'ops', tenant: 'ops', role: 'admin', hash: hashKey('of-ops') } as const
  let all: readonly ApiKey[] = [ops]
  const store = {
    list: async () => all,
    async add(key: Omit<ApiKey, 'hash'>) {
      const secret = `of-${key.name}`
      all = [...all, { ...key, hash: hashKey(secret) }]
      return secret
    },
    async limit(name: string, changes: LimitChanges) {
      const key = { ...all.find((one) => one.name === name)! }
      Object.assign(key, changes)
      all = all.map((one) => (one.name === name ? key : one))
      return key
    },
    async remove(name: string) {
      all = all.filter((key) => key.name !== name)
    },
  }
  return { ring: keyRing(() => all), store }
}

t.test('/admin/cache: warmed for a tenant', async (t) => {
  const { ring, store } = storedKeys()
  await store.add({ name: 'ann', tenant: 'shop', role: 'user' })
  const server = await serve({
    protocols: [nativeProtocol(), adminProtocol()],
    transport: { security: { keys: ring } },
    engine: { cacheRamBytes: 1e6, isolateTenants: true },
  })
  t.teardown(() => server.close())
  const post = async (path: string, as: string, body: object, more: object = {}) => {
    const headers = { authorization: `Bearer ${as}`, 'content-type': 'application/json', ...more }
    const given = server.post(path, body, { headers })
    return (await (await given).json()) as { readonly data: { readonly cached_tokens: number } }
  }
  for (const [index, [body, headers, isFound]] of [
    [{}, {}, false],
    [{ tenant: 'shop' }, {}, true],
    [{}, { 'x-cllm-tenant': 'shop' }, true],
  ].entries() as Iterable<[number, [object, object, boolean]]>) {
    const prompt = `${index}: a system prompt of some length, again and again `
    await post('/admin/cache', 'of-ops', { prompt, ...body }, headers)
    const request = { prompt: `${prompt} and more`, max_tokens: 2 }
    const { data } = await post('/generate', 'of-ann', request)
    t.equal(data.cached_tokens > 20, isFound, JSON.stringify([body, headers]))
  }
})

t.test('/admin/keys: made, listed, revoked; who may, and what is shown', async (t) => {
  const { ring, store } = storedKeys()
  const server = await serve({
    protocols: [nativeProtocol(), adminProtocol({ keys: store })],
    transport: { security: { keys: ring } },
  })
  t.teardown(() => server.close())
  const ask = async (method: string, { body, path = '', as = 'of-ops' }: Ask = {}) => {
    const headers = { authorization: `Bearer ${as}`, 'content-type': 'application/json' }
    const json = body === undefined ? null : JSON.stringify(body)
    const answer = await server.get(`/admin/keys${path}`, { method, headers, body: json })
    const told = (await answer.json()) as { readonly data?: readonly object[] }
    return { status: answer.status, headers: answer.headers, ...told }
  }
  const limits = { requests_per_minute: 60, tokens_per_minute: null, tokens_per_month: 9000 }
  const sent = { name: 'ann', tenant: 'shop', requests_per_minute: 60, tokens_per_month: 9000 }
  const ann = { name: 'ann', tenant: 'shop', role: 'user', ...limits }
  const made = await ask('POST', { body: sent })
  t.match(made, { status: 200, data: { ...ann, key: 'of-ann' } })
  t.equal(made.headers.get('cache-control'), 'no-store')
  t.match(await ask('POST', { body: { name: 'bob', role: 'admin' } }), {
    data: { name: 'bob', tenant: 'bob', role: 'admin', key: 'of-bob' },
  })
  const listed = await ask('GET')
  const names = [{ name: 'ops', asks: true }, { ...ann, asks: false }, { name: 'bob' }]
  t.match(listed, { status: 200, data: names })
  t.notMatch(JSON.stringify(listed), /hash|of-\w/, 'neither a hash nor a secret')

  for (const method of ['GET', 'POST', 'DELETE']) {
    t.match(await ask(method, { as: 'of-ann' }), { status: 403, code: 'forbidden' }, method)
    t.match(await ask(method, { as: 'nobody' }), { status: 401 }, method)
  }
  const wrong: [object, object][] = [
    [{}, { field: 'name' }],
    [{ name: 'x', role: 'boss' }, { error: /role: expected user, metrics or admin.*"boss"/ }],
    [{ name: 'x', tokens_per_minute: 0 }, { error: /from 1 to/ }],
    [{ name: 'x', token_per_minute: 5 }, { field: 'token_per_minute' }],
  ]
  for (const [body, problem] of wrong) {
    t.match(await ask('POST', { body }), { status: 400, code: 'invalid_request', ...problem })
  }
  const newLimits = { requests_per_minute: null, tokens_per_minute: 5 }
  t.match(await ask('PATCH', { path: '/ann', body: newLimits }), {
    status: 200,
    data: { name: 'ann', ...newLimits, tokens_per_month: 9000 },
  })
  t.match((await ask('GET')).data?.[1], { name: 'ann', ...newLimits, tokens_per_month: 9000 })
  for (const body of [{ tokens_per_minute: 0 }, { role: 'admin' }]) {
    t.match(await ask('PATCH', { path: '/ann', body }), { status: 400, code: 'invalid_request' })
  }
  t.match(await ask('PATCH', { path: '/ann', body: {}, as: 'of-ann' }), { status: 403 })
  t.match(await ask('DELETE'), { status: 400, field: 'name' })
  t.match(await ask('DELETE', { path: '?name=ops' }), {
    status: 400,
    error: /is this request's key/,
  })
  t.match(await ask('DELETE', { path: '?name=ann' }), { status: 200, data: { revoked: 'ann' } })
  t.match(await ask('GET', { as: 'of-ann' }), { status: 401 })
  t.match(
    server.log.flatMap(({ fields, message }) => (/API key w/.test(message) ? [fields] : [])),
    [
      { name: 'ann', role: 'user', by: 'ops' },
      { name: 'bob', role: 'admin', by: 'ops' },
      { name: 'ann', ...newLimits, by: 'ops' },
      { name: 'ann', by: 'ops' },
    ],
  )
  t.notMatch(JSON.stringify(server.log), /of-(ann|bob|ops)/, 'no secret in the log')
})

interface Ask {
  readonly body?: object
  /** Behind `/admin/keys`. */
  readonly path?: string
  /** The secret that is sent. */
  readonly as?: string
}

t.test('/admin/keys without a place for keys says what there is', async (t) => {
  const { ring } = storedKeys()
  const headers = { authorization: 'Bearer of-ops' }
  for (const [security, words] of [
    [{}, /asks for no keys.*--api-keys FILE/],
    [{ keys: ring }, /the one key of --api-key/],
  ] as const) {
    const server = await serve({ protocols: [adminProtocol()], transport: { security } })
    t.teardown(() => server.close())
    const answer = await server.get('/admin/keys', { headers })
    t.equal(answer.status, 400)
    t.match(await answer.json(), { code: 'unsupported', error: words })
  }
})

testEach('/admin/programs: agents by what they send', async (t) => {
  const protocols = [nativeProtocol(), openAiProtocol(), anthropicProtocol(), adminProtocol()]
  const server = await serve({ protocols })
  t.teardown(() => server.close())
  const messages = [{ role: 'user', content: 'Hello' }]
  const id = (digit: number) => `${digit}`.repeat(8) + '-1111-4111-8111-111111111111'
  const ask = async (path: string, body: object, headers: Record<string, string> = {}) => {
    const given = { headers: { 'content-type': 'application/json', ...headers } }
    const { status } = await drive(server.clock, server.post(path, body, given))
    t.equal(status, 200, path)
  }
  await ask(
    '/generate',
    { prompt: 'Hello', max_tokens: 3, session: 'own' },
    { 'x-session-id': 'no' },
  )
  await ask(
    '/v1/chat/completions',
    { messages, max_tokens: 3 },
    { 'x-session-affinity': 'opencode' },
  )
  const claude = { 'x-claude-code-session-id': 'claude' }
  const message = { model: 'fake', messages, max_tokens: 3 }
  await ask('/v1/messages', message, claude)
  await ask('/v1/messages', message, { ...claude, 'x-claude-code-agent-id': 'explorer' })
  for (const user_id of [
    `user_ab_account_${id(2)}_session_${id(1)}`,
    `{"session_id":"${id(1)}"}`,
  ]) {
    await ask('/v1/messages', { ...message, metadata: { user_id } })
  }
  const response = { input: 'Hello', max_output_tokens: 3 }
  await ask('/v1/responses', response, { session_id: 'codex' })
  await ask('/v1/responses', { ...response, prompt_cache_key: id(3) })
  // what many have in common is no program
  await ask('/v1/responses', { ...response, prompt_cache_key: 'my-app' })
  await ask('/v1/messages', { ...message, metadata: { user_id: 'someone' } })
  await ask('/generate', { prompt: 'Hello', max_tokens: 3 }, { 'x-session-id': 'x'.repeat(257) })
  const { data } = (await (await server.get('/admin/programs')).json()) as {
    data: { programs: { id: string; calls: number; share: number; open: number }[] }
  }
  t.same(
    data.programs.map((one) => [one.id, one.calls]),
    [
      [id(3), 1],
      ['codex', 1],
      [id(1), 2],
      ['claude/explorer', 1],
      ['claude', 1],
      ['opencode', 1],
      ['own', 1],
    ],
  )
  t.match(data.programs[0], {
    open: 0,
    tenant: 'default',
    generatedTokens: 3,
    pauses: 0,
    partings: { tokens: 0 },
  })
  t.ok(Math.abs(data.programs.reduce((sum, { share }) => sum + share, 0) - 1) < 1e-9)
})
