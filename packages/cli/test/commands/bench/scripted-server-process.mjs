// A scripted server as a program of its own: `node scripted-server-process.mjs PORT GAP_MS`. It
// speaks the native API and llama-server's.
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

const [port, gap] = process.argv.slice(2).map(Number)

const server = createServer((request, response) => void answer(request, response))

async function answer(request, response) {
  if (request.url === '/health') return response.end('{}')
  let text = ''
  for await (const chunk of request) text += chunk
  const body = JSON.parse(text)
  const isNative = request.url === '/generate_stream'
  const frame = (event) => response.write(`data: ${JSON.stringify(event)}\n\n`)
  const count = body.max_tokens ?? body.n_predict
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  for (let index = 0; index < count; index++) {
    await sleep(gap)
    frame(isNative ? { token: ' a', done: false } : { content: ' a', tokens: [1], stop: false })
  }
  if (isNative) frame({ token: '', done: true, generated_tokens: count })
  else frame({ content: '', tokens: [], stop: true, tokens_predicted: count, tokens_evaluated: 8 })
  response.end()
}
server.listen(port, '127.0.0.1')
