import {
  formatNumber,
  htmlPage,
  htmlTable,
  schemaVersion,
  textTable,
} from '../../packages/bench/dist/index.js'
import { escapeHtml } from '../../packages/bench/dist/report/chart/frame.js'
import { exitCode, writeText } from '../../packages/cli/dist/commands/bench/output.js'
import {
  asksForHelp,
  flagsHelp,
  one,
  parseFlags,
  toggle,
  wrong,
  integer,
} from '../../packages/cli/dist/commands/flags.js'
import { modelFlags, readModel } from '../../packages/cli/dist/commands/bench/flags/target.js'
import { measureStages } from './measure-stages.mjs'
import { stagePlot } from './stage-plot.mjs'

const flagTable = {
  ...modelFlags,
  sequences: one('N', 'Concurrent requests (default 8)', integer(1, 256), 8),
  'prompt-tokens': one('N', 'Prompt tokens per request (default 32)', integer(2), 32),
  'output-tokens': one('N', 'Generated tokens per request (default 64)', integer(2), 64),
  rounds: one('N', 'Rounds to take medians of (default 5)', integer(1, 100), 5),
  json: toggle('One JSON line and nothing else'),
  report: one('FILE', 'Write an HTML report with a plot', (value) => value),
}

const usage = `Usage: node benchmarks/stages.mjs --model SPEC [flags]

Runs the same prompts at each stage from the native forward pass to a stream over HTTP, each through
the real component, and prints the time that each stage adds.

${flagsHelp(flagTable)}`

/** `benchmarks/stages.mjs` */
export async function printStages(argv, io, host) {
  if (asksForHelp(argv)) {
    io.stdout.write(usage)
    return exitCode.ok
  }
  const flags = parseFlags(argv, flagTable)
  const { sequences, json, report } = flags
  const settings = readModel(flags)
  if (sequences > settings.slots) {
    throw wrong(`--sequences: expected at most --slots ${settings.slots}, got ${sequences}`)
  }
  const work = {
    sequences,
    promptTokens: flags['prompt-tokens'],
    outputTokens: flags['output-tokens'],
  }
  const stages = await measureStages(host, settings, work, flags.rounds)
  const result = { schema: schemaVersion, kind: 'stages', model: settings.model, ...work, stages }
  const rows = stages.map(rowOf)
  io.stdout.write(json ? `${JSON.stringify(result)}\n` : `${textTable(head, rows)}\n`)
  if (report !== undefined) {
    const title = `stages: ${settings.model}`
    const body = `<h1>${escapeHtml(title)}</h1>${htmlTable(head, rows)}${stagePlot(stages)}`
    await writeText(report, htmlPage(title, body))
  }
  return exitCode.ok
}

const head = [
  'stage',
  'tokens/s',
  'ms',
  'native ms',
  'sampling ms',
  'beyond native: µs/step',
  'µs/token',
]

function rowOf({ stage, name, ...result }) {
  const { tokensPerSecond, wallMs, decodeMs, sampleMs } = result
  const { overheadPerStepUs, overheadPerTokenUs } = result
  const numbers = [
    tokensPerSecond,
    wallMs,
    decodeMs,
    sampleMs,
    overheadPerStepUs,
    overheadPerTokenUs,
  ]
  return [`${stage} ${name}`, ...numbers.map(formatNumber)]
}
