// What conversations cost that are more than there are slots: with and without the tiers behind the
// slots, and after a restart (cLLM alone).
//
// Each conversation begins with the same system prompt and takes several turns; its next turn comes
// when all others had theirs, so that its slot was given away in between.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { randomOf, text } from './lib/prompts.mjs'
import { startServer } from './lib/servers.mjs'
import { median, quantile, sum, table } from './lib/statistics.mjs'
import { gaps, stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    slots: { type: 'string', default: '4' },
    'ctx-size': { type: 'string', default: '2048' },
    conversations: { type: 'string', default: '20' },
    turns: { type: 'string', default: '8' },
    // of one to two tokens each
    'system-words': { type: 'string', default: '300' },
    'turn-words': { type: 'string', default: '40' },
    tokens: { type: 'string', default: '32' },
    clients: { type: 'string', default: '4' },
    // MiB
    'cache-ram': { type: 'string', default: '2048' },
    extra: { type: 'string', default: '' },
    seed: { type: 'string', default: '1' },
  },
})
const count = (name) => Number(values[name])

/** All turns of all conversations, `clients` at a time; turn after turn. */
async function converse(server, conversations, turns, random) {
  const answers = []
  for (let turn = 0; turn < turns; turn++) {
    const waiting = [...conversations]
    const client = async () => {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
        one.text += ` ${text(count('turn-words'), random)}`
        const answer = await stream(server, { prompt: one.text, tokens: count('tokens') })
        one.text += answer.text
        one.turns++
        answers.push({ ...answer, turn: one.turns })
      }
    }
    await Promise.all(Array.from({ length: count('clients') }, client))
  }
  return answers
}

function figures(name, answers) {
  const later = answers.filter(({ turn }) => turn > 1)
  const computed = later.map(
    ({ last: { timings } }) => timings.prompt_tokens - timings.cached_tokens,
  )
  const between = answers.flatMap((answer) => gaps(answer))
  return {
    name,
    computed: sum(computed),
    prompt: sum(later.map(({ last: { timings } }) => timings.prompt_tokens)),
    ttft: median(later.map(({ times }) => times[0])),
    ttft95: quantile(
      later.map(({ times }) => times[0]),
      0.95,
    ),
    itl: median(between),
    itl99: quantile(between, 0.99),
    largest: Math.max(...between),
  }
}

const folder = mkdtempSync(join(tmpdir(), 'cllm-tiers-'))
const settings = { model: values.model, slots: count('slots'), context: count('ctx-size') }
const extra = values.extra.split(' ').filter((word) => word !== '')
const rows = []

async function run(name, flags, conversations, turns, random) {
  const server = await startServer('cllm', { ...settings, extra: [...flags, ...extra] })
  await stream(server, { prompt: text(60, random), tokens: 8, cache: false })
  const answers = await converse(server, conversations, turns, random)
  if (name !== undefined) {
    rows.push(figures(name, answers))
    console.error(JSON.stringify(rows.at(-1)))
  }
  const metrics = await (await fetch(`${server.url}/metrics`)).text()
  for (const line of metrics.split('\n')) if (line.startsWith('cllm_cache_')) console.error(line)
  await server.stop()
}

function begin(random) {
  const system = text(count('system-words'), random)
  return Array.from({ length: count('conversations') }, () => ({ text: system, turns: 0 }))
}

const ram = ['--cache-ram', values['cache-ram']]
for (const [name, flags] of [
  ['slots alone', ['--cache-ram', '0']],
  ['RAM', ram],
]) {
  const random = randomOf(count('seed'))
  await run(name, flags, begin(random), count('turns'), random)
}
// The last turn of each conversation comes after a restart.
for (const [name, flags] of [
  ['restart, RAM alone', ram],
  ['restart, disk', [...ram, '--cache-disk', folder]],
]) {
  const random = randomOf(count('seed'))
  const conversations = begin(random)
  await run(undefined, flags, conversations, count('turns') - 1, random)
  await run(name, flags, conversations, 1, random)
}
rmSync(folder, { recursive: true })

const [base] = rows
const round = (value) => value.toFixed(1)
console.log(
  table([
    [
      'tiers',
      'prompt tokens of later turns',
      'computed',
      'share',
      'TTFT p50 (ms)',
      'p95',
      'of slots alone',
      'ITL p50',
      'p99',
      'largest',
    ],
    ...rows.map((row) => [
      row.name,
      row.prompt,
      row.computed,
      (row.computed / row.prompt).toFixed(3),
      round(row.ttft),
      round(row.ttft95),
      (row.ttft / base.ttft).toFixed(2),
      round(row.itl),
      round(row.itl99),
      round(row.largest),
    ]),
  ]),
)
