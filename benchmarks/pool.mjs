// One pool of KV cells against equal slots of the same memory: a request longer than a slot beside
// short chats, all of which must be served; and equal work on both, alternating in one run.
import { parseArgs } from 'node:util'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, startServer } from './lib/servers.mjs'
import { median, sum, table } from './lib/statistics.mjs'
import { gaps, stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    slots: { type: 'string', default: '8' },
    'ctx-size': { type: 'string', default: '4096' },
    // words of one to two tokens each
    'long-words': { type: 'string', default: '16000' },
    chats: { type: 'string', default: '12' },
    'chat-words': { type: 'string', default: '250' },
    tokens: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '5' },
    // flags of `cllm serve`: a small model needs its positions stretched for a long context
    extra: { type: 'string', default: '' },
    seed: { type: 'string', default: '1' },
  },
})
const count = (name) => Number(values[name])
const random = randomOf(count('seed'))
const slots = count('slots')
const context = count('ctx-size')
const cells = slots * context
const extra = values.extra.split(' ').filter((word) => word !== '')
const settings = { model: values.model, extra: [...extra, '--cache-ram', '0'] }
const ask = (server, words, tokens = count('tokens')) =>
  stream(server, { prompt: text(words, random), tokens, cache: false })

const pool = await startServer('cllm', {
  ...settings,
  slots: count('chats') + 1,
  context: cells,
  extra: [...settings.extra, '--kv-tokens', String(cells)],
})
const long = ask(pool, count('long-words'))
const chats = Array.from({ length: count('chats') }, () => ask(pool, count('chat-words')))
const [first, ...others] = await Promise.allSettled([long, ...chats])
const served = others.filter(({ status }) => status === 'fulfilled').map(({ value }) => value)
const { timings } = first.status === 'fulfilled' ? first.value.last : {}
console.log(
  table([
    ['long prompt tokens', 'long served', 'chats served', 'chats’ TTFT p50 ms', 'largest ITL ms'],
    [
      timings?.prompt_tokens ?? String(first.reason),
      first.status === 'fulfilled',
      `${served.length} of ${chats.length}`,
      median(served.map(({ times }) => times[0])).toFixed(0),
      Math.max(...served.flatMap(gaps)).toFixed(0),
    ],
  ]),
)
await pool.stop()

const same = { ...settings, slots, context }
const pooled = { ...same, extra: [...same.extra, '--kv-tokens', String(cells)] }
const servers = [await startServer('cllm', same), await startServer('cllm', pooled)]
await pause(2000)
const speeds = [[], []]
for (let round = 0; round <= count('rounds'); round++) {
  for (const index of round % 2 === 0 ? [0, 1] : [1, 0]) {
    const began = performance.now()
    const client = async () => {
      const answers = []
      for (let nth = 0; nth < 3; nth++) answers.push(await ask(servers[index], count('chat-words')))
      return answers
    }
    const answers = (await Promise.all(Array.from({ length: slots }, client))).flat()
    const tokens = sum(answers.map(({ times }) => times.length))
    if (round > 0) speeds[index].push((1000 * tokens) / (performance.now() - began))
  }
}
const [equal, shared] = speeds.map((list) => median(list))
console.log(
  table([
    ['equal slots tok/s', 'pool tok/s', 'ratio'],
    [equal.toFixed(1), shared.toFixed(1), (shared / equal).toFixed(3)],
  ]),
)
for (const server of servers) await server.stop()
