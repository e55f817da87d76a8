import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { pathToFileURL } from 'node:url'
import { CllmError, type EngineActivity, SimulatedClock } from '@cllm/core'
import { drive, runUntilIdle } from '@cllm/testing'
import {
  adminProtocol,
  hashKey,
  keyRing,
  type KeyStore,
  type KoaProtocol,
  nativeProtocol,
  KEY_STORE,
  PROTOCOLS,
  Services,
  WEB_PAGE,
  webProtocol,
} from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { LiveFeed } from '../../../src/protocols/admin/live.js'
import { usage } from '../../../src/protocols/usage/usage-protocol.js'
import { web } from '../../../src/protocols/web/web-protocol.js'
import { serve, until } from '../../serve.js'

const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'

function pageOf(t: Test): URL {
  const folder = t.testdir({
    'index.html': '<!doctype html><meta name="cllm-features" content="all" /><title>cLLM</title>',
    'notes.txt': 'of no type that is served',
    assets: {
      'a-3.woff2': 'a font',
      'index-1.js': 'let a'.repeat(1000),
      'lab-worker-2.js': 'let b',
    },
  })
  return pathToFileURL(`${folder}/`)
}

t.test('browsers get the page while the model loads, others are told that it does', async (t) => {
  const protocols = [webProtocol({ page: pageOf(t) }), nativeProtocol()]
  const server = await serve({ protocols, transport: { isReady: () => false } })
  t.teardown(server.close)
  const statusOf = async (path: string, accept: string) =>
    (await server.get(path, { redirect: 'manual', headers: { accept } })).status
  t.equal(await statusOf('/', browser), 302)
  t.equal(await statusOf('/ui/', browser), 200)
  t.equal(await statusOf('/ui/assets/index-1.js', '*/*'), 200)
  t.equal(await statusOf('/', '*/*'), 503)
  t.equal(await statusOf('/health', browser), 503)
})

t.test('the page: files, headers, and who is sent to it', async (t) => {
  const protocols = [webProtocol({ page: pageOf(t) }), nativeProtocol()]
  const server = await serve({ protocols })
  t.teardown(server.close)
  const get = async (path: string, headers: Record<string, string> = {}) =>
    await server.get(path, { redirect: 'manual', headers })

  const sent = await get('/', { accept: browser })
  t.same([sent.status, sent.headers.get('location')], [302, 'ui/'])
  t.equal(sent.headers.get('vary'), 'Origin, Accept')
  t.match(await (await get('/')).json(), { data: { name: 'cLLM Server' } }, 'others get the API')
  t.equal((await get('/ui')).headers.get('location'), 'ui/', 'so that relative addresses are right')

  const page = await get('/ui/')
  t.equal(page.status, 200)
  t.equal(page.headers.get('content-type'), 'text/html; charset=utf-8')
  t.match(await page.text(), /<title>cLLM/)
  const policy = page.headers.get('content-security-policy')
  t.match(
    policy,
    /default-src 'none'; script-src 'self'; connect-src 'self'; style-src 'self'; img/,
  )
  t.notMatch(policy, /unsafe|https?:/)
  t.equal(page.headers.get('x-frame-options'), 'DENY')
  t.equal(page.headers.get('cache-control'), 'no-cache')
  const etag = page.headers.get('etag') ?? ''
  // `fetch` would ask for a fresh copy.
  const asking = request(`${server.url}/ui/`, { headers: { 'if-none-match': etag } }).end()
  const [again] = (await once(asking, 'response')) as [IncomingMessage]
  t.equal(again.statusCode, 304)
  again.resume()

  const script = await get('/ui/assets/index-1.js')
  t.match(script.headers.get('cache-control'), /immutable/)
  t.equal(script.headers.get('content-encoding'), 'gzip')
  t.equal((await script.text()).length, 5000)
  const plain = await get('/ui/assets/index-1.js', { 'accept-encoding': 'identity' })
  t.equal(plain.headers.get('content-encoding'), null)
  const font = await get('/ui/assets/a-3.woff2')
  t.equal(font.headers.get('content-type'), 'font/woff2')
  t.equal(font.headers.get('content-encoding'), null, 'it is compressed already')
  t.equal(await font.text(), 'a font')
  const worker = await get('/ui/assets/lab-worker-2.js')
  t.match(
    worker.headers.get('content-security-policy'),
    /script-src 'self' 'unsafe-eval'; connect-src 'none'/,
  )

  for (const path of [
    'notes.txt',
    'nothing.js',
    '..%2fpackage.json',
    '%2e%2e/web.test.ts',
    'assets',
  ]) {
    t.equal((await get(`/ui/${path}`)).status, 404, path)
  }
})

t.test('the page lists what the server has', async (t) => {
  const page = pageOf(t)
  const listed = async (keys?: KeyStore): Promise<string | undefined> => {
    const protocols: KoaProtocol[] = []
    const services = new Services()
    services.set(PROTOCOLS, protocols).set(WEB_PAGE, page).set(KEY_STORE, keys)
    protocols.push(web.create({}, services), nativeProtocol(), usage.create({}, services))
    const server = await serve({ protocols })
    t.teardown(server.close)
    const text = await (await server.get('/ui/')).text()
    return /name="cllm-features" content="(.*?)"/.exec(text)?.[1]
  }
  t.equal(await listed(), 'web native')
  t.equal(await listed({} as KeyStore), 'web native keys')
  const server = await serve({ protocols: [webProtocol({ page }), nativeProtocol()] })
  t.teardown(server.close)
  t.match(await (await server.get('/ui/')).text(), /content="all"/)
})

t.test('the page needs no key, and what it asks does; not built, it says so', async (t) => {
  const key = { name: 'ann', tenant: 'ann', role: 'user', hash: hashKey('secret') } as const
  const page = new URL('nowhere/', pageOf(t))
  const protocols = [webProtocol({ page }), nativeProtocol(), adminProtocol()]
  const server = await serve({ protocols, transport: { security: { keys: keyRing(() => [key]) } } })
  t.teardown(server.close)
  const missing = await server.get('/ui/')
  t.equal(missing.status, 404)
  t.match(await missing.json(), { error: /`pnpm build` makes it/ })
  t.equal((await server.get('/admin/live')).status, 401)
  const headers = { authorization: 'Bearer secret' }
  t.equal((await server.get('/admin/live', { headers })).status, 403, 'it shows all tenants')
  t.equal((await server.get('/uix')).status, 401)
  t.equal((await server.post('/ui/', {})).status, 401)

  const without = await serve({ protocols: [webProtocol(), nativeProtocol()] })
  t.teardown(without.close)
  t.equal((await without.get('/ui')).status, 404)
  const api = await without.get('/', { headers: { accept: browser } })
  t.match(await api.json(), { success: true })
})

t.test('GET /admin/live: once, or while a client listens', async (t) => {
  const server = await serve({
    protocols: [nativeProtocol(), adminProtocol()],
    backend: { stepMs: () => 10, slots: 1 },
  })
  t.teardown(server.close)
  const { clock } = server
  const now = (await drive(
    clock,
    server.get('/admin/live').then(async (response) => await response.json()),
  )) as { data: EngineActivity }
  t.match(now, { success: true, data: { policy: 'run-all', waiting: 0, frames: [] } })

  const leaving = new AbortController()
  const response = await server.get('/admin/live', {
    headers: { accept: 'text/event-stream' },
    signal: leaving.signal,
  })
  t.match(response.headers.get('content-type'), /event-stream/)
  let text = ''
  const reading = (async () => {
    for await (const part of response.body!) text += Buffer.from(part as Uint8Array).toString()
  })().catch(() => {})
  const messages = (): EngineActivity[] =>
    text.split('\n\n').flatMap((part) => {
      return part.startsWith('data: ') ? [JSON.parse(part.slice(6)) as EngineActivity] : []
    })
  await until(() => messages().length > 0)
  const body = (name: string) => ({
    prompt: name,
    max_tokens: 60,
    temperature: 0,
    ignore_eos: true,
  })
  const answers = ['a', 'b'].map((name) => server.post('/generate', body(name)))
  await until(async () => (await server.client.statistics()).waiting === 1)
  const began = clock.now()
  await drive(clock, Promise.all(answers))
  await runUntilIdle(clock, clock.now() + 1000)
  await until(() =>
    messages()
      .flatMap(({ frames }) => frames)
      .some(({ ended }) => ended.length > 0),
  )
  const seconds = (clock.now() - began) / 1000
  const all = messages()
  t.ok(all.length <= 2 * seconds + 2, `${all.length} messages in ${seconds} s`)
  const spans = all.flatMap(({ frames }) => frames.flatMap((frame) => frame.spans))
  t.same([...new Set(spans.map(({ kind }) => kind))].sort(), ['decode', 'prefill', 'wait'])
  const busy = all.find(({ waiting }) => waiting === 1)
  t.match(busy, { slots: [{ state: 'decoding' }], queue: [{ tenant: 'default', promptTokens: 2 }] })
  t.ok(busy!.queue[0]!.slotInMs > 0)
  t.ok(busy!.queue[0]!.reasons.slots! > 0)
  t.notMatch(text, /"(prompt|text|token)"/, 'no content')
  leaving.abort()
  await reading
})

t.test(
  'a live feed: one question for all, twice a second, none while all are behind',
  async (t) => {
    const clock = new SimulatedClock(0)
    const asked: [at: number, cursor: number | undefined][] = []
    let frames: object[] = [{}]
    const ask = async (cursor: number | undefined): Promise<EngineActivity> => {
      asked.push([clock.now(), cursor])
      return { cursor: asked.length, lost: 0, frames } as unknown as EngineActivity
    }
    const reader = () => {
      const sent: EngineActivity[] = []
      return {
        ask,
        isBehind: false,
        isGone: false,
        sent,
        send: (one: string) => void sent.push(JSON.parse(one) as EngineActivity),
      }
    }
    const [one, other] = [reader(), reader()]
    const leaving = new AbortController()
    const feed = new LiveFeed(clock)
    const running = [one, other].map(async (each) => await feed.tell(each, leaving.signal))
    await runUntilIdle(clock, 1500)
    t.same(
      asked,
      [
        [500, undefined],
        [1000, 1],
        [1500, 2],
      ],
      'while there is work',
    )
    t.same([one.sent.length, other.sent.length], [3, 3])
    frames = []
    await runUntilIdle(clock, 6000)
    t.ok(asked.length <= 8, `${asked.length}: seldom while there is none`)

    frames = [{}]
    one.isBehind = true
    await runUntilIdle(clock, 8000)
    one.isBehind = false
    const before = one.sent.length
    await runUntilIdle(clock, 8500)
    t.ok(one.sent[before]!.lost >= 3, 'it is told what it missed')
    t.equal(other.sent.at(-1)?.lost, 0)
    for (const each of [one, other]) each.isBehind = true
    const count = asked.length
    await runUntilIdle(clock, 12_000)
    t.equal(asked.length, count, 'the engine is not even asked')
    one.isGone = true
    other.isBehind = false
    await runUntilIdle(clock, 13_000)
    await running[0]
    t.ok(asked.length > count, 'it goes on for who is there')
    leaving.abort()
    await running[1]
    const ended = asked.length
    await runUntilIdle(clock, 20_000)
    t.equal(asked.length, ended, 'and ends with the last one')

    await feed.tell(other, leaving.signal)
    const failing = async () => {
      throw new CllmError('engine_unavailable', 'gone')
    }
    const failed = feed.tell({ ...reader(), ask: failing }, new AbortController().signal)
    void runUntilIdle(clock, 21_000)
    await t.rejects(failed, { code: 'engine_unavailable' })
  },
)
