import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { readJsonBody, type KoaProtocol } from '@cllm/http-koa'
import t from 'tap'
import { exceededBy } from '../../src/body/read-body.js'
import { rawPost, rawRequest, serve, until } from '../serve.js'

const limit = 1000
const mebibyte = 1024 * 1024

const echo: KoaProtocol = {
  name: 'echo',
  mount(router) {
    router.post('/echo', async (ctx) => {
      ctx.body = { ...(await readJsonBody(ctx)) }
    })
  },
}

const start = async () => serve({ protocols: [echo], bodyLimitBytes: limit })

t.test('takes JSON objects', async (t) => {
  const server = await start()
  t.teardown(() => server.close())
  const types = [
    'application/json',
    'Application/JSON; charset=UTF-8',
    'application/json;charset="utf-8"',
    'application/vnd.cllm+json',
    'application/x-www-form-urlencoded',
    'text/plain',
    'text/plain; charset=latin1',
    'multipart/form-data; boundary=x',
    'nonsense',
  ]
  for (const type of types) {
    const response = await server.post(
      '/echo',
      { text: 'é😀' },
      { headers: { 'Content-Type': type } },
    )
    t.same([response.status, await response.json()], [200, { text: 'é😀' }], type)
  }
  const text = '\uFEFF {"a": [1, null]} \n'
  t.same(await (await server.post('/echo', text)).json(), { a: [1, null] }, 'a mark, white space')
  const untyped = await rawRequest(
    server.port,
    'POST /echo HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Length: 7\r\n\r\n{"a":1}',
  )
  await until(() => untyped.closed)
  t.match(untyped.received, /^HTTP\/1\.1 200[^]*{"a":1}$/, 'a body without a type is JSON')
  const chunked = await rawRequest(
    server.port,
    'POST /echo HTTP/1.1\r\nHost: test\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n' +
      '4\r\n{"a"\r\n3\r\n:2}\r\n0\r\n\r\n',
  )
  await until(() => chunked.closed)
  t.match(chunked.received, /{"a":2}$/)
  const exact = JSON.stringify({ a: 'x'.repeat(limit - 8) })
  t.equal((await server.post('/echo', exact)).status, 200, 'as long as it may be')
  t.equal((await server.post('/echo', `${exact} `)).status, 413, 'one byte more')
})

t.test('refuses everything else, saying where', async (t) => {
  const server = await start()
  t.teardown(() => server.close())
  const cases: [body: string | Buffer, error: string | RegExp][] = [
    ['', 'Expected a JSON object, instead got no body'],
    ['  \n', 'Expected a JSON object, instead got no body'],
    ['[1]', 'Expected a JSON object, instead got an array'],
    ['null', 'Expected a JSON object, instead got null'],
    ['"text"', 'Expected a JSON object, instead got a string'],
    ['7', 'Expected a JSON object, instead got a number'],
    ['hello', /^Invalid JSON at line 1, column 1: /],
    ['{"a": 1,\n "b": tru}', /^Invalid JSON at line 2, column 7: /],
    ['{"a":1,}', /^Invalid JSON at line 1, column 8: /],
    ['{"a":\n', /^Invalid JSON at line 2, column 1: .*end/],
    ["{'a':1}", /^Invalid JSON at line 1, column 2: /],
    ['{"a":NaN}', /^Invalid JSON at line 1, column 6: /],
    ['{"a":1} {', /^Invalid JSON at line 1, column 9: /],
    ['{"a":"\u0001"}', /^Invalid JSON: .*position 6/],
    ['['.repeat(90), /^Invalid JSON/],
    ['['.repeat(900), 'Expected JSON of at most 100 levels, instead got more'],
    [
      Buffer.from([0x7b, 0xff, 0x7d]),
      'Expected JSON in UTF-8, instead got bytes that are not UTF-8',
    ],
  ]
  for (const [body, error] of cases) {
    const response = await server.post('/echo', '', { body })
    const answer = (await response.json()) as { error: string }
    t.match([response.status, answer], [400, { success: false, code: 'invalid_json' }])
    if (typeof error === 'string') t.equal(answer.error, error)
    else t.match(answer.error, error)
  }
  const form = { body: 'a=1', headers: { 'Content-Type': 'application/x-www-form-urlencoded' } }
  t.match(await (await server.post('/echo', '', form)).json(), {
    error:
      /^Invalid JSON at line 1, column 1: .*\(Content-Type: application\/x-www-form-urlencoded\)$/,
  })
  const types: [headers: Record<string, string>, error: RegExp][] = [
    [{ 'Content-Encoding': 'zstd' }, /instead got zstd/],
    [{ 'Content-Type': 'application/json', 'Content-Encoding': 'x' }, /instead got x/],
  ]
  for (const [headers, error] of types) {
    const response = await server.post('/echo', '{}', { headers })
    t.match(
      [response.status, await response.json()],
      [415, { success: false, code: 'unsupported_media_type', error }],
    )
  }
  for (const encoding of ['gzip', 'deflate', 'br']) {
    const wrong = await server.post('/echo', '{}', { headers: { 'Content-Encoding': encoding } })
    t.match([wrong.status, await wrong.json()], [400, { error: /not packed as/ }], encoding)
  }
})

t.test('packed bodies are unpacked, within the limit', async (t) => {
  const server = await start()
  t.teardown(() => server.close())
  const pack = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync }
  for (const [encoding, packed] of Object.entries(pack)) {
    const headers = { 'Content-Encoding': encoding, 'Content-Type': 'application/json' }
    const send = (body: string) =>
      server.post('/echo', '', { body: new Uint8Array(packed(body)), headers })
    t.match(await (await send('{"a":"é"}')).text(), /é/, encoding)
    const large = await send(JSON.stringify({ a: 'x'.repeat(limit) }))
    t.match([large.status, await large.json()], [413, { code: 'body_too_large' }], encoding)
  }
  t.match(await (await server.post('//echo', '{"a":1}')).json(), { a: 1 }, 'slashes count once')
})

t.test(
  'a packed body that is not wanted is read to its end before the connection closes',
  async (t) => {
    const server = await start()
    t.teardown(() => server.close())
    const noise = randomBytes(4 * mebibyte)
    const bodies = { 400: noise, 413: gzipSync(noise) }
    for (const [status, body] of Object.entries(bodies)) {
      const client = await rawRequest(
        server.port,
        `POST /echo HTTP/1.1\r\nHost: test\r\nContent-Encoding: gzip\r\nContent-Length: ${body.length}\r\n\r\n`,
      )
      client.socket.pause()
      client.socket.write(body, () => client.socket.resume())
      await until(() => client.closed)
      t.equal(client.error, undefined, 'no reset')
      t.match(client.received, new RegExp(`^HTTP/1\\.1 ${status} `))
    }
  },
)

t.test('a body that is too large', async (t) => {
  const body = {
    success: false,
    error: `Expected a body of at most ${limit} bytes, instead got more`,
    code: 'body_too_large',
  }
  const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`
  const chunkedHead = 'POST /echo HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: chunked\r\n\r\n'

  await t.test('a client that sends it all before it reads gets the answer', async (t) => {
    const server = await start()
    t.teardown(() => server.close())
    for (const size of [limit + 1, 5 * mebibyte]) {
      const client = await rawRequest(server.port, '')
      client.socket.pause()
      client.socket.write(rawPost('/echo', 'x'.repeat(size)), () => client.socket.resume())
      await until(() => client.closed)
      t.equal(client.error, undefined, 'no reset')
      t.match(client.received, /^HTTP\/1\.1 413 .*\r\n/)
      t.match(client.received, /\r\nConnection: close\r\n/i)
      t.same(JSON.parse(client.received.split('\r\n\r\n')[1] ?? ''), body)
    }
  })

  await t.test('a client that is still sending gets the answer', async (t) => {
    const server = await start()
    t.teardown(() => server.close())
    const client = await rawRequest(server.port, chunkedHead)
    let chunks = 0
    await until(() => {
      if (client.socket.writableLength === 0) {
        client.socket.write(chunk)
        chunks++
      }
      return client.received.endsWith('}')
    })
    t.match(client.received, /^HTTP\/1\.1 413 /)
    t.notOk(client.closed, 'it may go on')
    for (const last = chunks + 20; chunks < last; chunks++) client.socket.write(chunk)
    client.socket.end('0\r\n\r\n')
    await until(() => client.closed)
    t.equal(client.error, undefined)
  })

  await t.test('but nobody may send for ever', async (t) => {
    const server = await start()
    t.teardown(() => server.close())
    const client = await rawRequest(server.port, chunkedHead)
    let sent = 0
    await until(() => {
      if (client.socket.writableLength === 0) {
        client.socket.write(chunk)
        sent += chunk.length
      }
      return client.closed
    })
    t.ok(sent > 64 * mebibyte && sent < 80 * mebibyte, 'cut by size')
    t.match(client.received, /^HTTP\/1\.1 413 /)

    const slow = await rawRequest(server.port, chunkedHead + chunk)
    await until(() => slow.received.endsWith('}'))
    server.clock.advance(9_999)
    slow.socket.write(chunk)
    t.notOk(slow.closed)
    server.clock.advance(1)
    await until(() => slow.closed)
    t.pass('cut by time')
  })

  await t.test('a client that leaves is forgotten', async (t) => {
    const server = await start()
    t.teardown(() => server.close())
    const client = await rawRequest(server.port, chunkedHead + chunk)
    await until(() => client.received.endsWith('}'))
    client.socket.destroy()
    await until(() => server.clock.nextTimer() === undefined)
    t.same(
      server.log.filter(({ level, message }) => level !== 'debug' && message !== 'request'),
      [],
    )
  })
})

t.test('the bodies of the requests under way are limited together', async (t) => {
  const waiting: (() => void)[] = []
  const slow: KoaProtocol = {
    name: 'slow',
    mount(router) {
      router.post('/slow', async (ctx) => {
        await readJsonBody(ctx)
        await new Promise<void>((resolve) => waiting.push(resolve))
        ctx.body = {}
      })
    },
  }
  const bodiesLimitBytes = 500_000
  const server = await serve({ protocols: [slow], transport: { bodiesLimitBytes } })
  t.teardown(() => server.close())
  const ask = (length: number) => server.post('/slow', { text: 'x'.repeat(length) })
  const asked = [ask(200_000), ask(200_000)]
  await until(() => waiting.length === 2)
  const refused = await ask(200_000)
  t.equal(refused.status, 429)
  t.match(await refused.json(), { code: 'queue_full', error: 'Request queue is full' })
  asked.push(ask(50_000))
  await until(() => waiting.length === 3)
  t.pass('small ones are taken')
  for (const go of waiting.splice(0)) go()
  for (const answer of await Promise.all(asked)) t.equal((await answer.text(), answer.status), 200)
  const later = ask(400_000)
  await until(() => waiting.length === 1)
  waiting[0]!()
  t.equal((await later).status, 200, 'they are counted until their answers have gone out')
})

t.test('bodies that never end are counted as far as they have come', async (t) => {
  const echo: KoaProtocol = {
    name: 'echo',
    mount(router) {
      router.post('/echo', async (ctx) => {
        ctx.body = Object.keys(await readJsonBody(ctx))
      })
    },
  }
  const server = await serve({ protocols: [echo], transport: { bodiesLimitBytes: 500_000 } })
  t.teardown(() => server.close())
  const whole = rawPost('/echo', { text: 'x'.repeat(400_000) })
  const [begin, rest] = [whole.slice(0, 300_000), whole.slice(300_000)]
  const both = [await rawRequest(server.port, begin), await rawRequest(server.port, begin)]
  const isRefused = ({ received }: { received: string }) => /^HTTP\/1.1 429 .*}$/s.test(received)
  await until(() => both.some(isRefused))
  const refused = both.find(isRefused)!
  const other = both.find((one) => one !== refused)!
  t.match(refused.received, 'queue_full')
  refused.socket.write(rest)
  await until(() => refused.closed)
  t.equal(refused.error, undefined)
  other.socket.write(rest)
  await until(() => other.received !== '')
  t.match(other.received, /^HTTP\/1.1 200 /, 'what was refused is counted no longer')
  other.socket.destroy()
})

t.test('the body of a client that has left is not counted', async (t) => {
  const failures: unknown[] = []
  let hasBegun = false
  const late: KoaProtocol = {
    name: 'late',
    mount(router) {
      router.post('/late', async (ctx) => {
        hasBegun = true
        await once(ctx.res, 'close')
        const read = async () => await readJsonBody(ctx)
        const count = async () => ctx.state.transport.bodies.count(ctx, 400_000)
        for (const use of [read, count]) await use().catch((error) => failures.push(error))
      })
      router.post('/echo', async (ctx) => {
        ctx.body = Object.keys(await readJsonBody(ctx))
      })
    },
  }
  const server = await serve({ protocols: [late], transport: { bodiesLimitBytes: 500_000 } })
  t.teardown(() => server.close())
  const client = await rawRequest(server.port, rawPost('/late', { text: 'x' }))
  await until(() => hasBegun)
  client.socket.destroy()
  await until(() => failures.length === 2)
  t.match(failures, [{ code: 'cancelled' }, { code: 'cancelled' }])
  const next = await server.post('/echo', { text: 'x'.repeat(400_000) })
  t.same([next.status, await next.json()], [200, ['text']])
})

t.test('brackets in texts are no levels', (t) => {
  const inTexts = ['[[', '"[', '\\"[[', '\\', '\\\\"[', ''].map((text) => ({ [text]: text }))
  t.equal(exceededBy(JSON.stringify(inTexts), 2), undefined)
  t.equal(exceededBy(JSON.stringify([inTexts]), 2), '2 levels')
  t.equal(exceededBy('"no end [[[', 2), undefined)
  t.end()
})

t.test('values without commas between them are values', (t) => {
  const nested = `${'['.repeat(64)}${']'.repeat(64)},`
  t.equal(exceededBy(nested.repeat(2 ** 14 - 2 ** 9), 64), undefined)
  t.equal(exceededBy(nested.repeat(2 ** 14), 64), '1048576 values')
  t.end()
})
