import { type SimulatedImages, simulatedLoad, type SimulatedLoadOptions } from './simulated-load.js'
import {
  type FleetOptions,
  type MachineModel,
  type SimulatedAnswer,
  type SimulatedLimits,
  simulateLoad,
  type SimulationOptions,
  type SimulationReport,
  slower,
} from '@cllm/simulation'
import { failuresOf, type RunRecord, type Slo } from '../metrics/run-record.js'
import { type RunResult, schemaVersion } from '../report/run-result.js'
import { type StepBucket, StepHistory } from '../report/step-history.js'
import { performance } from 'node:perf_hooks'
import { defined, type RouterPolicy, type SchedulerPolicy } from '@cllm/core'
import { createRouter } from '@cllm/scheduler'
import { summarize } from '../metrics/summarize.js'
import { lapWarnings } from '../metrics/warnings.js'
import { textsOf } from '../report/figures.js'
import type { WorkItem } from '../workload/work-item.js'

/** What was simulated, apart from the policy. */
export interface SimulatedSetup extends Omit<SimulatedLimits, 'encodes' | 'tools'> {
  /** The machine's costs: a built-in model, or a file of `cllm bench calibrate`. */
  readonly cost: { readonly name: string; readonly about: string }
  /** How long a pass of the draft model takes, as a share of the model's; absent: there is none. */
  readonly draftShare?: number
  /** The images of requests; absent: there are none. */
  readonly images?: SimulatedImages
  readonly machines: number
  /** Models of which not all are in memory; absent: there is one. */
  readonly models?: { readonly scheduler: string; readonly maxLoaded: number }
  /** The router, with its options as JSON after a colon. */
  readonly router: string
  /** What happens to several machines; absent: nothing. */
  readonly fleet?: FleetSetup
}

/** What happens to the machines of a simulation, and how late their fronts see it. */
export interface FleetSetup extends Required<
  Pick<FleetOptions, 'fronts' | 'viewAgeMs' | 'deaths' | 'drains'>
> {
  /** The slowest machine takes this many times as long as the fastest; the others lie between. */
  readonly spread: number
}

/** One policy's simulation: what `cllm simulate --json` prints as a line. */
export interface SimulationResult
  extends
    SimulatedSetup,
    Omit<SimulationReport, 'results' | 'prefillTokens'>,
    Pick<RunResult, 'schema' | 'load' | 'dataset' | 'seed' | 'summary' | 'warnings'> {
  readonly kind: 'simulation'
  readonly policy: string
  readonly policyOptions: Readonly<Record<string, unknown>>
  readonly requests: number
  /** Failures by their error's code. */
  readonly failures: Readonly<Record<string, string>>
  /** How long the simulation really took. */
  readonly wall_ms: number
}

/** A simulation with its requests and what the steps were made of. */
export interface SimulatedRun {
  readonly result: SimulationResult
  readonly records: readonly RunRecord[]
  readonly steps: readonly StepBucket[]
}

/** The inputs of a simulation. */
export interface SimulateOptions extends Omit<SimulatedSetup, 'cost'> {
  /** The policy's name in the result. */
  readonly policy: string
  readonly policyOptions?: Readonly<Record<string, unknown>>
  /** Makes the policy, once per machine. */
  readonly createPolicy: () => SchedulerPolicy
  /** Makes the router, once per front; default: the built-in one of the setup's name. */
  readonly createRouter?: () => RouterPolicy
  readonly machine: MachineModel
  readonly load: SimulatedLoadOptions
  /** What serves the requests, where there are several models. */
  readonly serve?: NonNullable<SimulationOptions['serve']>
  readonly slo?: Slo
  /** What to know of the setup: warnings of every result. */
  readonly warnings?: readonly string[]
  readonly signal?: AbortSignal
}

/** The inputs of a simulation besides its policy. */
export type SimulationSetup = Omit<SimulateOptions, 'policy' | 'createPolicy' | 'policyOptions'>

/**
 * Runs a load through the real engine and a policy in simulated time. The same options give the
 * same result, except for `wall_ms`.
 *
 * @throws `policy_failed` when a request never ends, or a router or model scheduler fails
 */
export async function simulatePolicy(options: SimulateOptions): Promise<SimulatedRun> {
  const { machine, load, slo = {}, slots, contextSize, batchSize, machines } = options
  const began = performance.now()
  const history = new StepHistory()
  const { acceptance, draftShare, kvTokens, images } = options
  const { items, programs, laps, ...requests } = simulatedLoad({ ...load, ...defined({ images }) })
  const { createRouter: router = () => createRouter(options.router), fleet } = options
  const { spread = 1, ...events } = fleet ?? {}
  const machineOf = (index: number) =>
    slower(machine, 1 + ((spread - 1) * index) / Math.max(1, machines - 1))
  const more = defined({ acceptance, draftShare, kvTokens })
  const size = { slots, contextSize, batchSize, ...more, machines }
  const simulated = await simulateLoad({
    policy: options.createPolicy,
    machine: spread === 1 ? machine : machineOf,
    ...requests,
    ...size,
    ...defined({ encodes: images, tools: load.dataset.tools }),
    router,
    ...events,
    seed: load.seed,
    onStep({ startedAt: atMs, durationMs: busyMs, prefillTokens, decodeSequences: decodeTokens }) {
      history.add({ atMs, steps: 1, prefillTokens, decodeTokens, busyMs })
    },
    ...defined({ signal: options.signal, serve: options.serve }),
  })
  const { results, prefillTokens: _, ...report } = simulated
  const records = results.map((result) => recordOf(result, items, programs))
  const { sendLagMs: _none, ...summary } = summarize(records, slo)
  return {
    records,
    steps: history.list(),
    result: {
      schema: schemaVersion,
      kind: 'simulation',
      policy: options.policy,
      policyOptions: options.policyOptions ?? {},
      load: load.shape,
      dataset: load.dataset.name,
      requests: load.requests,
      seed: load.seed,
      cost: { name: machine.name, about: machine.about },
      ...size,
      router: options.router,
      ...defined({ images, fleet, models: options.models }),
      summary,
      ...report,
      failures: failuresOf(records),
      warnings: [...(options.warnings ?? []), ...warnings(records, laps)],
      wall_ms: Math.round(performance.now() - began),
    },
  }
}

function recordOf(
  result: SimulatedAnswer,
  items: readonly WorkItem[],
  programs: readonly number[],
): RunRecord {
  const { request, tokenTimes, endedAt, usage } = result
  const index = Number(request.id)
  const { inputTokens = 0, outputTokens = 0 } = items[index] ?? {}
  return {
    index,
    program: programs[index] ?? index,
    tenant: request.tenant ?? '',
    intendedMs: request.arrival,
    sentMs: request.arrival,
    arrivalsMs: tokenTimes,
    endMs: endedAt ?? tokenTimes.at(-1) ?? request.arrival,
    ...endOf(result),
    arrivedTokens: tokenTimes.length,
    ...defined({ usage }),
    asked: { inputTokens, outputTokens },
    slowReader: false,
  }
}

/** Only clients cancel here. */
function endOf({ endedAt, error, message = '' }: SimulatedAnswer) {
  if (error === 'cancelled') return { outcome: 'cancelled' } as const
  if (error !== undefined) return { outcome: 'failed', failure: { kind: error, message } } as const
  return { outcome: endedAt === undefined ? 'interrupted' : 'ok' } as const
}

function warnings(records: readonly RunRecord[], laps: number): readonly string[] {
  const ok = records.filter(({ outcome }) => outcome === 'ok')
  const tooLong = records.filter(({ failure }) => failure?.kind === 'prompt_too_long')
  const cut = ok.filter(({ arrivedTokens, asked }) => arrivedTokens < asked.outputTokens)
  return textsOf(
    ok.length === 0 && 'no request succeeded',
    tooLong.length > 0 &&
      `${tooLong.length} prompts are longer than a slot: see --ctx-size and --max-input`,
    cut.length > 0 && `${cut.length} answers were cut at the end of their slot`,
    ...lapWarnings(laps),
  )
}
