import type { SchedulerPolicy } from '@cllm/core'
import { builtInMachines } from '@cllm/scheduler/simulation'
import { openDataset } from '../datasets/open-dataset.js'
import { readText } from '../datasets/read-text.js'
import type { LoadShape } from '../load/load-options.js'
import { readCosts } from '../simulate/read-costs.js'
import { recordedLoad } from '../simulate/recorded-load.js'
import { recordedMachine } from '../simulate/recorded-machine.js'
import { readRecording } from '../simulate/recording-file.js'
import type { SimulateOptions } from '../simulate/simulate-policy.js'
import { fitDataset } from '../workload/fit-dataset.js'
import type { Dataset } from '../workload/work-item.js'
import { wrong, type parseFlags } from './flags.js'
import type { simulationFlags } from './simulate-flags.js'

/** Makes policies by name, those of plugins included. */
export interface PolicyFactory {
  /** Makes the policy of a name; throws `invalid_policy`. */
  createPolicy(name: string, options: Readonly<Record<string, unknown>>): SchedulerPolicy
}

/** What a simulation needs beside its policy. */
export type SimulationSetup = Omit<SimulateOptions, 'policy' | 'createPolicy' | 'policyOptions'>

const defaultCosts = [...builtInMachines.keys()][0] as string

type Flags = ReturnType<typeof parseFlags<typeof simulationFlags>>

/**
 * The setup that the flags describe.
 *
 * @throws `invalid_configuration` for flags that contradict, `invalid_dataset` for a wrong file
 */
export function readSimulation(flags: Flags): SimulationSetup {
  const { seed, machines, router, slo } = flags
  if (flags.trace !== undefined && flags.dataset !== undefined) {
    throw wrong('--trace and --dataset: expected one of them, got both')
  }
  const replayed = readReplay(flags)
  const dataset = replayed?.dataset ?? readDataset(flags)
  const requests = flags.requests ?? (dataset.timed ? dataset.size : undefined) ?? 1000
  const shape = readShape(flags, dataset)
  const load = {
    shape,
    dataset,
    seed,
    requests,
    ...(flags.tenants === undefined ? {} : { tenants: flags.tenants }),
  }
  const limits = replayed?.limits
  const isCostNamed = flags.cost !== undefined || replayed === undefined
  return {
    load,
    machine: isCostNamed ? readCosts(flags.cost ?? defaultCosts) : replayed.machine(),
    slots: flags.slots ?? limits?.slots ?? 16,
    contextSize: flags['ctx-size'] ?? limits?.contextSize ?? longest(dataset, requests),
    batchSize: flags['batch-size'] ?? limits?.batchSize ?? 2048,
    machines,
    router,
    slo,
  }
}

/** A policy as `--policy` names it: `batching+order`, and options as JSON after a colon. */
export function readPolicy(
  text: string,
  factory: PolicyFactory,
): Pick<SimulateOptions, 'policy' | 'policyOptions' | 'createPolicy'> {
  const at = text.indexOf(':{')
  const policy = at === -1 ? text : text.slice(0, at)
  let policyOptions: Readonly<Record<string, unknown>> = {}
  if (at !== -1) {
    try {
      policyOptions = JSON.parse(text.slice(at + 1)) as Record<string, unknown>
    } catch (error) {
      throw wrong(`--policy: expected NAME or NAME:{JSON}, got "${text}": ${String(error)}`)
    }
  }
  const createPolicy = () => factory.createPolicy(policy, policyOptions)
  // A wrong name or option is told before anything is simulated.
  createPolicy()
  return { policy, policyOptions, createPolicy }
}

function readReplay({ replay, trace, dataset }: Flags) {
  if (replay === undefined) return undefined
  if (trace !== undefined || dataset !== undefined) {
    throw wrong('--replay, --trace and --dataset: expected one of them, got more')
  }
  const recording = readRecording(replay)
  return {
    limits: recording.limits,
    dataset: recordedLoad(recording, replay),
    machine: () => recordedMachine(recording, replay),
  }
}

function readDataset(flags: Flags): Dataset {
  const { trace, dataset: spec = trace === undefined ? 'synthetic' : traceSpec(trace) } = flags
  const source = openDataset(spec, {
    inputLengths: flags['input-len'],
    outputLengths: flags['output-len'],
    sharedPrefix: flags['shared-prefix'],
    prefixGroups: flags['prefix-groups'],
    seed: flags.seed,
  })
  return fitDataset(source, {
    timeScale: flags['time-scale'],
    lengthScale: flags['length-scale'],
    ...(flags['max-input'] === undefined ? {} : { maxInput: flags['max-input'] }),
    ...(flags['max-output'] === undefined ? {} : { maxOutput: flags['max-output'] }),
  })
}

/** The format shows in the first character: a JSON object, or the names of columns. */
function traceSpec(file: string): string {
  if (/^(azure|mooncake):/.test(file)) return file
  return `${readText(file).trimStart().startsWith('{') ? 'mooncake' : 'azure'}:${file}`
}

function readShape({ rate, concurrency, burstiness, ramp }: Flags, dataset: Dataset): LoadShape {
  if (rate !== undefined && concurrency !== undefined) {
    throw wrong('--concurrency and --rate: expected one of them, got both')
  }
  const [level, ...more] = rate ?? concurrency ?? []
  if (more.length > 0) throw wrong('--concurrency and --rate: expected one value in a simulation')
  if (level === undefined && dataset.timed) return { kind: 'trace' }
  if (rate !== undefined) return { kind: 'open', rate: level ?? 1, burstiness, rampMs: ramp }
  return { kind: 'closed', concurrency: level ?? 32, rampMs: ramp }
}

/** Prompt and answer of the longest request, rounded up. */
function longest(dataset: Dataset, requests: number): number {
  const { size = Infinity } = dataset
  let most = 0
  for (let index = 0; index < Math.min(size, requests); index++) {
    const { inputTokens, outputTokens } = dataset.item(index)
    most = Math.max(most, inputTokens + outputTokens)
  }
  return Math.ceil(most / 1024) * 1024
}
