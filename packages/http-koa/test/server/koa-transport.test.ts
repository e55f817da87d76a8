import { CllmError, silentLogger, systemRandom } from '@cllm/core'
import {
  hashKey,
  keyRing,
  type KoaProtocol,
  koaTransport,
  nativeProtocol,
  openAiProtocol,
  readJsonBody,
} from '@cllm/http-koa'
import { drive } from '@cllm/testing'
import { type AddressInfo, Server } from 'node:net'
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import t from 'tap'
import { rawPost, rawRequest, serve, until } from '../serve.js'

const faulty: KoaProtocol = {
  name: 'faulty',
  mount(router) {
    router.get('/defect', () => {
      throw new Error('secret')
    })
    router.get('/elsewhere', () => {
      throw new CllmError('internal', 'secret of another process')
    })
    router.get('/thrown', (ctx) => ctx.throw(418, 'short and stout'))
    router.get('/late', async (ctx) => {
      ctx.respond = false
      ctx.res.write('some')
      throw new Error('too late')
    })
    router.get('/busy', () => {
      throw new CllmError('queue_full', '3 requests are waiting')
    })
    router.get('/slow', () => {
      throw new CllmError('timeout', 'it took 3 ms')
    })
    router.get('/field', () => {
      throw new CllmError('invalid_token', 'logitBias: no', { details: { field: 'logitBias' } })
    })
    router.post('/body', async (ctx) => {
      ctx.body = await readJsonBody(ctx)
    })
    router.get('/generate', (ctx) => {
      ctx.body = 'from the second protocol'
    })
  },
}

t.test('listens where it is told, or says what to do', async (t) => {
  const first = await serve()
  t.match(first.url, /^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
  t.equal((await first.get('/health')).status, 200)
  await t.rejects(serve({ port: first.port }), {
    code: 'address_in_use',
    message: `Cannot listen on host 127.0.0.1, port ${first.port}: another program listens there. Stop it, or choose another port (0 takes any free one)`,
  })
  await t.rejects(serve({ port: 70_000 }), { code: 'address_in_use', message: /0 to 65535/ })
  await t.rejects(serve({ host: '203.0.113.1' }), {
    code: 'address_in_use',
    message: /host 203\.0\.113\.1, port 0: this machine has no such address/,
  })
  const both = await serve({ host: ['127.0.0.1', '127.0.0.2'] })
  t.equal((await both.get('/health')).status, 200)
  const other = both.url.replace('127.0.0.1', '127.0.0.2')
  t.equal((await fetch(`${other}/health`)).status, 200)
  await t.rejects(serve({ host: ['127.0.0.3', '127.0.0.2'], port: both.port }), {
    code: 'address_in_use',
    message: `Cannot listen on host 127.0.0.2, port ${both.port}: another program listens there. Stop it, or choose another port (0 takes any free one)`,
  })
  const again = await serve({ host: '127.0.0.3', port: both.port })
  await again.close()
  await both.close()
  await t.rejects(fetch(`${other}/health`), 'nothing listens on the other one any more')
  const six = await serve({ host: '::1' }).catch(() => undefined)
  if (six !== undefined) {
    t.match(six.url, /^http:\/\/\[::1\]:\d+$/)
    await six.close()
  }
  await first.close()
  await first.close()
  await t.rejects(first.get('/health'), 'nothing listens any more')
})

t.test('answers what nobody serves, and what fails', async (t) => {
  const server = await serve({ protocols: [nativeProtocol(), faulty] })
  t.teardown(() => server.close())
  const answer = async (path: string, init?: RequestInit) => {
    const response = await server.get(path, init)
    const text = await response.text()
    return {
      status: response.status,
      headers: response.headers,
      text,
      json: () => JSON.parse(text) as unknown,
    }
  }

  const missing = await answer('/nothing/here?x=1')
  t.equal(missing.status, 404)
  t.equal(missing.headers.get('content-type'), 'application/json; charset=utf-8')
  t.same(missing.json(), {
    success: false,
    error: 'There is nothing at /nothing/here',
    code: 'not_found',
  })

  const wrong = await answer('/health', { method: 'DELETE' })
  t.equal(wrong.status, 405)
  t.equal(wrong.headers.get('allow'), 'HEAD, GET')
  t.same(wrong.json(), {
    success: false,
    error: '/health takes HEAD, GET, not DELETE',
    code: 'method_not_allowed',
  })
  const odd = await answer('/encode', { method: 'PROPFIND' })
  t.equal(odd.status, 405, 'also for methods that no route has')
  t.equal(odd.headers.get('allow'), 'POST')
  t.equal((await answer('/nothing', { method: 'PROPFIND' })).status, 404)

  const head = await answer('/health', { method: 'HEAD' })
  t.same([head.status, head.text, Number(head.headers.get('content-length')) > 0], [200, '', true])
  const headMissing = await answer('/nothing', { method: 'HEAD' })
  t.same([headMissing.status, headMissing.text], [404, ''])
  const options = await answer('/generate_stream', { method: 'OPTIONS' })
  t.same([options.status, options.headers.get('allow')], [200, 'POST'])

  t.equal((await answer('/generate')).text, 'from the second protocol', 'protocols share paths')

  const defect = await answer('/defect')
  t.equal(defect.status, 500)
  const internal = {
    success: false,
    error: 'Internal error. The log of the server has the cause',
    code: 'internal',
  }
  t.same(defect.json(), internal)
  t.same((await answer('/elsewhere')).json(), internal)
  const logged = server.log.find((line) => line.level === 'error')
  t.match(logged?.fields.err, { message: 'secret' })

  t.same(await answer('/thrown').then((thrown) => [thrown.status, thrown.json()]), [
    418,
    { success: false, error: 'short and stout', code: 'invalid_request' },
  ])

  const busy = await answer('/busy')
  t.equal(busy.status, 429)
  t.equal(busy.headers.get('retry-after'), '5')
  t.same(busy.json(), {
    success: false,
    error: 'Request queue is full',
    message: 'Server is currently at maximum capacity. Please try again later.',
    retry_after: 5,
    code: 'queue_full',
  })
  t.same(await answer('/slow').then((slow) => [slow.status, slow.json()]), [
    408,
    { success: false, error: 'Request timeout', message: 'Request timed out', code: 'timeout' },
  ])
  t.same((await answer('/field')).json(), {
    success: false,
    error: 'logit_bias: no',
    code: 'invalid_token',
    field: 'logit_bias',
  })

  server.log.splice(0)
  await t.rejects(answer('/late'), 'an answer that breaks off is cut, not ended')
  const errors = server.log.filter(({ level }) => level === 'error')
  t.match(errors, [{ fields: { err: { message: 'too late' }, requestId: String } }])
})

t.test('a client that leaves in the middle of its body is no error', async (t) => {
  const server = await serve({ protocols: [faulty] })
  t.teardown(() => server.close())
  const leaving = await rawRequest(
    server.port,
    'POST /body HTTP/1.1\r\nHost: test\r\nContent-Length: 10\r\n\r\n{"a":',
  )
  leaving.socket.destroy()
  const other = await server.post('/body', { still: 'here' })
  t.same(await other.json(), { still: 'here' })
  t.same(
    server.log.filter(({ level, message }) => level !== 'debug' && message !== 'request'),
    [],
  )
})

t.test('closing', async (t) => {
  const open = async () => {
    const server = await serve({ backend: { stepMs: () => 10, slots: 1 } })
    const stream = await rawRequest(
      server.port,
      rawPost('/generate_stream', { prompt: 'The', max_tokens: 5 }),
    )
    await until(() => stream.received.includes('\r\n\r\n'))
    return { server, stream }
  }

  await t.test('lets what is under way finish, and takes nothing new', async (t) => {
    const { server, stream } = await open()
    const idle = await rawRequest(server.port, '')
    const kept = await rawRequest(server.port, rawPost('/encode', { text: 'a' }))
    await until(() => kept.received.includes('length'))
    const slow = await rawRequest(
      server.port,
      'POST /encode HTTP/1.1\r\nHost: test\r\nContent-Length: 12\r\n\r\n',
    )
    await server.get('/health')
    const closed = server.server.close(10_000)
    t.equal((await server.get('/health')).status, 503)
    slow.socket.write('{"text":"a"}')
    await until(() => slow.received.includes('length'))
    t.match(slow.received, /^HTTP\/1\.1 200/, 'what had begun is finished')
    t.notOk(stream.closed)
    await until(() => {
      server.clock.advance(10)
      return stream.closed && idle.closed && kept.closed && slow.closed
    })
    t.match(stream.received, /"done":true,"generated_tokens":5}\n\n\r\n0\r\n\r\n$/)
    await closed
    t.ok(server.clock.now() < 11_000, 'before the deadline')
  })

  await t.test('cuts at the deadline', async (t) => {
    const { server, stream } = await open()
    const closed = server.server.close(15)
    server.clock.advance(14)
    t.notOk(stream.closed)
    await until(() => {
      server.clock.advance(1)
      return stream.closed
    })
    t.notMatch(stream.received, /generated_tokens/)
    t.match(stream.received, /shutting down/, 'with the reason')
    await until(() => {
      server.clock.advance(10)
      return server.backend.samplers.size === 0
    })
    await closed
  })

  await t.test('waits with every call, until the earliest deadline', async (t) => {
    const server = await serve()
    t.teardown(() => server.close())
    const { clock } = server
    const context = { clock, random: systemRandom, logger: silentLogger }
    const create = koaTransport({ port: 0, protocols: [nativeProtocol()] })
    const transport = create({ ...context, directory: server.server.directory })
    const { url } = await transport.listen()
    const slow = await rawRequest(
      Number(new URL(url).port),
      'POST /encode HTTP/1.1\r\nHost: test\r\nContent-Length: 12\r\n\r\n',
    )
    await fetch(`${url}/health`)
    const first = transport.close(clock.now() + 10_000)
    let isOver = false
    const second = transport.close(clock.now() + 10).then(() => (isOver = true))
    for (let turn = 0; turn < 5; turn++) await turnOfTheEventLoop()
    t.notOk(isOver || slow.closed)
    clock.advance(10)
    await Promise.all([first, second])
    await transport.close(clock.now() + 10)
  })
})

/** What listens at an address in this process. */
function listenerAt(host: string): Server {
  const { _getActiveHandles: handles } = process as never as { _getActiveHandles: () => unknown[] }
  return handles()
    .filter((each) => each instanceof Server)
    .find((each) => (each.address() as AddressInfo).address === host)!
}

t.test('all addresses are one server: its limit, its failures and its end', async (t) => {
  const hosts = ['127.0.0.1', '127.0.0.2']
  const server = await serve({ host: hosts, transport: { maxConnections: 2 } })
  const slow = await rawRequest(
    server.port,
    'POST /encode HTTP/1.1\r\nHost: test\r\nContent-Length: 12\r\n\r\n',
    '127.0.0.2',
  )
  const more = await Promise.all(hosts.map((host) => rawRequest(server.port, '', host)))
  await until(() => more.some(({ closed }) => closed))
  for (const { socket } of more) socket.destroy()
  listenerAt('127.0.0.2').emit('error', new Error('accept EMFILE'))
  t.match(server.log, [{ level: 'error', message: 'HTTP server failed' }])
  let isClosed = false
  const closing = server.server.close(10_000).then(() => (isClosed = true))
  const isGone = async () => !(await fetch(server.url).catch(() => undefined))
  await until(isGone)
  t.notOk(isClosed, 'before all addresses have answered')
  slow.socket.write('{"text":"a"}')
  await closing
  await until(() => slow.closed)
  t.match(slow.received, /^HTTP\/1\.1 \d+ /, 'and is not cut')
})

t.test('an engine that shuts down says so', async (t) => {
  const server = await serve()
  await server.client.drain()
  const refused = await server.post('/generate', { prompt: 'The' })
  t.equal(refused.status, 503)
  t.match(await refused.json(), { success: false, code: 'shutting_down' })
  await server.close()
})

t.test(
  'draining: running requests finish, readiness and new requests get 503 at once',
  async (t) => {
    for (const graceMs of [60_000, 20]) {
      const server = await serve({ backend: { stepMs: () => 10, endProbability: 0 } })
      t.match(await (await server.get('/health/ready')).json(), { data: { status: 'ready' } })
      const response = await server.post('/generate_stream', { prompt: 'x', max_tokens: 9 })
      const closing = server.server.close(graceMs)
      for (const path of ['/health/ready', '/health', '/model/info']) {
        const refused = await server.get(path)
        t.equal(refused.status, 503)
        t.equal(refused.headers.get('connection'), 'close')
        t.match(await refused.json(), { code: 'shutting_down' })
      }
      t.equal((await server.get('/health/live')).status, 200)
      const whole = graceMs > 90
      const end = whole
        ? /"done":true,"generated_tokens":9/
        : /"error":"[^"]*shutting down".*true}\n\n$/
      t.match(await drive(server.clock, response.text()), end)
      await drive(server.clock, closing)
      await t.rejects(server.get('/health/live'))
    }
  },
)

t.test('a line per request: no body, no query, no key', async (t) => {
  const hash = hashKey('the-key')
  const keys = keyRing(() => [{ name: 'ann', tenant: 'ann', role: 'user', hash }])
  const server = await serve({ transport: { security: { keys } } })
  t.teardown(server.close)
  const headers = {
    'Content-Type': 'application/json',
    Authorization: 'Bearer the-key',
    'X-Request-Id': 'mine',
  }
  const body = { prompt: 'a private matter', max_tokens: 1 }
  const { 'X-Request-Id': _, ...unnamed } = headers
  const own = await server.post('/generate', body, { headers: unnamed })
  await own.text()
  const id = own.headers.get('x-request-id')
  const isDone = () => server.log.some(({ message }) => message === 'request')
  await until(isDone)
  const [done] = server.log.splice(0).filter(({ message }) => message === 'request')
  t.equal(done?.fields['requestId'], id, 'the id of the log is that of the answer')
  await (await server.post('/generate?q=private', body, { headers })).text()
  await (await server.post('/generate', { prompt: 7, temperature: 'private' }, { headers })).text()
  await (await server.get('/health')).text()
  await (await server.post('/generate', '{"prompt": "private')).text()
  const requests = () => server.log.filter(({ message }) => message === 'request')
  await until(() => requests().length === 4)
  const line = { requestId: 'mine', method: 'POST', path: '/generate', status: 200, key: 'ann' }
  const generated = { promptTokens: Number, generatedTokens: 1, ttftMs: Number, finish: 'length' }
  t.match(requests()[0], { level: 'info', fields: { ...line, ms: Number, ...generated } })
  t.match(
    requests().map(({ level, fields }) => [level, fields['status'], fields['finish']]),
    [
      ['info', 200, 'length'],
      ['info', 400, 'invalid_request'],
      ['debug', 200, undefined],
      ['info', 401, 'unauthenticated'],
    ],
  )
  const shown = server.log.map(({ fields, ...rest }) => ({ ...rest, ...fields, refusal: '' }))
  t.notMatch(JSON.stringify(shown), 'private')
  t.notMatch(JSON.stringify(shown), 'the-key')
})

t.test('what is no HTTP, too long or too slow is refused in the words of its path', async (t) => {
  const protocols = [nativeProtocol(), openAiProtocol()]
  const server = await serve({ protocols, transport: { headerLimitBytes: 2048 } })
  const hasty = await serve({ transport: { headerTimeoutMs: 100, bodyTimeoutMs: 100 } })
  t.teardown(server.close)
  t.teardown(hasty.close)
  const ask = async (text: string, { port } = server) => {
    const client = await rawRequest(port, text)
    await until(() => client.closed)
    const [head = '', body = ''] = client.received.split('\r\n\r\n')
    t.match(head, /\r\nConnection: close\r\n/)
    return { status: Number(/^HTTP\/1.1 (\d+)/.exec(head)?.[1]), ...(JSON.parse(body) as object) }
  }
  const long = `x: ${'x'.repeat(3000)}\r\n\r\n`
  t.match(await ask(`GET /health HTTP/1.1\r\nHost: a\r\n${long}`), {
    status: 431,
    success: false,
    code: 'head_too_large',
  })
  t.match(await ask(`GET /v1/models HTTP/1.1\r\nHost: a\r\n${long}`), {
    status: 431,
    error: { type: 'invalid_request_error', code: 'head_too_large' },
  })
  for (const bad of ['hello\r\n\r\n', 'GET / HTTP/9.9\r\n\r\n', '\u0000\u0001\u0016\r\n\r\n']) {
    t.match(await ask(bad), { status: 400, success: false, code: 'invalid_http' }, bad)
  }
  t.match(
    await ask('GET / HTTP/1.1\r\nHost:', hasty),
    { status: 408, code: 'request_timeout' },
    'a slow head',
  )
  const slow = rawPost('/encode', { text: 'a' }).slice(0, -5)
  t.match(await ask(slow, hasty), { status: 408, code: 'request_timeout' }, 'a slow body')
  t.same(
    [...server.log, ...hasty.log].filter(({ level }) => level === 'error'),
    [],
  )
})

t.test('requests that are sent without waiting are answered one after the other', async (t) => {
  const server = await serve({ backend: { stepMs: () => 10, endProbability: 0 } })
  t.teardown(server.close)
  const client = await rawRequest(
    server.port,
    rawPost('/encode', { text: 'a' }) + rawPost('/generate', { prompt: 'a', max_tokens: 3 }),
  )
  await until(() => client.received.includes('length'))
  const closing = server.server.close(10_000)
  await drive(server.clock, closing)
  t.match(client.received, /"generated_tokens":3/, 'the last one too, before the connection closes')
})

t.test('a connection whose time is over is not closed on a request that has come', async (t) => {
  const server = await serve({ transport: { keepAliveMs: 1000 } })
  t.teardown(server.close)
  const ask = rawPost('/encode', { text: 'a' })
  const client = await rawRequest(server.port, ask)
  const answers = () =>
    client.received.match(/HTTP\/1\.1 200[^]*?"tokens":\[[^\]]*\]/g)?.length ?? 0
  await until(() => answers() === 1)
  client.socket.write(ask)
  // This process is stopped: when it goes on the request is there, and the time is over.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2100)
  await until(() => answers() === 2 || client.closed)
  t.equal(answers(), 2)
})
