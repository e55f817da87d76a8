// Makes README's table: each row measured beside llama-server on this machine, which must be quiet, the two
// in turns, as the median of the rounds' ratios with the lowest and the highest.
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { quiet } from './lib/quiet.mjs'
import { median, table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    'llama-server': { type: 'string' },
    // by default one of Qwen3-0.6B's shape, made for this run
    model: { type: 'string' },
    rounds: { type: 'string', default: '5' },
    // prints the table without changing README.md
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

/** Each round's ratios of a script, by the figure's name. */
async function ratiosOf(script, ...flags) {
  await quiet()
  const json = join(folder, 'ratios.json')
  const own = ['--model', model, '--llama-server', values['llama-server']]
  const all = [here(script), ...own, '--rounds', values.rounds, '--json', json, ...flags]
  const { status } = spawnSync(process.execPath, all, { stdio: ['ignore', 'inherit', 'inherit'] })
  if (status !== 0) throw new Error(`${script} failed`)
  return JSON.parse(readFileSync(json, 'utf8'))
}

const streams = await ratiosOf('serve.mjs', '--requests', '6')
const long = await ratiosOf('intruder.mjs')
const { prefix } = await ratiosOf('prefix.mjs', '--unseen-only')
const busy = await ratiosOf('serve.mjs', '--busy', '1', '--concurrency', '1')

const figure = (ratios) =>
  `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)})`
const perClients = (name, counts) =>
  counts.map((count) => figure(streams[`${name}-${count}`])).join('; ')

const cores = cpus()
const made = [
  `Medians (and extremes) of ${values.rounds} rounds on ${new Date().toISOString().slice(0, 10)}, ` +
    `${cores.length} cores (${cores[0].model.trim()}), by \`benchmarks/readme.mjs\`:`,
  '',
  table([
    ['figure', 'cLLM ÷ llama-server', 'better is'],
    [
      'longest pause of four streams while a 1,200-word prompt arrives',
      figure(long.pause),
      'lower',
    ],
    ["that prompt's first token", figure(long.intruder), 'lower'],
    ['median time to first token (TTFT), 8 and 16 clients', perClients('ttft', [8, 16]), 'lower'],
    ['tokens/s, 1, 8 and 16 clients', perClients('throughput', [1, 8, 16]), 'higher'],
    ['tokens/s of eight requests with the same new 400-word prefix', figure(prefix), 'higher'],
    ['tokens/s of one stream beside a busy process', figure(busy['throughput-1']), 'higher'],
  ]),
].join('\n')
console.log(made)

const readme = here('../README.md')
const marks = /(?<=<!-- figures -->\n)[\s\S]*?(?=\n<!-- end of figures -->)/
if (!values['dry-run']) {
  writeFileSync(
    readme,
    readFileSync(readme, 'utf8').replace(marks, () => made),
  )
}
