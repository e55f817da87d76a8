import { cpus } from 'node:os'
import type { Backend } from '@cllm/core'
import { passMachine, type PassCosts } from '@cllm/simulation'
import {
  type CheckedStep,
  type CostFile,
  type FittedCosts,
  fitCosts,
  formatNumber,
  longContext,
  loopCosts,
  planSteps,
  StepMeter,
  textsOf,
  textTable,
} from '@cllm/bench'
import { type CommandIo, defineCommand } from '../command.js'
import { engineLikeProcess } from '../native/spawn-program.js'
import { modelHost } from './model-host.js'
import { progressBar, writeText } from './output.js'
import { one, resultFile, toggle, wrong, integer } from '../flags.js'
import { modelFlags, readModel } from './flags/target.js'

/** `cllm bench calibrate`, in this process. */
export const benchCalibrate = defineCommand({
  usage: 'bench calibrate --model SPEC --out FILE',
  doc: `
Measures how long steps take on this machine and fits the cost model of \`cllm simulate\` to them.
Mixed steps are not fitted; they check the result.`,
  flags: {
    ...modelFlags,
    out: one('FILE', 'File for the fitted costs, for cllm simulate --cost', resultFile),
    repeats: one(
      'N',
      'Measurements per step (default: 3 to 50, as many as fit into 40 s)',
      integer(1, 100),
    ),
    json: toggle('Print the costs as JSON and nothing else'),
  },
  async run({ flags }, io, openHost: typeof modelHost = modelHost) {
    const settings = readModel(flags)
    const { out, repeats, json } = flags
    if (out === undefined && !json) throw wrong('--out is missing: expected the path of a file')
    const host = await openHost(io)
    const fitted = await fitSteps(await host.openBackend(settings), repeats, io)
    const served = await host.serve(settings)
    try {
      const { chunkMultiple, model } = fitted
      const about = { name: '', about: '', chunkMultiple }
      const alone = passMachine({ ...fitted.costs, loop: { base: 0, each: 0 } }, about)
      const costs = { ...fitted.costs, loop: await loopCosts(served.client, alone) }
      const file: CostFile = {
        schema: 2,
        kind: 'cost-model',
        model: model.id,
        machine: `${cpus()[0]?.model ?? 'unknown'}, ${cpus().length} cores${fitted.gpu === false ? '' : `, ${fitted.gpu}`}`,
        measuredAt: new Date(performance.timeOrigin + performance.now()).toISOString(),
        chunkMultiple,
        costs,
        error: fitted.error,
      }
      const content = `${JSON.stringify(file, undefined, json ? undefined : 2)}\n`
      if (out !== undefined) await writeText(out, content)
      io.stdout.write(json ? content : calibrationTable(fitted, costs))
    } finally {
      await served.close()
    }
  },
})

/** `cllm bench calibrate` */
export const run = engineLikeProcess(['bench', 'calibrate'], benchCalibrate)

/** Measures and fits the steps of a backend, and disposes of it. */
async function fitSteps(backend: Backend, repeats: number | undefined, io: CommandIo) {
  const { signal } = io
  const { model, limits, capabilities } = backend
  const { chunkMultiple = 1, contextSize, slots } = limits
  const progress = progressBar(io.stderr, 'steps', undefined)
  try {
    const plan = planSteps(limits)
    const meter = new StepMeter(backend)
    // The first steps also pay for the first touch of memory pages, so measure them twice.
    await meter.measure(plan.slice(0, 8), { repeats: 1, signal, onStep: progress.step })
    const steps = await meter.measure(plan, { repeats, signal, onStep: progress.step })
    const longest = Math.min(longContext, Math.floor(contextSize / 2))
    const copies: [number, number][] = []
    for (const tokens of slots > 1 ? [longest, Math.ceil(longest / 2), 16] : []) {
      copies.push([tokens, await meter.copyMs(tokens, repeats ?? 3)])
    }
    meter.empty()
    const fitted = fitCosts(steps, copies, chunkMultiple)
    return { ...fitted, model, chunkMultiple, gpu: capabilities.gpu }
  } finally {
    progress.stop()
    await backend.dispose()
  }
}

function calibrationTable(
  fitted: FittedCosts & { readonly chunkMultiple: number },
  costs: PassCosts,
) {
  const { steps, error, chunkMultiple } = fitted
  const { decode, prefill, copy, loop } = costs
  const ms = (value: number) => `${Number(value.toPrecision(3))} ms`
  const percent = (value: number) => `${(100 * value).toFixed(1)} %`
  const rows = steps.map((step) => [
    describe(step),
    formatNumber(step.durationMs),
    formatNumber(step.predictedMs),
    percent(step.predictedMs / step.durationMs - 1),
  ])
  return [
    textTable(['step', 'measured ms', 'fitted ms', 'error'], rows),
    `decode: ${ms(decode.alone)} for one sequence; ${ms(decode.base)} + ${ms(decode.each)} per sequence for several; ${ms(decode.read)} per token of context`,
    `prefill: ${ms(prefill.base)} a pass + ${ms(prefill.sequence)} per sequence + ${ms(prefill.each)} per token + ${ms(prefill.pair)} per token and token of context, ${ms(prefill.lonePair)} in chunks shorter than ${chunkMultiple}`,
    `copy: ${ms(copy.base)} + ${ms(copy.each)} per token; the engine: ${ms(loop.base)} + ${ms(loop.each)} per sequence`,
    `error of ${error.fitted.steps} fitted steps: mean ${percent(error.fitted.mean)}, max ${percent(error.fitted.max)}`,
    `error of ${error.heldOut.steps} mixed steps that were not fitted: mean ${percent(error.heldOut.mean)}, max ${percent(error.heldOut.max)}\n`,
  ].join('\n')
}

function describe({ kind, shares }: CheckedStep): string {
  const decoding = shares.filter(({ tokens }) => tokens === 1)
  const chunks = shares.filter(({ tokens }) => tokens > 1)
  const sizes = chunks.map(({ tokens }) => tokens).join('+')
  const parts = textsOf(
    decoding.length > 0 && `${decoding.length} decode at ${decoding[0]?.context}`,
    chunks.length > 0 && `prefill ${sizes} at ${chunks[0]?.context}`,
  )
  return `${kind === 'mixed' ? 'mixed: ' : ''}${parts.join(', ')}`
}
