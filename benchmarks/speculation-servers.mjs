// Decode speed of one stream with and without speculation on cLLM and llama-server, alternating in one
// run, greedy, so that all sides say the same as far as rounding lets them: by n-grams, or with a draft
// model where one is given.
import { parseArgs } from 'node:util'
import { pause, serverFlags, startServer } from './lib/servers.mjs'
import { speculationTasks } from './lib/speculation-tasks.mjs'
import { median, table } from './lib/statistics.mjs'
import { stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    // a smaller model of the same vocabulary
    draft: { type: 'string' },
    // how llama-server speculates without one
    type: { type: 'string', default: 'ngram-simple' },
    tasks: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '1' },
    tokens: { type: 'string', default: '128' },
  },
})
const { draft } = values
const settings = {
  model: values.model,
  slots: 1,
  context: Number(values['ctx-size']),
  llamaServer: values['llama-server'],
}
const proposing = {
  cllm: ['--speculative', draft ?? 'ngram'],
  'llama-server':
    draft === undefined
      ? ['--spec-type', values.type]
      : ['-md', draft, '--spec-type', 'draft-simple'],
}
const extra = values.extra.split(' ').filter((word) => word !== '')
const sides = []
for (const kind of ['llama-server', 'cllm']) {
  const own = kind === 'cllm' ? extra : []
  const off = kind === 'cllm' ? ['--speculative', 'off'] : []
  sides.push(await startServer(kind, { ...settings, extra: [...off, ...own] }))
  sides.push(await startServer(kind, { ...settings, extra: [...proposing[kind], ...own] }))
}
const names = ['llama-server off', 'llama-server on', 'cLLM off', 'cLLM on']
await pause(3000)

const tokens = Number(values.tokens)
/** Tokens per second after the first. */
async function speedOf(server, prompt) {
  const job = { prompt, tokens, temperature: 0, cache: false }
  const { times, text } = await stream(server, job)
  return { speed: (1000 * (tokens - 1)) / (times.at(-1) - times[0]), text }
}

const tasks = await speculationTasks(Number(values.tasks))
for (const side of sides) await speedOf(side, 'Once upon a time')
const results = []
for (let round = 0; round < Number(values.rounds); round++) {
  for (const [index, { kind, prompt }] of tasks.entries()) {
    const speeds = []
    const texts = []
    const order = sides.map((_, at) => (at + index + round) % sides.length)
    for (const at of order) {
      const { speed, text } = await speedOf(sides[at], prompt)
      speeds[at] = speed
      texts[at] = text
    }
    results.push({ kind, speeds, same: texts.every((text) => text === texts[0]) })
  }
}
const ratio = (own, over, under) =>
  median(own.map(({ speeds }) => speeds[over] / speeds[under])).toFixed(3)
const heads = ['llama-server on ÷ off', 'cLLM on ÷ off', 'cLLM on ÷ llama-server on', 'same text']
const rows = [['kind', 'tasks', ...names.map((name) => `${name} tok/s`), ...heads]]
for (const kind of new Set(results.map((one) => one.kind))) {
  const own = results.filter((one) => one.kind === kind)
  const middle = names.map((_, at) => median(own.map(({ speeds }) => speeds[at])).toFixed(1))
  const same = own.filter((one) => one.same).length
  rows.push([
    kind,
    own.length,
    ...middle,
    ratio(own, 1, 0),
    ratio(own, 3, 2),
    ratio(own, 3, 1),
    same,
  ])
}
console.log(table(rows))
for (const side of sides) await side.stop()
process.exit(0)
