import { defineOrder, PluginRegistry } from '@cllm/core'
import type { Order, PolicySetting, Recording, SequenceView } from '@cllm/core'
import { parseRecording, tracedRequests } from '@cllm/bench/traces'
import { builtInMachines, recordedMachine, recordedRequests, simulateLoad } from '@cllm/simulation'
import type { MachineModel, SimulatedAnswer, SimulatedRequest } from '@cllm/simulation'
import { type LabJob, madeRequests } from './lab-job.js'
import { batchings, boundedOvertaking, createPolicy, WaitingHeap } from '@cllm/scheduler'

const usual = { contextSize: 8192, batchSize: 2048 }

/**
 * Reads a job once for all candidates: the options of its simulations, without policy and slots. Throws if its file
 * is invalid, or has too few steps to fit their costs.
 */
export function openJob(job: LabJob) {
  const { recording, requests } = openLoad(job.load)
  if (requests.length === 0) throw new Error('The load has no requests yet')
  const { kvTokens } = recording?.limits ?? {}
  const limits = recording?.limits ?? { ...usual, contextSize: roomFor(requests) }
  return {
    requests,
    machine: machineOf(job, recording),
    machines: recording?.engines ?? 1,
    contextSize: limits.contextSize,
    ...(kvTokens !== undefined && { kvTokens }),
    batchSize: Math.max(limits.batchSize, job.slots),
  }
}

function openLoad(load: LabJob['load']) {
  if (load.kind === 'made') return { requests: madeRequests(load.load) }
  if (load.kind === 'file' && !load.isRecording) {
    return { requests: tracedRequests(load.text, load.name, load.requests) }
  }
  const recording = load.kind === 'file' ? parseRecording(load.text, load.name) : load.recording
  return { recording, requests: recordedRequests(recording) }
}

/** The context size for the longest request: a multiple of 1,024 tokens, at least the default. */
function roomFor(requests: readonly SimulatedRequest[]): number {
  let longest = usual.contextSize
  for (const { prompt, maxTokens } of requests) {
    const { length } = typeof prompt === 'function' ? prompt() : prompt
    longest = Math.max(longest, length + maxTokens)
  }
  return Math.ceil(longest / 1024) * 1024
}

function machineOf({ machine }: LabJob, recording: Recording | undefined): MachineModel {
  if (recording !== undefined && machine === 'recorded') {
    return recordedMachine(recording, 'The recording')
  }
  const known = builtInMachines.get(machine)
  if (known === undefined) throw new Error(`There is no machine ${machine}`)
  return known
}

/** The policies of the user's own order: each batching with it, as `batching+own`. */
class OwnPolicies {
  /** The first error of the order. The engine then goes on with another policy, so that its figures mean nothing. */
  problem: Error | undefined
  readonly #registry = new PluginRegistry()
  readonly #rank: (request: SequenceView) => unknown

  /**
   * @param code - an expression of `request`, such as `request.maxTokens`; it runs on the user's own machine, in a
   *   worker that has no page and no network
   * @throws SyntaxError
   */
  constructor(code: string) {
    // oxlint-disable-next-line typescript/no-implied-eval -- this is what the field is for
    this.#rank = new Function('request', `return (${code})`) as (request: SequenceView) => unknown
    for (const batching of batchings) this.#registry.registerBatching(batching)
    const create = (): Order =>
      boundedOvertaking(new WaitingHeap((request) => this.#rankOf(request)))
    this.#registry.registerOrder(defineOrder({ name: 'own', doc: 'Typed into the lab.', create }))
  }

  /** Makes a policy by its name. */
  create(name: string, options: Readonly<Record<string, unknown>>) {
    return this.#registry.createPolicy(name, options)
  }

  #rankOf(request: SequenceView): number {
    try {
      const value = this.#rank(request)
      if (typeof value === 'number' && !Number.isNaN(value)) return value
      throw new Error(`The order of your own gave ${String(value)}, which is no number`)
    } catch (error) {
      this.problem ??= error as Error
      return 0
    }
  }
}

/** The results of a policy; times are milliseconds of simulated time. */
export type LabResult = Awaited<ReturnType<typeof runCandidate>>

/**
 * Simulates a load with a policy and the real engine. Throws the errors of a policy.
 *
 * @param opened - the opened job: reading it takes a while, so that candidates share it
 */
export async function runCandidate(job: LabJob, candidate: PolicySetting, opened = openJob(job)) {
  const { policy, options } = candidate
  const own = policy.endsWith('+own') ? new OwnPolicies(job.ownOrder) : undefined
  const { results, utilization, preemptions } = await simulateLoad({
    ...opened,
    policy: () => own?.create(policy, options) ?? createPolicy(policy, options),
    slots: job.slots,
  })
  if (own?.problem !== undefined) throw own.problem
  return { ...candidate, ...summarize(results), utilization, preemptions }
}

/** The largest value, also of a list that is longer than a call's arguments may be; 0 for none. */
const largest = (values: readonly number[]): number =>
  values.reduce((most, value) => Math.max(most, value), 0)

const ttftOf = ({ request, tokenTimes }: SimulatedAnswer): number =>
  (tokenTimes[0] ?? 0) - request.arrival

/** The figures of a load's answers. */
export function summarize(results: readonly SimulatedAnswer[]) {
  const good = results.filter(
    ({ error, tokenTimes }) => error === undefined && tokenTimes.length > 0,
  )
  const rising = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b)
  const pauses = good.map(({ tokenTimes }) =>
    tokenTimes.slice(1).map((time, index) => time - (tokenTimes[index] ?? time)),
  )
  const first = results.reduce((least, { request }) => Math.min(least, request.arrival), Infinity)
  const durationMs = largest(results.map(({ endedAt = first }) => endedAt - first))
  const tokens = good.reduce((sum, { tokenTimes }) => sum + tokenTimes.length, 0)
  return {
    /** TTFTs of the requests that succeeded, ascending. */
    ttfts: rising(good.map(ttftOf)),
    /** The longest pause between two tokens of each request that succeeded, ascending. */
    longestPauses: rising(pauses.map(largest)),
    itls: rising(pauses.flat()),
    tokensPerSecond: durationMs === 0 ? 0 : (tokens / durationMs) * 1000,
    durationMs,
    /** Requests that ended with an error, except cancelled ones. */
    failed: results.filter(({ error }) => error !== undefined && error !== 'cancelled').length,
    /** The longest mean TTFT of a tenant divided by the shortest: 1 is fair. */
    unevenness: unevenness(good),
  }
}

function unevenness(good: readonly SimulatedAnswer[]): number | undefined {
  const sums = new Map<string, { ms: number; count: number }>()
  for (const answer of good) {
    const { tenant = '' } = answer.request
    const sum = sums.get(tenant) ?? { ms: 0, count: 0 }
    sums.set(tenant, { ms: sum.ms + ttftOf(answer), count: sum.count + 1 })
  }
  const means = [...sums.values()].map(({ ms, count }) => ms / count)
  return means.length < 2 ? undefined : Math.max(...means) / Math.max(0.001, Math.min(...means))
}
