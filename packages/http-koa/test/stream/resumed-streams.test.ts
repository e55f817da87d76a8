import { get } from 'node:http'
import { setTimeout as rest } from 'node:timers/promises'
import {
  anthropicProtocol,
  llamaServerProtocol,
  nativeProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import t from 'tap'
import { serve } from '../serve.js'

/** Characters of two to four bytes, which many places of a stream are within. */
const prompt = 'Grüße, 日本, 👩‍🚀!'
const messages = [{ role: 'user', content: prompt }]
const few = { max_tokens: 4, temperature: 0, stream: true }
const streams: readonly [path: string, body: object][] = [
  ['/v1/chat/completions', { messages, ...few }],
  ['/v1/completions', { prompt, echo: true, ...few }],
  ['/v1/responses', { input: prompt, max_output_tokens: 4, stream: true, metadata: { prompt } }],
  ['/v1/messages', { messages, ...few }],
  ['/completion', { prompt, n_predict: 4, stream: true }],
  ['/generate', { prompt, ...few }],
]

interface Reading {
  /** Leaves behind so many bytes; default: never. */
  readonly bytes?: number
  /** Reads nothing for so many milliseconds once in a while. */
  readonly restMs?: number
  readonly headers?: Record<string, string>
}

/** What comes of a stream until its end, or until the client resets its connection. */
async function read(url: string, { bytes = Infinity, restMs, headers = {} }: Reading = {}) {
  return await new Promise<Buffer>((resolve, reject) => {
    const request = get(url, { agent: false, headers }, (response) => {
      if (response.statusCode !== 200) reject(new Error(`${url}: status ${response.statusCode}`))
      const parts: Buffer[] = []
      const take = async (): Promise<void> => {
        let length = 0
        for await (const part of response) {
          length += parts.push(part as Buffer) && (part as Buffer).length
          if (length >= bytes) response.socket.resetAndDestroy()
          if (length >= bytes) break
          if (restMs !== undefined) await rest(restMs)
        }
      }
      take().then(() => resolve(Buffer.concat(parts).subarray(0, bytes)), reject)
    })
    request.on('error', reject)
  })
}

/** Behind each event of a stream. */
const endsOf = (text: string): number[] =>
  [...text.matchAll(/\n\n/g)].map(({ index }) => Buffer.byteLength(text.slice(0, index + 2)))

t.test('a stream is taken up at each of its bytes, and behind each event', async (t) => {
  const protocols = [nativeProtocol(), openAiProtocol(), anthropicProtocol(), llamaServerProtocol()]
  const server = await serve({ protocols })
  t.teardown(() => server.close())
  for (const [path, body] of streams) {
    const headers = { 'Content-Type': 'application/json', 'X-Conversation-Id': path }
    const answer = await server.post(path, body, { headers })
    const whole = Buffer.from(await answer.arrayBuffer())
    const url = `${server.url}/v1/stream?conv_id=${encodeURIComponent(path)}`
    const events = whole.toString().split(/(?<=\n\n)/)
    t.ok(events.length > 4)
    for (const [id, event] of events.entries()) {
      t.match(event, new RegExp(`^id: ${id}\n(?!.*\nid: )[^]*\n\n$`), `${path}: one id an event`)
    }
    const wrong: string[] = []
    for (const [id, end] of endsOf(whole.toString()).entries()) {
      const after = await read(url, { headers: { 'Last-Event-ID': String(id) } })
      if (!after.equals(whole.subarray(end))) wrong.push(`behind event ${id}`)
    }
    // Each byte that is no letter, as what is beside it, and some of the others.
    const isEdge = (byte: number, at: number) => byte > 127 || byte === 10 || at % 97 === 0
    const from = [...whole.entries()].filter(([at, byte]) => isEdge(byte, at))
    for (const [at] of from) {
      if (!(await read(`${url}&from=${at}`)).equals(whole.subarray(at))) wrong.push(`from ${at}`)
    }
    t.same(wrong, [], `${path}: ${whole.length} bytes`)
  }
})

t.test('readers that come back, rest or reset take nothing from a stream', async (t) => {
  const server = await serve({
    protocols: [openAiProtocol()],
    backend: { contextSize: 8192 },
    transport: { streamLimitBytes: 4096 },
  })
  t.teardown(() => server.close())
  const headers = { 'Content-Type': 'application/json', 'X-Conversation-Id': 'c' }
  const body = { messages, ...few, max_tokens: 1000, ignore_eos: true }
  const first = await server.post('/v1/chat/completions', body, { headers })
  const reader = first.body!.getReader()
  await reader.read()
  await reader.cancel()
  const url = `${server.url}/v1/stream?conv_id=c`
  const isOver = (text: Buffer) => text.subarray(-16).toString().endsWith('data: [DONE]\n\n')
  const done = new AbortController()
  const byBytes = async (bytes: number) => {
    let got = Buffer.alloc(0)
    while (!isOver(got))
      got = Buffer.concat([got, await read(`${url}&from=${got.length}`, { bytes })])
    return got
  }
  const byEvents = async (bytes: number, restMs?: number) => {
    let got = Buffer.alloc(0)
    while (!isOver(got)) {
      const last = /^id: (\d+)/.exec(got.subarray(got.lastIndexOf('id: ')).toString())?.[1]
      const from = { ...(last !== undefined && { headers: { 'Last-Event-ID': last } }) }
      const more = await read(url, { bytes, ...from, ...(restMs && { restMs }) })
      got = Buffer.concat([got, more.subarray(0, more.lastIndexOf('\n\n') + 2)])
    }
    return got
  }
  const resetting = async () => {
    for (let bytes = 1; !done.signal.aborted; bytes = (7 * bytes) % 65_537)
      await read(url, { bytes })
  }
  const attackers = [resetting(), resetting()]
  const readers = [byBytes(9973), byBytes(65_521), byEvents(17_919), byEvents(1e5, 5), read(url)]
  const all = await Promise.all(readers)
  done.abort()
  await Promise.all(attackers)
  const whole = await read(url)
  t.equal(whole.toString().match(/^id: /gm)?.length, endsOf(whole.toString()).length)
  t.ok(whole.length > 2 ** 17)
  for (const [index, got] of all.entries()) t.ok(got.equals(whole), `reader ${index}`)
})
