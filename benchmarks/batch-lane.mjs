// What a batch (`/v1/batches`) costs the clients beside it: requests that arrive at random, the same ones
// without a batch and with one, in turns on one server.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { startBatch, stepTokens } from './lib/batch-client.mjs'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, serverFlags, startServer } from './lib/servers.mjs'
import { median, quantile, table } from './lib/statistics.mjs'
import { gaps, stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    rounds: { type: 'string', default: '3' },
    // of each side of a round
    seconds: { type: 'string', default: '60' },
    // requests of clients per second
    rate: { type: 'string', default: '0.5' },
    words: { type: 'string', default: '64' },
    tokens: { type: 'string', default: '24' },
    'batch-words': { type: 'string', default: '400' },
    'batch-tokens': { type: 'string', default: '64' },
    // more than are computed meanwhile
    lines: { type: 'string', default: '2000' },
    seed: { type: 'string', default: '1' },
  },
})
const numbers = Object.fromEntries(
  Object.entries(values).map(([name, value]) => [name, Number(value)]),
)
const random = randomOf(numbers.seed)

/** When the clients' requests come, in milliseconds. */
function arrivals() {
  const times = []
  for (let at = 0; ;) {
    at += (-1000 * Math.log(1 - random())) / numbers.rate
    if (at > 1000 * numbers.seconds) return times
    times.push(at)
  }
}

/** The requests of one side of a round, and what the engine computed until the last one's end. */
async function side(server, times) {
  const before = await stepTokens(server)
  const began = performance.now()
  const answers = await Promise.all(
    times.map(async (at) => {
      await pause(began + at - performance.now())
      return await stream(server, { prompt: text(numbers.words, random), tokens: numbers.tokens })
    }),
  )
  await pause(began + 1000 * numbers.seconds - performance.now())
  const seconds = (performance.now() - began) / 1000
  const after = await stepTokens(server)
  const computed = (kind) => (after[kind] - before[kind]) / seconds
  return { answers, prompt: computed('prompt'), answer: computed('answer') }
}

async function sideWithBatch(server, times) {
  const prompts = Array.from({ length: numbers.lines }, () => text(numbers['batch-words'], random))
  const batch = await startBatch(server, { prompts, tokens: numbers['batch-tokens'] })
  const result = await side(server, times)
  const { completed, failed } = await batch.counts()
  await batch.end()
  if (failed > 0 || completed === numbers.lines) {
    throw new Error(`of ${numbers.lines} lines ${completed} were answered, ${failed} failed`)
  }
  return { ...result, lines: completed }
}

const folder = mkdtempSync(join(tmpdir(), 'cllm-batch-lane-'))
process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
const more = values.extra.split(' ').filter((word) => word !== '')
const settings = { model: values.model, slots: numbers.slots, context: numbers['ctx-size'] }
const server = await startServer('cllm', { ...settings, extra: ['--batches', folder, ...more] })
// The engine learns what its steps cost.
for (let index = 0; index < 3; index++) {
  await stream(server, { prompt: text(numbers.words, random), tokens: numbers.tokens })
}

const sides = { without: [], with: [] }
for (let round = 0; round < numbers.rounds; round++) {
  const times = arrivals()
  const turns = [
    async () => sides.without.push(await side(server, times)),
    async () => sides.with.push(await sideWithBatch(server, times)),
  ]
  for (const turn of round % 2 === 0 ? turns : turns.toReversed()) {
    await turn()
    await pause(1000)
  }
}
await server.stop()

/** Milliseconds over all rounds. */
function figures(results) {
  const answers = results.flatMap((result) => result.answers)
  const firsts = answers.map(({ times }) => times[0])
  const between = answers.flatMap(gaps)
  return [
    quantile(firsts, 0.5),
    quantile(firsts, 0.99),
    quantile(between, 0.5),
    quantile(between, 0.99),
  ]
}

const [alone, beside] = [figures(sides.without), figures(sides.with)]
const row = (name, times, digits) => [name, ...times.map((time) => time.toFixed(digits))]
console.log(
  table([
    ['', 'TTFT p50 ms', 'TTFT p99', 'ITL p50', 'ITL p99'],
    row('without a batch', alone, 1),
    row('with a batch', beside, 1),
    row(
      'ratio',
      beside.map((time, index) => time / alone[index]),
      3,
    ),
  ]),
)
const middle = (results, what) => median(results.map((result) => result[what]))
const ofBatch = (kind) => (middle(sides.with, kind) - middle(sides.without, kind)).toFixed(1)
const count = sides.with.reduce((total, { answers }) => total + answers.length, 0)
console.log(`
${count} requests of clients a side, ${middle(sides.with, 'lines')} lines answered a round (median),
the batch's tokens a second: ${ofBatch('prompt')} of prompts, ${ofBatch('answer')} of answers`)
process.exit(0)
