// How true `cllm simulate` is: the same requests through the engine in its own process, in real time,
// and through the simulation with costs that were calibrated just before.
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs, promisify } from 'node:util'
import {
  fitDataset,
  openDataset,
  parseLengths,
  readCosts,
  simulatedLoad,
  simulatePolicy,
  summarize,
} from '../packages/bench/dist/index.js'
import { createPolicy } from '../packages/scheduler/dist/index.js'
import { startEngine } from './lib/engine.mjs'
import { pause } from './lib/servers.mjs'
import { table } from './lib/statistics.mjs'

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    requests: { type: 'string', default: '200' },
    rate: { type: 'string', default: '2' },
    dataset: { type: 'string', default: 'synthetic' },
    'input-len': { type: 'string', default: 'lognormal:64,0.6' },
    'output-len': { type: 'string', default: 'lognormal:32,0.5' },
    'max-input': { type: 'string', default: '512' },
    'max-output': { type: 'string', default: '96' },
    'ctx-size': { type: 'string', default: '1024' },
    slots: { type: 'string', default: '8' },
    policy: { type: 'string', default: 'adaptive+fcfs' },
    cost: { type: 'string' },
    gpu: { type: 'string', default: 'off' },
    seed: { type: 'string', default: '1' },
  },
})
const number = (name) => Number(values[name])
const policy = values.policy

const lengths = {
  inputLengths: parseLengths(values['input-len']),
  outputLengths: parseLengths(values['output-len']),
}
const load = {
  shape: { kind: 'open', rate: number('rate'), burstiness: 1, rampMs: 0 },
  dataset: fitDataset(openDataset(values.dataset, { ...lengths, seed: number('seed') }), {
    maxInput: number('max-input'),
    maxOutput: number('max-output'),
  }),
  seed: number('seed'),
  requests: number('requests'),
}

async function calibrated() {
  if (values.cost !== undefined) return readCosts(values.cost)
  const folder = await mkdtemp(join(tmpdir(), 'fidelity-'))
  const file = join(folder, 'cost.json')
  const bin = fileURLToPath(new URL('../packages/cli/bin/cllm.js', import.meta.url))
  const sizes = ['--slots', values.slots, '--ctx-size', values['ctx-size'], '--gpu', values.gpu]
  const args = ['bench', 'calibrate', '--model', values.model, '--out', file, ...sizes]
  const { stdout } = await promisify(execFile)(process.execPath, [bin, ...args])
  console.log(stdout.split('\n').slice(-7).join('\n'))
  const costs = readCosts(file)
  await rm(folder, { recursive: true })
  return costs
}

/** The load in real time; times are the client's. */
async function real() {
  const backend = {
    modelPath: values.model,
    modelId: 'fidelity',
    slots: number('slots'),
    contextSize: number('ctx-size'),
    gpu: values.gpu,
  }
  const { client, info, kill, ended } = await startEngine(backend, { policy })
  const vocabulary = Math.floor(info.model.vocabularySize / 2)
  const begin = performance.now()
  const records = await Promise.all(
    simulatedLoad(load).requests.map(async ({ id, arrival, prompt, maxTokens }) => {
      const tokens = prompt().map((token) => 300 + (token % (vocabulary - 300)))
      await pause(Math.max(0, arrival - (performance.now() - begin)))
      const sentMs = performance.now() - begin
      const arrivalsMs = []
      const sampling = { temperature: 0.7, topK: 40, topP: 0.9, ignoreEos: true }
      for await (const event of client.submit({ prompt: { tokens }, maxTokens, sampling })) {
        if (event.type === 'token') arrivalsMs.push(performance.now() - begin)
      }
      const asked = { inputTokens: tokens.length, outputTokens: maxTokens }
      return {
        index: Number(id),
        tenant: '',
        intendedMs: arrival,
        sentMs,
        arrivalsMs,
        asked,
        endMs: performance.now() - begin,
        outcome: 'ok',
        slowReader: false,
        arrivedTokens: arrivalsMs.length,
      }
    }),
  )
  kill()
  await ended
  return summarize(records)
}

const machine = await calibrated()
const measured = await real()
const { result } = await simulatePolicy({
  load,
  machine,
  policy,
  createPolicy: () => createPolicy(policy),
  slots: number('slots'),
  contextSize: number('ctx-size'),
  batchSize: 512,
  machines: 1,
  router: 'round-robin',
})
const figures = [
  ['TTFT mean ms', ({ ttftMs }) => ttftMs.mean],
  ['TTFT p99 ms', ({ ttftMs }) => ttftMs.p99],
  ['ITL mean ms', ({ itlMs }) => itlMs.mean],
  ['ITL p99 ms', ({ itlMs }) => itlMs.p99],
  ['E2E mean ms', ({ e2eMs }) => e2eMs.mean],
  ['output tokens/s', (summary) => summary.outputTokensPerSecond],
]
console.log(
  table([
    ['', 'measured', 'simulated', 'error'],
    ...figures.map(([name, of]) => {
      const error = 100 * (of(result.summary) / of(measured) - 1)
      const texts = [of(measured), of(result.summary)].map((value) => value.toFixed(1))
      return [name, ...texts, `${error.toFixed(1)} %`]
    }),
  ]),
)
