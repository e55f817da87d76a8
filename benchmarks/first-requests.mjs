// Are the first requests after a start as fast as later ones? Each round starts a server anew, on a machine that is
// quiet, and sends requests one after the other; cLLM and llama-server in turns.
import { parseArgs } from 'node:util'
import { closedLoop } from './lib/closed-loop.mjs'
import { randomOf } from './lib/prompts.mjs'
import { quiet } from './lib/quiet.mjs'
import { serverFlags, startServer } from './lib/servers.mjs'
import { median, sum, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    rounds: { type: 'string', default: '5' },
    requests: { type: 'string', default: '12' },
    tokens: { type: 'string', default: '24' },
    seed: { type: 'string', default: String(Date.now()) },
  },
})
const random = randomOf(Number(values.seed))
const settings = {
  model: values.model,
  slots: Number(values.slots),
  context: Number(values['ctx-size']),
  llamaServer: values['llama-server'],
}
const both = values['llama-server'] === undefined ? ['cllm'] : ['cllm', 'llama-server']
const kinds = values.only === undefined ? both : [values.only]
const results = new Map(kinds.map((kind) => [kind, []]))
for (let round = 0; round < Number(values.rounds); round++) {
  for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
    await quiet()
    const extra = kind === 'cllm' ? values.extra.split(' ').filter(Boolean) : []
    const server = await startServer(kind, { ...settings, extra })
    const speeds = []
    for (let index = 0; index < Number(values.requests); index++) {
      const load = { concurrency: 1, requests: 1, words: 32, tokens: Number(values.tokens), random }
      speeds.push((await closedLoop(server, load)).throughput)
    }
    await server.stop()
    const first = sum(speeds.slice(0, 3)) / 3
    results.get(kind).push({ first, later: median(speeds.slice(3)) })
  }
}
const rows = [['server', 'first three, tok/s', 'later, tok/s', 'ratio']]
for (const [kind, list] of results) {
  const middle = (of) => median(list.map(of))
  const ratio = middle(({ first, later }) => first / later).toFixed(3)
  rows.push([
    kind,
    middle(({ first }) => first).toFixed(1),
    middle(({ later }) => later).toFixed(1),
    ratio,
  ])
}
console.log(table(rows))
process.exit(0)
