import { once } from 'node:events'
import { connect } from 'node:net'
import type { CllmError } from '@cllm/core'
import {
  type KoaProtocol,
  llamaServerProtocol,
  nativeProtocol,
  observeEngines,
  openAiProtocol,
} from '@cllm/http-koa'
import t from 'tap'
import { serve, until } from '../serve.js'

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
      mount() {},
      around: (directory, { clock }) =>
        observeEngines(
          directory,
          { onSubmit: () => ({ onEvent() {}, onEnd: (_, error) => void errors.push(error) }) },
          clock,
        ),
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
  while (!text.includes('"done":true')) {
    const chunk = socket.read(1000) ?? (socket.read() as string | null)
    if (typeof chunk === 'string') text += chunk
    else await once(socket, 'readable')
  }
  t.match(text, /"generated_tokens":900/)
  socket.destroy()
})
