// Measures cLLM beside llama-server on this machine, which must be quiet, the two in turns, and writes the
// tables of README and docs/why.md; `pnpm run docs` then draws the chart of the latter.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { howMeasured, writeFigures } from './lib/figures.mjs'
import { quiet } from './lib/quiet.mjs'
import { median, ratiosOf, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    'llama-server': { type: 'string' },
    // by default one of Qwen3-0.6B's shape, made for this run
    model: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    // prints the tables without writing them
    'dry-run': { type: 'boolean', default: false },
  },
})
if (values['llama-server'] === undefined) throw new Error('expected --llama-server PATH')

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'cllm-readme-'))
const model = values.model ?? join(folder, 'synth.gguf')
if (values.model === undefined) {
  const cllm = here('../packages/cli/bin/cllm.js')
  execFileSync(process.execPath, [cllm, 'model', 'synth', '--like', 'qwen3-0.6b', '--out', model])
}

/** What a script measured: each round's figures of both servers, by the figure's name. */
async function pairsOf(script, ...flags) {
  await quiet()
  const json = join(folder, 'pairs.json')
  const own = ['--model', model, '--llama-server', values['llama-server']]
  const all = [here(script), ...own, '--rounds', values.rounds, '--json', json, ...flags]
  const { status } = spawnSync(process.execPath, all, { stdio: ['ignore', 'inherit', 'inherit'] })
  if (status !== 0) throw new Error(`${script} failed`)
  return JSON.parse(readFileSync(json, 'utf8'))
}

const long = await pairsOf('intruder.mjs')
const streams = await pairsOf('serve.mjs', '--requests', '6')
const { prefix } = await pairsOf('prefix.mjs', '--unseen-only')
const busy = await pairsOf('serve.mjs', '--busy', '1', '--concurrency', '1')

const perClients = (name, unit, better, pairs) =>
  Object.entries(pairs).map(([clients, found]) => ({
    name: `${name}, ${clients} client${clients === '1' ? '' : 's'}`,
    unit,
    better,
    pairs: found,
  }))
const figures = [
  {
    name: 'longest pause of four streams while a 1,200-word prompt arrives',
    unit: 'ms',
    better: 'lower',
    pairs: long.pause,
  },
  { name: "that prompt's first token", unit: 'ms', better: 'lower', pairs: long.intruder },
  ...perClients('median time to first token (TTFT)', 'ms', 'lower', {
    8: streams['ttft-8'],
    16: streams['ttft-16'],
  }),
  ...perClients('throughput', 'tokens/s', 'higher', {
    1: streams['throughput-1'],
    8: streams['throughput-8'],
    16: streams['throughput-16'],
  }),
  {
    name: 'throughput of eight requests with the same new 400-word prefix',
    unit: 'tokens/s',
    better: 'higher',
    pairs: prefix,
  },
  {
    name: 'throughput of one stream beside a busy process',
    unit: 'tokens/s',
    better: 'higher',
    pairs: busy['throughput-1'],
  },
]

const how = howMeasured(values.rounds, 'readme.mjs')
const ratio = (pairs) => median(ratiosOf(pairs)).toFixed(2)
const short = [
  `${how}:`,
  '',
  table([
    ['figure', 'cLLM ÷ llama-server', 'better is'],
    ...figures.map(({ name, better, pairs }) => [name, ratio(pairs), better]),
  ]),
].join('\n')

const number = (value) => value.toLocaleString('en', { maximumSignificantDigits: 3 })
const middle = (pairs, side) => number(median(pairs.map((pair) => pair[side])))
const extremes = (pairs) => {
  const all = ratiosOf(pairs)
  return `${ratio(pairs)} (${Math.min(...all).toFixed(2)} to ${Math.max(...all).toFixed(2)})`
}
const full = [
  `${how}; of the ratios, the extremes, too:`,
  '',
  table([
    ['figure', 'cLLM', 'llama-server', 'ratio', 'better is'],
    ...figures.map(({ name, unit, better, pairs }) => {
      return [`${name}, ${unit}`, middle(pairs, 0), middle(pairs, 1), extremes(pairs), better]
    }),
  ]),
].join('\n')
console.log(`${short}\n\n${full}`)

if (!values['dry-run']) {
  writeFigures('README.md', short)
  writeFigures('docs/why.md', full)
}
