import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { SimulatedClock } from '@cllm/core'
import { anthropicProtocol, type LookupAll, ollamaProtocol, openAiProtocol } from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { BodyBudget } from '../../src/body/body-budget.js'
import { withMediaUrls } from '../../src/engines/media-urls.js'
import { MediaFetcher } from '../../src/security/media-fetcher.js'
import { serve, until } from '../serve.js'

const cat = Buffer.from('a cat on a mat')
const names: Readonly<Record<string, readonly string[]>> = {
  'pictures.test': ['127.0.0.1'],
  'inside.test': ['10.0.0.1'],
  'metadata.test': ['169.254.169.254'],
  'both.test': ['93.184.216.34', '::ffff:192.168.0.1'],
}

/** A server of pictures, and one of models that may fetch from it. */
async function open(
  t: Test,
  hostsOf: (port: number) => readonly string[],
  answer: (req: IncomingMessage, res: ServerResponse) => void = (_, res) => res.end(cat),
) {
  const asked: string[] = []
  const looked: string[] = []
  const pictures = createServer((req, res) => {
    asked.push(`${req.headers.host} ${req.url}`)
    answer(req, res)
  })
  pictures.listen(0, '127.0.0.1')
  await once(pictures, 'listening')
  t.teardown(() => pictures.close().closeAllConnections())
  const { port } = pictures.address() as AddressInfo
  const lookup: LookupAll = (host, _, done) => {
    looked.push(host)
    const addresses = names[host] ?? []
    const found = addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }))
    done(null, found)
  }
  const server = await serve({
    backend: { images: true },
    protocols: [openAiProtocol(), anthropicProtocol(), ollamaProtocol()],
    transport: { mediaUrls: { hosts: hostsOf(port), lookup, limitBytes: 100 } },
  })
  t.teardown(() => server.close())
  const ask = async (path: string, body: object) => {
    const response = await server.post(path, body)
    return { status: response.status, json: (await response.json()) as Record<string, unknown> }
  }
  const chat = async (...urls: readonly string[]) => {
    const images = urls.map((url) => ({ type: 'image_url', image_url: { url } }))
    const messages = [{ role: 'user', content: [...images, { type: 'text', text: 'See' }] }]
    return await ask('/v1/chat/completions', { messages, max_tokens: 1 })
  }
  return { server, port, ask, chat, asked, looked, lookup }
}

t.test('images come from the servers that are named, once for each request', async (t) => {
  const { server, port, ask, chat, asked, looked } = await open(t, (port) => [
    `Pictures.test:${port}`,
  ])
  const url = `http://pictures.test:${port}/cat.png`
  const { json } = await chat(url, url)
  const without = await chat()
  const tokensOf = ({ json }: { json: object }) =>
    (json as { usage: { prompt_tokens: number } }).usage.prompt_tokens
  t.equal(tokensOf({ json }) - tokensOf(without), 16)
  t.same([asked, looked], [[`pictures.test:${port} /cat.png`], ['pictures.test']])
  const input = [{ role: 'user', content: [{ type: 'input_image', image_url: url }] }]
  const source = { type: 'url', url }
  const messages = [
    {
      role: 'user',
      content: [
        { type: 'image', source },
        { type: 'text', text: 'a' },
      ],
    },
  ]
  const bodies: [path: string, body: object][] = [
    ['/v1/responses', { input, max_output_tokens: 1 }],
    ['/v1/responses/input_tokens', { input }],
    ['/v1/messages', { model: 'fake', messages, max_tokens: 1 }],
    ['/v1/messages/count_tokens', { model: 'fake', messages }],
    [
      '/api/chat',
      {
        model: 'fake',
        stream: false,
        options: { num_predict: 1 },
        messages: [{ role: 'user', content: 'a', images: [url] }],
      },
    ],
  ]
  for (const [path, body] of bodies) {
    const { status, json } = await ask(path, body)
    t.equal(status, 200, `${path} ${JSON.stringify(json)}`)
  }
  t.equal(asked.length, 1 + bodies.length)
  t.equal(server.log.filter(({ level }) => level === 'error').length, 0)
})

t.test('without --media-urls a URL is refused', async (t) => {
  const server = await serve({ backend: { images: true }, protocols: [openAiProtocol()] })
  t.teardown(() => server.close())
  const url = 'https://example.org/a.png'
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  const answer = await server.post('/v1/chat/completions', { messages })
  t.equal(answer.status, 400)
  const error = {
    message: /no URL is fetched here.*--media-urls HOST/,
    param: 'messages.0.content.0',
  }
  t.match(await answer.json(), { error })
})

t.test('an earlier message goes on without a file that cannot be fetched', async (t) => {
  const { ask, port, server } = await open(
    t,
    (port) => [`pictures.test:${port}`],
    (_, res) => {
      res.writeHead(404).end()
    },
  )
  const plain = await serve({ backend: { images: true }, protocols: [openAiProtocol()] })
  t.teardown(() => plain.close())
  for (const url of [`http://pictures.test:${port}/gone.png`, 'http://elsewhere.test/a.png']) {
    const seen = { role: 'user', content: [{ type: 'image_url', image_url: { url } }] }
    const later = [
      { role: 'assistant', content: 'A cat' },
      { role: 'user', content: 'More' },
    ]
    const messages = [seen, ...later]
    t.match(await ask('/v1/chat/completions', { messages, max_tokens: 1 }), { status: 200 }, url)
    t.match(await ask('/v1/chat/completions', { messages: [...messages, seen] }), { status: 400 })
    t.equal((await plain.post('/v1/chat/completions', { messages, max_tokens: 1 })).status, 200)
  }
  t.equal(server.log.filter(({ level }) => level === 'error').length, 0)
})

t.test('what is behind this server is not reached through it', async (t) => {
  const { chat, asked, port } = await open(t, () => ['*'])
  const wrong: [url: string, error: RegExp][] = [
    [`http://pictures.test:${port}/`, /not among the servers/],
    ['http://pictures.test/', /no public address \(loopback\)/],
    ['http://127.0.0.1/', /loopback/],
    ['http://0x7f.1/', /loopback/],
    ['http://2130706433/', /loopback/],
    ['http://[::1]/', /loopback/],
    ['http://[::ffff:10.0.0.1]/', /private/],
    ['http://[64:ff9b::7f00:1]/', /rfc6052/],
    ['http://[fe80::1]/', /linkLocal/],
    ['http://[::127.0.0.1]/', /reserved/],
    ['http://[4000::1]/', /reserved/],
    ['http://168.63.129.16/', /reserved/],
    ['http://[::ffff:168.63.129.16]/', /reserved/],
    ['http://0.0.0.0/', /unspecified/],
    ['https://user:word@169.254.169.254/latest/meta-data/', /linkLocal/],
    ['http://metadata.test/', /linkLocal/],
    ['http://inside.test/', /private/],
    ['http://both.test/', /private/],
    ['http://nowhere.test/', /no address/],
    ['http://inside.test:22/', /not among/],
    ['http://', /cannot be fetched/],
    ['file:///etc/passwd', /in base64/],
    ['ftp://inside.test/', /in base64/],
  ]
  for (const [url, message] of wrong) {
    const { status, json } = await chat(url)
    t.match({ url, status, json }, { status: 400, json: { error: { message } } })
    t.match(json, { error: { param: 'messages.0.content.0' } })
  }
  t.same(asked, [])
})

t.test('each redirect is checked, and there are limits', async (t) => {
  const { server, port, chat } = await open(
    t,
    (port) => ['inside.test', `pictures.test:${port}`],
    (req, res) => {
      const [, kind, to = ''] = /^\/([a-z]+)\??(.*)$/.exec(req.url ?? '') ?? []
      if (kind === 'to') res.writeHead(302, { Location: decodeURIComponent(to) }).end()
      else if (kind === 'large') res.end(Buffer.alloc(101))
      else if (kind === 'long') res.writeHead(200, { 'Content-Length': '101' }).write('a')
      else if (kind === 'none') res.writeHead(404).end('secret')
      else if (kind === 'cat') res.end(cat)
      else res.writeHead(200).write('a')
    },
  )
  const at = `http://pictures.test:${port}`
  const to = (url: string) => `${at}/to?${encodeURIComponent(url)}`
  t.match(await chat(to('/cat')), { status: 200 })
  const wrong: [url: string, error: RegExp, status?: number][] = [
    [to('http://inside.test/'), /private/],
    [to('http://elsewhere.test/'), /elsewhere.test is not among/],
    [to('file:///etc/passwd'), /not among/],
    [to(to(to(to(`${at}/cat`)))), /more than 3 times/],
    [`${at}/none`, /answers 404$/],
    [`${at}/large`, /at most 100 bytes/, 413],
    [`${at}/long`, /at most 100 bytes/, 413],
  ]
  for (const [url, message, status = 400] of wrong) {
    t.match(await chat(url), { status, json: { error: { message } } })
  }
  const refused = server.log.filter(({ fields }) => fields['status'] === 413)
  t.equal(refused.length, 2, 'at once: nothing of the request is still to come')
  const slow = chat(`${at}/slow`)
  let isOver = false
  void slow.then(() => (isOver = true))
  await until(() => {
    server.clock.advance(5_000)
    return isOver
  })
  t.match(await slow, { status: 400, json: { error: { message: /took more than 10000 ms/ } } })
  const many = Array.from({ length: 33 }, (_, nth) => `${at}/cat?${nth}`)
  t.match(await chat(...many), { status: 400, json: { error: { message: /at most 32 URLs/ } } })
})

t.test('a request fetches when it is read, and ends with its signal', async (t) => {
  const hosts = (port: number) => [`pictures.test:${port}`]
  const { server, port, asked, looked, lookup } = await open(t, hosts, () => {})
  const { directory } = server.server
  const fetcher = new MediaFetcher({ hosts: hosts(port), lookup }, server.clock)
  const bodies = new BodyBudget(1000)
  const media = [{ type: 'image', data: `http://pictures.test:${port}/cat.png`, at: 0 }] as const
  const request = { prompt: { messages: [{ role: 'user', content: 'See', media }] } } as const
  withMediaUrls(directory, bodies, undefined).open().submit(request)
  const client = withMediaUrls(directory, bodies, fetcher).open()
  const leaving = new AbortController()
  const events = client.submit(request, { signal: leaving.signal })
  for (let turn = 0; turn < 5; turn++) await turnOfTheEventLoop()
  t.same(looked, [], 'nothing is fetched, or refused, that nobody reads')
  const first = events.next()
  await until(() => asked.length === 1)
  leaving.abort()
  await t.rejects(first, { code: 'cancelled' })

  const left = new AbortController()
  const url = (nth: number) => `http://pictures.test:${port}/${nth}`
  const fetch = async (nth: number) => await fetcher.fetch(url(nth), 'image', left.signal, () => {})
  const all = Promise.allSettled(Array.from({ length: 256 }, async (_, nth) => await fetch(nth)))
  await t.rejects(fetch(256), { code: 'queue_full', message: /256 files are being fetched/ })
  left.abort()
  await all
  await t.rejects(fetch(257), { code: 'invalid_media' }, 'places are free again')
})

t.test('names that nobody waits for count until they are looked up', async (t) => {
  const found: (() => void)[] = []
  const lookup: LookupAll = (_host, _, done) => found.push(() => done(new Error('unknown'), []))
  const fetcher = new MediaFetcher({ hosts: ['*'], lookup }, new SimulatedClock())
  const fetchAll = async (signal?: AbortSignal) =>
    await Promise.allSettled(
      Array.from({ length: 256 }, async (_, nth) => {
        await fetcher.fetch(`http://slow${nth}.test/cat`, 'image', signal, () => {})
      }),
    )
  const leaving = new AbortController()
  const all = fetchAll(leaving.signal)
  await until(() => found.length === 256)
  leaving.abort()
  await all
  await fetchAll()
  t.equal(found.length, 256, 'others do not wait behind more of them')
  for (const finish of found) finish()
  const again = fetcher.fetch('http://slow.test/cat', 'image', undefined, () => {})
  await until(() => found.length === 257)
  found.at(-1)!()
  await t.rejects(again, { code: 'invalid_media' })
})
