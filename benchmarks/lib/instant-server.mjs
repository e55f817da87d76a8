// A server of the native API that computes nothing, for the client's own overhead: it answers at once,
// or sends an event every `--every MS` and records its time. 0: all at once.
import { createServer } from 'node:http'
import { parseArgs } from 'node:util'

const { values } = parseArgs({ options: { every: { type: 'string', default: '0' } } })
const every = Number(values.every)
const wallMs = () => performance.timeOrigin + performance.now()
/** When each event of a stream was sent, by the stream's prompt. */
const sent = {}

const event = (value) => `data: ${JSON.stringify(value)}\n\n`
const end = (tokens) =>
  event({ done: true, generated_tokens: tokens, timings: { prompt_tokens: 1 } })

async function bodyOf(request) {
  let text = ''
  for await (const part of request) text += part
  return JSON.parse(text)
}

async function answer(request, response) {
  if (request.method === 'GET') return response.end(JSON.stringify(sent))
  const { prompt, max_tokens: tokens } = await bodyOf(request)
  response.setHeader('content-type', 'text/event-stream')
  if (every === 0) return response.end(event({ token: ' a' }).repeat(tokens) + end(tokens))
  const times = (sent[prompt] = [])
  const timer = setInterval(() => {
    times.push(wallMs())
    response.write(event({ token: ' a' }))
    if (times.length < tokens) return
    clearInterval(timer)
    response.end(end(tokens))
  }, every)
}

const server = createServer((request, response) => void answer(request, response))
server.listen(0, '127.0.0.1', () => process.send?.(server.address().port))
process.on('disconnect', () => process.exit())
