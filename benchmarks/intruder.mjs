// Four streams run when a request with a long prompt arrives: how long do they stall, how long does
// it wait? cLLM and llama-server, alternating in one run.
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, serverFlags, startServers } from './lib/servers.mjs'
import { median, medianRatio, pairsOf, table } from './lib/statistics.mjs'
import { gaps, stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    ...serverFlags,
    rounds: { type: 'string', default: '3' },
    'ctx-size': { type: 'string', default: '4096' },
    words: { type: 'string', default: '1200' },
    streams: { type: 'string', default: '4' },
    seed: { type: 'string', default: String(Date.now()) },
  },
})
const random = randomOf(Number(values.seed))

async function intrude(server) {
  const streams = Array.from({ length: Number(values.streams) }, () =>
    stream(server, { prompt: text(24, random), tokens: 150 }),
  )
  await pause(3000)
  const intruder = await stream(server, { prompt: text(Number(values.words), random), tokens: 4 })
  const from = intruder.began
  const to = from + intruder.times[0]
  const answers = await Promise.all(streams)
  const during = answers.flatMap((answer) =>
    gaps(answer).filter((_, index) => {
      const at = answer.began + answer.times[index + 1]
      return at >= from && answer.began + answer.times[index] <= to
    }),
  )
  return { itlMax: Math.max(...during), ttft: intruder.times[0] }
}

const servers = await startServers(values)
const kinds = servers.map(({ kind }) => kind)
const results = new Map(kinds.map((kind) => [kind, []]))
for (let round = 0; round < Number(values.rounds); round++) {
  const order = round % 2 === 0 ? servers : servers.toReversed()
  for (const server of order) {
    results.get(server.kind).push(await intrude(server))
    await pause(500)
  }
}
const middle = (kind, figure) => median(results.get(kind).map((result) => result[figure]))
const rows = [['server', 'largest ITL ms', "intruder's TTFT ms"]]
for (const kind of kinds) {
  rows.push([kind, middle(kind, 'itlMax').toFixed(0), middle(kind, 'ttft').toFixed(0)])
}
if (kinds.length === 2) {
  const [ours, others] = [results.get('cllm'), results.get('llama-server')]
  const pairs = { pause: pairsOf(ours, others, 'itlMax'), intruder: pairsOf(ours, others, 'ttft') }
  rows.push(['ratio', medianRatio(pairs.pause), medianRatio(pairs.intruder)])
  if (values.json !== undefined) writeFileSync(values.json, JSON.stringify(pairs))
}
console.log(table(rows))
for (const server of servers) await server.stop()
process.exit(0)
