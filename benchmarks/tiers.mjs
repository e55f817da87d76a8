// What conversations cost that are more than there are slots: with slots alone, with the tiers behind
// them, and on llama-server with its own cache; and what the first turn after a restart costs.
//
// Each conversation begins with the same system prompt and takes several turns; its next turn comes
// when all others had theirs, so that its slot was given away in between. The sides take each turn one
// after the other, another one first each time.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { firstTokenShares, shareNames } from './lib/first-token-shares.mjs'
import { randomOf, text } from './lib/prompts.mjs'
import { pause, startServer } from './lib/servers.mjs'
import { median, quantile, sum, table } from './lib/statistics.mjs'
import { gaps, stream } from './lib/stream.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    // a path; without one, cLLM is alone
    'llama-server': { type: 'string' },
    slots: { type: 'string', default: '4' },
    'ctx-size': { type: 'string', default: '2048' },
    conversations: { type: 'string', default: '20' },
    turns: { type: 'string', default: '8' },
    // of one to two tokens each
    'system-words': { type: 'string', default: '300' },
    'turn-words': { type: 'string', default: '40' },
    tokens: { type: 'string', default: '32' },
    clients: { type: 'string', default: '4' },
    // MiB; default: each server's own
    'cache-ram': { type: 'string' },
    extra: { type: 'string', default: '' },
    seed: { type: 'string', default: '1' },
  },
})
const count = (name) => Number(values[name])
const random = randomOf(count('seed'))
const folder = mkdtempSync(join(tmpdir(), 'cllm-tiers-'))
const extra = values.extra.split(' ').filter((word) => word !== '')
const ram = values['cache-ram'] === undefined ? [] : ['--cache-ram', values['cache-ram']]
const settings = {
  model: values.model,
  slots: count('slots'),
  context: count('ctx-size'),
  llamaServer: values['llama-server'],
  patienceMs: 60_000,
}

const system = text(count('system-words'), random)
const words = Array.from({ length: count('turns') }, () =>
  Array.from({ length: count('conversations') }, () => text(count('turn-words'), random)),
)

const cllm = (...flags) => ({ kind: 'cllm', extra: [...flags, ...extra] })
const sides = {
  'slots alone': cllm('--cache-ram', '0'),
  RAM: cllm(...ram),
  'RAM and disk': cllm(...ram, '--cache-disk', folder),
  ...(values['llama-server'] === undefined
    ? {}
    : { 'llama-server': { kind: 'llama-server', extra: [], cacheRam: values['cache-ram'] } }),
}

async function start(name) {
  const side = sides[name]
  side.server = await startServer(side.kind, { ...settings, ...side })
  side.texts ??= Array.from({ length: count('conversations') }, () => system)
  // the first requests after a start are slow on every server
  await stream(side.server, { prompt: text(60, random), tokens: 8, cache: false })
}

/** The next turn of each conversation, `clients` at a time. */
async function converse(name, turn) {
  const { server, texts } = sides[name]
  const answers = []
  const waiting = [...texts.keys()]
  const client = async () => {
    for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
      texts[one] += ` ${words[turn][one]}`
      const id = `${turn}-${one}`
      const answer = await stream(server, { prompt: texts[one], tokens: count('tokens'), id })
      texts[one] += answer.text
      answers.push({ ...answer, id })
    }
  }
  await Promise.all(Array.from({ length: count('clients') }, client))
  for (const answer of server.kind === 'cllm' ? answers : []) {
    answer.shares = await firstTokenShares(server, answer.id, answer.times[0])
  }
  return answers
}

/** The turns from one to another on these sides, and what each turn but the first cost. */
async function play(names, from, to, rows) {
  for (const name of names) await start(name)
  await pause(1000)
  const answers = Object.fromEntries(names.map((name) => [name, []]))
  for (let turn = from; turn < to; turn++) {
    for (let nth = 0; nth < names.length; nth++) {
      const name = names[(nth + turn) % names.length]
      const ended = await converse(name, turn)
      if (turn > 0) answers[name].push(...ended)
      console.error(`turn ${turn + 1} of ${name}: ${JSON.stringify(figures(ended))}`)
    }
  }
  for (const name of names) {
    const { server, kind } = sides[name]
    const metrics = kind === 'cllm' ? await (await fetch(`${server.url}/metrics`)).text() : ''
    for (const line of metrics.split('\n')) {
      if (line.startsWith('cllm_cache_')) console.error(`${name}: ${line}`)
    }
    await server.stop()
    rows.push({ name, ...figures(answers[name]) })
  }
}

/** Tokens of the prompt and of those that were computed, on either server. */
function promptOf({ last: { timings } }) {
  const { prompt_tokens: prompt, cached_tokens: cached = 0 } = timings
  if (prompt !== undefined) return { prompt, computed: prompt - cached }
  return { prompt: timings.prompt_n + (timings.cache_n ?? 0), computed: timings.prompt_n }
}

function figures(answers) {
  const between = answers.flatMap((answer) => gaps(answer))
  const first = answers.map(({ times }) => times[0])
  return {
    computed: sum(answers.map((answer) => promptOf(answer).computed)),
    prompt: sum(answers.map((answer) => promptOf(answer).prompt)),
    ttft: median(first),
    ttft95: quantile(first, 0.95),
    itl: median(between),
    itl99: quantile(between, 0.99),
    largest: Math.max(...between),
    shares: meanOf(answers.flatMap(({ shares = [] }) => (shares.length > 0 ? [shares] : []))),
  }
}

/** The mean of each column. */
const meanOf = (rows) =>
  rows[0]?.map((_, index) => sum(rows.map((row) => row[index])) / rows.length) ?? []

const round = (value) => value.toFixed(1)
function print(title, rows) {
  const [base] = rows
  const head = ['prompt tokens', 'computed', 'of first', 'TTFT p50 (ms)', 'p95', 'of first']
  console.log(
    table([
      [title, ...head, 'ITL p50', 'p99', 'largest', 'p99 of first', 'largest of first'],
      ...rows.map((row) => [
        row.name,
        row.prompt,
        row.computed,
        (row.computed / base.computed).toFixed(3),
        round(row.ttft),
        round(row.ttft95),
        (row.ttft / base.ttft).toFixed(2),
        round(row.itl),
        round(row.itl99),
        round(row.largest),
        (row.itl99 / base.itl99).toFixed(2),
        (row.largest / base.largest).toFixed(2),
      ]),
    ]),
  )
  const known = rows.filter(({ shares }) => shares.length > 0)
  console.log(
    table([
      [`${title}: mean ms to a first token`, ...shareNames],
      ...known.map(({ name, shares }) => [name, ...shares.map(round)]),
    ]),
  )
}

const turns = count('turns')
const later = []
await play(Object.keys(sides), 0, turns - 1, later)
print('later turns', later)
// Each conversation goes on after a restart of both.
const restarted = []
await play(['RAM', 'RAM and disk'], turns - 1, turns, restarted)
print('after a restart', restarted)
rmSync(folder, { recursive: true })
