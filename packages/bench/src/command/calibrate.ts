import { cpus } from 'node:os'
import { loopOverheadMs } from '../calibrate/loop-overhead.js'
import { fitCosts, type CheckedStep, type FittedCosts } from '../calibrate/fit-costs.js'
import { StepMeter } from '../calibrate/measure-steps.js'
import { planSteps } from '../calibrate/step-plan.js'
import { formatNumber } from '../report/format.js'
import { textTable } from '../report/text-table.js'
import type { CostFile } from '../simulate/read-costs.js'
import type { CommandIo } from './command-io.js'
import { exitCode } from './exit-code.js'
import { flagsHelp, one, parseFlags, toggle, wrong } from './flags.js'
import { modelFlags, readModel, type ModelHost } from './model-flags.js'
import { progressBar } from './progress.js'
import { integer } from './values.js'
import { writeText } from './write-files.js'

const flagTable = {
  ...modelFlags,
  out: one('FILE', 'Where the costs go, for cllm simulate --cost', (value: string) => value),
  repeats: one('N', 'How often each step is measured (default 5)', integer(1, 100), 5),
  json: toggle('Print the costs as JSON and nothing else'),
} as const

const usage = `Usage: cllm bench calibrate --model SPEC --out FILE [flags]

Measures what steps cost on this machine and fits the cost model of \`cllm simulate\`. Mixed steps
check the fit.

${flagsHelp(flagTable)}`

/** `cllm bench calibrate` */
export async function benchCalibrate(
  argv: string[],
  io: CommandIo,
  host: ModelHost,
): Promise<number> {
  if (argv.includes('--help') || argv.includes('-h')) {
    io.stdout.write(usage)
    return exitCode.ok
  }
  const flags = parseFlags(argv, flagTable)
  const settings = readModel(flags)
  const { out, repeats, json } = flags
  if (out === undefined && !json) throw wrong('--out is missing: the path of a file expected')
  const backend = await host.openBackend(settings)
  try {
    const plan = planSteps(backend.limits)
    const progress = progressBar(io.stderr, 'steps', plan.length * repeats)
    const meter = new StepMeter(backend)
    const { signal } = io
    // What runs first pays for pages that nobody has touched yet.
    await meter.measure(plan.slice(0, 8), { repeats: 1, signal, onStep: () => undefined })
    const steps = await meter.measure(plan, { repeats, signal, onStep: progress.step })
    const longest = Math.floor(backend.limits.contextSize / 2)
    const copies: [number, number][] = []
    for (const tokens of backend.limits.slots > 1 ? [16, Math.ceil(longest / 2), longest] : []) {
      copies.push([tokens, await meter.copyMs(tokens, repeats)])
    }
    progress.stop()
    const policy = host.policies.createPolicy(settings.policy, {})
    const fitted = fitCosts(steps, copies, await loopOverheadMs(backend, policy))
    const file: CostFile = {
      schema: 1,
      kind: 'cost-model',
      model: backend.model.id,
      machine: `${cpus()[0]?.model ?? 'unknown'}, ${cpus().length} cores${backend.capabilities.gpu === false ? '' : `, ${backend.capabilities.gpu}`}`,
      measuredAt: new Date(performance.timeOrigin + performance.now()).toISOString(),
      chunkMultiple: backend.limits.chunkMultiple ?? 1,
      costs: fitted.costs,
      error: fitted.error,
    }
    const content = `${JSON.stringify(file, undefined, json ? undefined : 2)}\n`
    if (out !== undefined) await writeText(out, content)
    io.stdout.write(json ? content : calibrationTable(fitted))
    return exitCode.ok
  } finally {
    await backend.dispose()
  }
}

function calibrationTable({ costs, steps, error }: FittedCosts): string {
  const { decode, prefill, copy, betweenSteps } = costs
  const ms = (value: number) => `${value.toPrecision(3)} ms`
  const percent = (value: number) => `${(100 * value).toFixed(1)} %`
  const rows = steps.map((step) => [
    describe(step),
    formatNumber(step.durationMs),
    formatNumber(step.predictedMs),
    percent(step.predictedMs / step.durationMs - 1),
  ])
  return [
    textTable(['step', 'measured ms', 'fitted ms', 'error'], rows),
    `decode: ${ms(decode.base)} + ${ms(decode.each)} per sequence + ${ms(decode.read)} per token of context`,
    `prefill: ${ms(prefill.base)} + ${ms(prefill.each)} per token + ${ms(prefill.read)} per token and token of context + ${ms(prefill.again)} per further length`,
    `copy: ${ms(copy.base)} + ${ms(copy.each)} per token; between steps: ${ms(betweenSteps)}`,
    `error of ${error.fitted.steps} fitted steps: mean ${percent(error.fitted.mean)}, max ${percent(error.fitted.max)}`,
    `error of ${error.heldOut.steps} mixed steps that were not fitted: mean ${percent(error.heldOut.mean)}, max ${percent(error.heldOut.max)}\n`,
  ].join('\n')
}

function describe({ kind, shares }: CheckedStep): string {
  const decoding = shares.filter(({ tokens }) => tokens === 1)
  const chunks = shares.filter(({ tokens }) => tokens > 1)
  const parts = [
    ...(decoding.length > 0 ? [`${decoding.length} decode at ${decoding[0]?.context}`] : []),
    ...(chunks.length > 0
      ? [`prefill ${chunks.map(({ tokens }) => tokens).join('+')} at ${chunks[0]?.context}`]
      : []),
  ]
  return `${kind === 'mixed' ? 'mixed: ' : ''}${parts.join(', ')}`
}
