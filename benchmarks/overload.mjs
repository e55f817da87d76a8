// More requests than can be served: whether those that are taken in come when it was predicted, how
// fast the others are refused, and what many open streams take.
import { readFileSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { parseArgs } from 'node:util'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, serverFlags, startServer } from './lib/servers.mjs'
import { median, quantile, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    factor: { type: 'string', default: '10' },
    seconds: { type: 'string', default: '40' },
    wait: { type: 'string', default: '5' },
    words: { type: 'string', default: '32' },
    tokens: { type: 'string', default: '24' },
    // instead of the load above the capacity: this many streams at once
    streams: { type: 'string' },
    seed: { type: 'string', default: '1' },
  },
})
const random = randomOf(Number(values.seed))
const agent = new Agent({ keepAlive: true, maxSockets: Infinity })
const job = () => ({ words: Number(values.words), tokens: Number(values.tokens) })

/** One request with an answer of fixed length: what was predicted of it and what became of it. */
function ask(server, { words, tokens }) {
  const body = { prompt: text(words, random), max_tokens: tokens, ignore_eos: true }
  const headers = { 'content-type': 'application/json', 'x-cllm-forecast': 'true' }
  return new Promise((resolve, reject) => {
    const began = performance.now()
    const url = new URL('/generate_stream', server.url)
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
      const predicted = Number(response.headers['x-predicted-ttft-ms'])
      const { statusCode: status } = response
      let first
      let received = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => {
        first ??= performance.now() - began
        received = (received + chunk).slice(-400)
      })
      response.on('error', reject)
      response.on('end', () => {
        const total = performance.now() - began
        const isWhole = received.includes(`"generated_tokens":${tokens}`)
        const retryAfter = Number(response.headers['retry-after'])
        resolve({ status, predicted, first, total, isWhole, retryAfter })
      })
    })
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}

/** Requests a second with all slots busy. */
async function capacityOf(server, slots) {
  const began = performance.now()
  const client = async () => {
    for (let index = 0; index < 3; index++) await ask(server, job())
  }
  await Promise.all(Array.from({ length: slots + 2 }, client))
  return (3 * (slots + 2) * 1000) / (performance.now() - began)
}

/** The largest resident memory of a process while `work` goes on, in MiB. */
async function watchMemory(pid, work) {
  const resident = () => {
    const [, kib] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kib) / 1024
  }
  const before = resident()
  let most = before
  const timer = setInterval(() => (most = Math.max(most, resident())), 100)
  const result = await work()
  clearInterval(timer)
  return { result, before, most }
}

const slots = Number(values.slots)
const extra = values.extra.split(' ').filter((word) => word !== '')
const settings = { model: values.model, slots, context: Number(values['ctx-size']) }
const whole = (value) => value.toFixed(0)

async function overload() {
  const wait = ['--max-queue-wait', values.wait]
  const server = await startServer('cllm', { ...settings, extra: [...wait, ...extra] })
  await pause(1000)
  await capacityOf(server, 2)
  const capacity = await capacityOf(server, slots)
  const perSecond = Number(values.factor) * capacity
  const end = performance.now() + 1000 * Number(values.seconds)
  const { result, before, most } = await watchMemory(server.pid, async () => {
    const answers = []
    while (performance.now() < end) {
      answers.push(ask(server, job()))
      await pause((-1000 * Math.log(1 - random())) / perSecond)
    }
    return await Promise.all(answers)
  })
  const served = result.filter(({ status }) => status === 200)
  const refused = result.filter(({ status }) => status === 429)
  const ratios = served.map(({ first, predicted }) => first / predicted)
  const times = refused.map(({ total }) => total)
  console.log(
    table([
      ['what', 'value'],
      ['requests a second, all slots busy', capacity.toFixed(2)],
      ['sent, served, refused', `${result.length}, ${served.length}, ${refused.length}`],
      [
        'neither, or not whole',
        result.length - refused.length - served.filter((one) => one.isWhole).length,
      ],
      [
        'TTFT p50, p90 ms',
        [0.5, 0.9]
          .map((share) =>
            whole(
              quantile(
                served.map(({ first }) => first),
                share,
              ),
            ),
          )
          .join(', '),
      ],
      [
        'TTFT over predicted, p10, p50, p90',
        [0.1, 0.5, 0.9].map((share) => quantile(ratios, share).toFixed(2)).join(', '),
      ],
      [
        '429 after ms, p50, p99, largest',
        [0.5, 0.99, 1].map((share) => quantile(times, share).toFixed(1)).join(', '),
      ],
      ['Retry-After s, median', median(refused.map(({ retryAfter }) => retryAfter))],
      ['RSS of the parent MiB, before, most', `${whole(before)}, ${whole(most)}`],
    ]),
  )
  await server.stop()
}

async function manyStreams(count) {
  const room = ['--max-queued-requests', String(count)]
  const server = await startServer('cllm', { ...settings, extra: [...room, ...extra] })
  const { result, before, most } = await watchMemory(server.pid, async () => {
    const answers = Array.from({ length: count }, () => ask(server, job()))
    return await Promise.all(answers)
  })
  console.log(
    table([
      ['what', 'value'],
      ['streams, slots', `${count}, ${slots}`],
      ['whole answers', result.filter(({ status, isWhole }) => status === 200 && isWhole).length],
      ['seconds', (Math.max(...result.map(({ total }) => total)) / 1000).toFixed(1)],
      ['RSS of the parent MiB, before, most', `${whole(before)}, ${whole(most)}`],
    ]),
  )
  await server.stop()
}

if (values.streams === undefined) await overload()
else await manyStreams(Number(values.streams))
process.exit(0)
