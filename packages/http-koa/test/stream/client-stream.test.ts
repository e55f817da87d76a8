import { once, setMaxListeners } from 'node:events'
import { connect } from 'node:net'
import { CllmError, SimulatedClock } from '@cllm/core'
import { overriding } from '@cllm/host'
import {
  type KoaProtocol,
  llamaServerProtocol,
  nativeProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import t from 'tap'
import {
  ResumableStreams,
  type StreamPlace,
  StreamSession,
} from '../../src/stream/resumable-streams.js'
import { rawPost, rawRequest, serve, until } from '../serve.js'

/** With large events: what the operating system buffers is some megabytes. */
const tokens = 5000
const common = { temperature: 0, ignore_eos: true, stream: true }
const messages = [{ role: 'user', content: 'Tell me all.' }]
const streams: readonly [path: string, body: object][] = [
  [
    '/v1/chat/completions',
    { messages, max_tokens: tokens, logprobs: true, top_logprobs: 20, ...common },
  ],
  ['/completion', { prompt: 'Tell me all.', n_predict: tokens, n_probs: 20, ...common }],
]

/** Asks for a stream on a real connection and reads nothing. */
async function askAndRest(port: number, path: string, body: object) {
  const text = JSON.stringify(body)
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
  )
  await once(socket, 'readable')
  socket.setEncoding('utf8')
  return socket
}

t.test(
  'a client that does not read is cut off and its slot freed; no other request waits',
  async (t) => {
    const errors: (CllmError | undefined)[] = []
    const watch: KoaProtocol = {
      name: 'watch',
      observe: () => ({
        onSubmit: () => ({ onEvent() {}, onEnd: (_, error) => void errors.push(error) }),
      }),
    }
    const server = await serve({
      protocols: [nativeProtocol(), openAiProtocol(), llamaServerProtocol(), watch],
      backend: { slots: 2, contextSize: 10_000 },
      transport: { streamLimitBytes: 64 * 1024 },
    })
    t.teardown(() => server.close())
    for (const [path, body] of streams) {
      errors.length = 0
      const socket = await askAndRest(server.port, path, body)
      const beside = await server.post('/generate', { prompt: 'Hello', max_tokens: 20 })
      t.equal(beside.status, 200, 'others are served meanwhile')
      await until(() => errors.length === 2)
      const message = /^The client left \d+ bytes unread; the limit is 65536$/
      t.match(errors[1], { code: 'cancelled', message }, path)
      await until(async () => (await server.client.statistics()).running === 0)
      t.ok((await server.client.statistics()).slots.every(({ state }) => state === 'idle'))
      const line = server.log.findLast(({ message }) => message.includes('does not read'))
      t.ok((line?.fields['unreadBytes'] as number) < 128 * 1024, 'no more than that was kept')
      socket.destroy()
    }
    t.equal((await server.client.statistics()).requests.cancelled, streams.length)
  },
)

t.test('who reads slowly gets all of it', async (t) => {
  const server = await serve({
    backend: { slots: 1, contextSize: 4096 },
    transport: { streamLimitBytes: 64 * 1024 },
  })
  t.teardown(() => server.close())
  const body = { prompt: 'Tell me all.', max_tokens: 900, ...common }
  const socket = await askAndRest(server.port, '/generate', body)
  await until(async () => (await server.client.statistics()).requests.done === 1)
  let text = ''
  while (!text.endsWith('\r\n0\r\n\r\n')) {
    const chunk = socket.read(1000) ?? (socket.read() as string | null)
    if (typeof chunk === 'string') text += chunk
    else await once(socket, 'readable')
  }
  t.match(text, /"generated_tokens":900/)
  socket.destroy()
})

t.test('a client comes back to its stream', async (t) => {
  const server = await serve({ protocols: [openAiProtocol()], backend: { contextSize: 4096 } })
  t.teardown(() => server.close())
  const id = 'conversation/1::model'
  const begin = async (body: object, conversation = id) =>
    await server.post(
      '/v1/chat/completions',
      { messages, ...common, ...body },
      { headers: { 'Content-Type': 'application/json', 'X-Conversation-Id': conversation } },
    )
  const path = (query = '', conversation = id) =>
    `/v1/stream?conv_id=${encodeURIComponent(conversation)}${query}`
  t.match(await (await begin({}, 'x'.repeat(600))).json(), {
    error: { message: 'x-conversation-id: expected at most 512 characters, got 600' },
  })
  const whole = await (await begin({ max_tokens: 20 })).text()
  const ids = [...whole.matchAll(/^id: (\d+)$/gm)].map(([, number]) => Number(number))
  t.same(ids, [...ids.keys()], 'each event has its id')
  t.equal(await (await server.get(path())).text(), whole)
  t.equal(await (await server.get(path('&from=100'))).text(), whole.slice(100))
  const after = await server.get(path(), { headers: { 'Last-Event-ID': '5' } })
  t.equal(await after.text(), whole.slice(whole.indexOf('id: 6\n')))
  const lookup = async () =>
    await (
      await server.post('/v1/streams/lookup', { conversation_ids: ['conversation/1', 'x', ''] })
    ).json()
  const known = { conversation_id: id, is_done: true, total_bytes: Buffer.byteLength(whole) }
  server.clock.aheadMs = 60_000
  t.match(await lookup(), [{ ...known, started_at: 61, completed_at: 61 }], 'by the wall clock')
  server.clock.aheadMs = 0

  // a client that leaves ends nothing, and reads on where it was
  const leaving = new AbortController()
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  const body = JSON.stringify({ messages, ...common, max_tokens: 3000 })
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: here\r\nX-Conversation-Id: ${id}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  await once(socket, 'data')
  socket.destroy()
  t.match(await lookup(), [{ is_done: false }])
  const following = await server.get(path(), { signal: leaving.signal })
  const text = await following.text()
  t.match(text, /data: \[DONE\]\n\n$/)
  const numbers = [...text.matchAll(/^id: (\d+)$/gm)].map(([, number]) => Number(number))
  t.ok(numbers.length > 2000)
  t.same(numbers, [...numbers.keys()])
  await until(async () => (await server.client.statistics()).running === 0)
  t.equal((await server.client.statistics()).requests.cancelled, 0)

  t.equal((await server.get(path(), { method: 'DELETE' })).status, 204)
  t.equal((await server.get(path())).status, 404)
  t.equal((await server.get(path(), { method: 'DELETE' })).status, 204, 'again')
  t.equal((await server.get('/v1/stream')).status, 400)
  t.equal((await begin({ max_tokens: 1 }, 'x'.repeat(513))).status, 400)

  // and what is old is forgotten
  await (await begin({ max_tokens: 1 })).text()
  server.clock.advance(5 * 60_000)
  t.same(await lookup(), [])
})

t.test('what is sent at once may exceed what may be left unread', async (t) => {
  const server = await serve({
    protocols: [openAiProtocol(), llamaServerProtocol()],
    backend: { contextSize: 8192 },
    transport: { streamLimitBytes: 4096 },
  })
  t.teardown(() => server.close())
  const prompt = 'a'.repeat(6000)
  const large = await server.post('/completion', { prompt, n_predict: 2, ...common })
  t.match(await large.text(), `${prompt}"`, 'a large last event')

  const body = JSON.stringify({ messages, ...common, max_tokens: 1000 })
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: here\r\nX-Conversation-Id: c\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  await once(socket, 'data')
  socket.destroy()
  await until(async () => (await server.client.statistics()).requests.done === 2)
  const text = await (await server.get('/v1/stream?conv_id=c')).text()
  const numbers = [...text.matchAll(/^id: (\d+)$/gm)].map(([, number]) => Number(number))
  t.ok(text.length > 2 ** 17)
  t.same(numbers, [...numbers.keys()])
  t.match(text, /data: \[DONE\]\n\n$/)
})

t.test('who reads nothing of a whole answer is cut off', async (t) => {
  let close: Promise<unknown> | undefined
  const large: KoaProtocol = {
    name: 'large',
    mount(router) {
      router.get('/large', (ctx) => {
        close = once(ctx.res, 'close')
        ctx.body = Buffer.alloc(64 * 2 ** 20)
      })
    },
  }
  const server = await serve({ protocols: [large], transport: { stallMs: 50 } })
  t.teardown(() => server.close())
  const socket = connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write('GET /large HTTP/1.1\r\nHost: here\r\n\r\n')
  await once(socket, 'readable')
  await close
  t.pass('its connection is closed')
  socket.destroy()
})

t.test('stopping a stream ends its request', async (t) => {
  const server = await serve({ protocols: [openAiProtocol()], backend: { stepMs: () => 1 } })
  t.teardown(() => server.close())
  const headers = { 'Content-Type': 'application/json', 'X-Conversation-Id': 'c' }
  const stopped = await server.post('/v1/chat/completions', { messages, ...common }, { headers })
  t.equal((await server.get('/v1/stream?conv_id=c', { method: 'DELETE' })).status, 204)
  t.match(await stopped.text(), /^id: 0/, 'the answer ends')
  await until(async () => {
    server.clock.advance(1)
    return (await server.client.statistics()).running === 0
  })
  t.equal((await server.client.statistics()).requests.cancelled, 1)
})

t.test('a stream can be stopped, and left, before it begins', async (t) => {
  const loads: (() => void)[] = []
  /** The protocol on a model that is not in memory yet. */
  const loading = (protocol: KoaProtocol): KoaProtocol => ({
    ...protocol,
    around(directory) {
      const open: typeof directory.open = (id, options) => {
        const client = directory.open(id, options)
        const info = async () => {
          await new Promise<void>((resolve, reject) => {
            loads.push(resolve)
            const leave = () => reject(new CllmError('cancelled', 'Nobody waits for the model'))
            options?.until?.addEventListener('abort', leave)
          })
          return await client.info()
        }
        return overriding(client, { info })
      }
      return overriding(directory, { open })
    },
  })
  const server = await serve({ protocols: [loading(openAiProtocol())] })
  t.teardown(() => server.close())
  const path = '/v1/stream?conv_id=c'
  const headers = { 'Content-Type': 'application/json', 'X-Conversation-Id': 'c' }
  const body = { messages, ...common, max_tokens: 5 }
  const isWaiting = () => loads.length > 0
  const load = () => {
    for (const loaded of loads.splice(0)) loaded()
  }

  const asked = server.post('/v1/chat/completions', body, { headers })
  await until(isWaiting)
  const early = await server.get(path)
  t.equal(early.status, 503)
  t.match(await early.text(), /has not begun yet/)
  t.equal((await server.get(path, { method: 'DELETE' })).status, 204)
  const refused = await asked
  t.equal(refused.status, 400)
  t.match(await refused.text(), /was cancelled/)
  t.equal((await server.get(path)).status, 404)
  t.equal((await server.client.statistics()).requests.done, 0)

  loads.splice(0)
  const leaving = await rawRequest(
    server.port,
    rawPost('/v1/chat/completions', body, 'X-Conversation-Id: c\r\n'),
  )
  await until(isWaiting)
  leaving.socket.destroy()
  t.equal((await server.get(path)).status, 503)
  let text = ''
  await until(async () => {
    load()
    const response = await server.get(path)
    text = await response.text()
    return response.status === 200
  })
  t.match(text, /^id: 0\n[^]*data: \[DONE\]\n\n$/, 'what is written meanwhile is there')

  const video = [{ role: 'user', content: [{ type: 'video_url' }] }]
  const wrong = { ...body, messages: video }
  t.equal((await server.post('/v1/chat/completions', wrong, { headers })).status, 400)
  t.equal(await (await server.get(path)).text(), text, 'a refused request leaves the one before')
  t.equal((await server.get(path, { method: 'DELETE' })).status, 204)
  t.equal((await server.post('/v1/chat/completions', wrong, { headers })).status, 400)
  t.equal((await server.get(path)).status, 404, 'and has no stream')
})

/** A client that takes what is written, unless it is full. */
function createClient() {
  const client = {
    read: [] as string[],
    ended: 0,
    isCut: false,
    unread: 0,
    destroyed: false,
    isFull: false,
    drained() {},
    write: (text: string) => void client.read.push(text),
    end: () => void client.ended++,
    onceDrained: (callback: () => void) => void (client.drained = callback),
    cut: () => void (client.isCut = true),
  }
  return client
}

t.test('a stream goes on until another one of its id is accepted', (t) => {
  const streams = new ResumableStreams(new SimulatedClock(0))
  const ask = () => streams.begin(undefined, 'c')
  const accept = (session: StreamSession) => streams.accept(session, createClient())
  const running = ask()
  accept(running)
  const [refused, next] = [ask(), ask()]
  streams.fail(refused, new Error('refused'))
  t.equal(running.endedAt, undefined)
  t.equal(streams.find(undefined, 'c'), running, 'who comes back gets it while another one waits')
  streams.fail(next, new Error('refused'))
  t.equal(streams.find(undefined, 'c'), running, 'what was refused leaves the one before')
  const [waiting, last] = [ask(), ask()]
  accept(last)
  t.ok(running.destroyed)
  t.ok(waiting.destroyed, 'and that one has not begun')
  t.notOk(last.destroyed)
  streams.fail(waiting, new Error('stopped'))
  t.equal(streams.find(undefined, 'c'), last)
  const [first, second] = [ask(), ask()]
  accept(first)
  t.ok(last.destroyed)
  t.notOk(second.destroyed, 'that of two which came later waits on')
  streams.stop(undefined, 'c')
  t.ok(first.destroyed && second.destroyed, 'to stop an id stops all of it')
  t.match(first.signal.reason, { code: 'cancelled', message: /its stream was stopped$/ })
  t.equal(streams.find(undefined, 'c'), undefined)
  t.end()
})

t.test('of the streams that a key has left, the last ones go on', async (t) => {
  const streams = new ResumableStreams(new SimulatedClock(0))
  const left = new AbortController()
  setMaxListeners(0, left.signal) // a server's streams have one each
  const begin = (key: string, nth: number, signal?: AbortSignal) =>
    streams.begin(key, `c${nth}`, signal)
  const others = [begin('b', 0, left.signal), begin('a', 99), begin('a', 98, AbortSignal.any([]))]
  const all = Array.from({ length: 18 }, (_, nth) => begin('a', nth, left.signal))
  const reading = new AbortController()
  const read = all[0]!.read({ offset: 0 }, createClient(), reading.signal)
  await all[1]!.read({ offset: 0 }, createClient(), AbortSignal.abort())
  left.abort()
  const stopped = () => all.flatMap(({ destroyed }, nth) => (destroyed ? [nth] : []))
  t.same(stopped(), [1], 'the first one is read again')
  reading.abort()
  await read
  t.same(stopped(), [0, 1], 'until that client leaves, too')
  const next = new AbortController()
  begin('a', 18, next.signal)
  next.abort()
  t.same(stopped(), [0, 1, 2])
  t.notOk(
    others.some(({ destroyed }) => destroyed),
    'of others, in the background, connected',
  )
})

t.test('of a long stream the end is kept', async (t) => {
  const clock = new SimulatedClock(1)
  const session = new StreamSession('', clock)
  const client = createClient()
  session.open(client)
  const event = `data: ${'a'.repeat(2 ** 20)}\n\n`
  const write = (count: number) => {
    for (let written = 0; written < count; written++) session.write(event)
  }
  write(6)
  t.equal(client.read.length, 6)
  t.ok(session.keptBytes <= 4 * 2 ** 20)
  t.notOk(session.keeps({ offset: 0 }))
  t.notOk(session.keeps({ afterId: 0 }))
  t.ok(session.keeps({ afterId: 3 }))
  const read = (from: StreamPlace, isFull = false) => {
    const [reader, leaving] = [createClient(), new AbortController()]
    reader.isFull = isFull
    const done = session.read(from, reader, leaving.signal)
    return { reader, done, leave: () => leaving.abort() }
  }
  const one = read({ afterId: 4 })
  session.write('data: b\n\n')
  await until(() => one.reader.read.length === 2)
  one.leave()
  await one.done
  session.write('data: c\n\n')
  t.same(one.reader.read.slice(1), ['id: 6\ndata: b\n\n'])

  const slow = read({ afterId: 6 }, true)
  t.same(slow.reader.read, [], 'who reads slowly is waited for')
  slow.reader.isFull = false
  slow.reader.drained()
  await until(() => slow.reader.read.length > 0)
  t.same(slow.reader.read, ['id: 7\ndata: c\n\n'])
  slow.leave()

  const [tooSlow, gone] = [read({ afterId: 6 }, true), read({ afterId: 6 }, true)]
  gone.leave()
  await gone.done
  write(6)
  tooSlow.reader.drained()
  await tooSlow.done
  t.ok(tooSlow.reader.isCut, 'who reads too slowly is cut off')
  t.notOk(gone.reader.isCut)

  session.end()
  clock.advance(1)
  session.end()
  session.cancel()
  t.same([session.endedAt, session.destroyed, client.ended], [1, false, 1])
  t.ok(session.signal.aborted)
  await read({ afterId: 13 }).done
})

t.test('of many streams the last are kept, each for its API key', (t) => {
  const streams = new ResumableStreams(new SimulatedClock(0))
  for (let count = 0; count < 25; count++) {
    const one = streams.begin(undefined, `c${count}`)
    for (let events = 0; events < 5; events++) one.write(`data: ${'a'.repeat(2 ** 20)}\n\n`)
    one.end()
  }
  t.equal(streams.find('', 'c0'), undefined)
  t.ok(streams.find('', 'c24'))
  t.equal(streams.find('another', 'c24'), undefined, 'that of another key')
  const own = streams.begin('a\nb', 'c::d')
  t.equal(streams.find('a', 'b\nc::d'), undefined, 'names of keys may have any signs')
  t.same(streams.findAll('a', 'b\nc'), [])
  t.same(streams.findAll('a\nb', 'c'), [['c::d', own]])
  t.end()
})
