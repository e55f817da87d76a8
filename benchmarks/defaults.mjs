// What each default costs and gains: the server as it is, in turns with one that has this default switched off.
// Only two servers are in memory at a time. Writes the table of docs/defaults.md; with `--quick` from fewer and
// shorter requests, in half an hour for all.
import { cpus } from 'node:os'
import { parseArgs } from 'node:util'
import { closedLoop } from './lib/closed-loop.mjs'
import { howMeasured, writeFigures } from './lib/figures.mjs'
import { randomOf } from './lib/prompts.mjs'
import { quiet } from './lib/quiet.mjs'
import { pause, startServer } from './lib/servers.mjs'
import { median, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    slots: { type: 'string', default: '16' },
    'ctx-size': { type: 'string', default: '2048' },
    concurrency: { type: 'string', default: '1,8,16' },
    quick: { type: 'boolean', default: false },
    // by default 8, or 4 quick ones: a multiple of four, so that each side is started and measured first as often
    rounds: { type: 'string' },
    // prints the table without writing it
    'dry-run': { type: 'boolean', default: false },
    // names of the list below, between commas; nothing is written then
    only: { type: 'string' },
    seed: { type: 'string', default: String(Date.now()) },
  },
})

/** The default, and the flags without it. */
const defaults = {
  // against itself: what noise there is
  'none (the noise)': [],
  'conversations in RAM': ['--cache-ram', '0'],
  speculation: ['--speculative', 'off'],
  'threads that adapt': ['--threads', String(cpus().length)],
  recorder: ['--recorder-minutes', '0'],
  'adaptive batching': ['--batching', 'continuous'],
  page: ['--no-ui'],
  padding: ['--no-pad-batches'],
  'aligned chunks': ['--policy-options', '{"alignChunks":false}'],
}
const names = values.only?.split(',') ?? Object.keys(defaults)
const unknown = names.find((name) => !(name in defaults))
if (unknown !== undefined) {
  const known = Object.keys(defaults).join(', ')
  throw new Error(`--only: expected some of ${known}, got ${JSON.stringify(unknown)}`)
}
const { quick, rounds = quick ? '4' : '8' } = values
const random = randomOf(Number(values.seed))
const counts = values.concurrency.split(',').map(Number)
const settings = {
  model: values.model,
  slots: Number(values.slots),
  context: Number(values['ctx-size']),
}

const rows = [
  ['switched off by', ...counts.flatMap((count) => [`tok/s at ${count}`, `TTFT at ${count}`])],
]
for (const name of names) {
  const ratios = new Map(counts.map((count) => [count, { throughput: [], ttft: [] }]))
  // Two processes that are alike differ by some per cent until they end, so each quarter of the rounds has its own.
  for (const firstWithout of [false, true, false, true]) {
    await quiet()
    const sides = [[], defaults[name]]
    const servers = []
    for (const extra of firstWithout ? sides.toReversed() : sides) {
      servers.push(await startServer('cllm', { ...settings, extra }))
    }
    const [usual, without] = firstWithout ? servers.toReversed() : servers
    for (const concurrency of counts) {
      // Requests of a lone stream take turns one by one: the machine changes its pace within a round.
      const [turns, requests] = concurrency === 1 ? [quick ? 4 : 8, 1] : [1, quick ? 1 : 4]
      const load = { concurrency, requests, words: 32, tokens: quick ? 24 : 48, random }
      for (let round = 0; round < (turns * Number(rounds)) / 4; round++) {
        const results = new Map()
        for (const server of round % 2 === 0 ? servers : servers.toReversed()) {
          // after the other server's turn the first request finds cold caches and sleeping threads
          await closedLoop(server, { ...load, requests: 1, tokens: 8 })
          results.set(server, await closedLoop(server, load))
          await pause(300)
        }
        for (const [figure, list] of Object.entries(ratios.get(concurrency))) {
          list.push(results.get(usual)[figure] / results.get(without)[figure])
        }
      }
    }
    for (const server of servers) await server.stop()
  }
  const cells = counts.flatMap((count) =>
    Object.values(ratios.get(count)).map((list) => median(list).toFixed(3)),
  )
  const flags = defaults[name].join(' ')
  rows.push([flags === '' ? name : `\`${flags}\``, ...cells])
  console.error(rows.at(-1).join('  '))
}
const text = `${howMeasured(rounds, 'defaults.mjs')}, over the same without the default; tok/s above 1 are a gain:

${table(rows)}`
console.log(text)
if (!values['dry-run'] && values.only === undefined) writeFigures('docs/defaults.md', text)
process.exit(0)
