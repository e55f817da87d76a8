import { defineOrder, PluginRegistry } from '@cllm/core'
import type { Order, PolicySetting, Recording, SequenceView } from '@cllm/core'
import { parseRecording, tracedRequests } from '@cllm/bench/traces'
import { builtInMachines, recordedMachine, recordedRequests, simulateLoad } from '@cllm/simulation'
import type { MachineModel, SimulatedAnswer, SimulatedRequest } from '@cllm/simulation'
import { type LabJob, madeRequests } from './lab-job.js'
import { batchings, boundedOvertaking, createPolicy, WaitingHeap } from '@cllm/scheduler'

const usual = { contextSize: 8192, batchSize: 2048 }

/**
 * Reads what a job is about, once for all candidates: what a simulation takes besides a policy and slots. Throws where
 * its file is wrong, or has too few steps to tell what one costs.
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

interface OpenedLoad {
  readonly recording?: Recording
  readonly requests: SimulatedRequest[]
}

function openLoad(load: LabJob['load']): OpenedLoad {
  if (load.kind === 'made') return { requests: madeRequests(load.load) }
  if (load.kind === 'file' && !load.isRecording) {
    return { requests: tracedRequests(load.text, load.name, load.requests) }
  }
  const recording = load.kind === 'file' ? parseRecording(load.text, load.name) : load.recording
  return { recording, requests: recordedRequests(recording) }
}

/** The longest request, rounded up to a multiple of 1,024; made loads have the usual room. */
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

/** The policies with an order that was typed in: every batching with it, as `batching+own`. */
class OwnPolicies {
  /** What went wrong in it. The engine goes on with another policy then, whose figures mean nothing. */
  problem: Error | undefined
  readonly #registry = new PluginRegistry()
  readonly #rank: (request: SequenceView) => unknown

  /**
   * @param code - an expression of `request`, such as `request.maxTokens`; it runs in a worker that has no
   *   page and no network, on the machine of who typed it
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

/** What a policy made of the load; times are milliseconds of simulated time. */
export type LabResult = Awaited<ReturnType<typeof runCandidate>>

/**
 * Runs a load through a policy, as a server's engine would, on simulated time. Throws what a policy
 * does wrong.
 *
 * @param opened - the job's, which takes a while to be read
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

/** Of a list that is longer than the arguments of a call can be; 0 of none. */
const largest = (values: readonly number[]): number =>
  values.reduce((most, value) => Math.max(most, value), 0)

const ttftOf = ({ request, tokenTimes }: SimulatedAnswer): number =>
  (tokenTimes[0] ?? 0) - request.arrival

/** What a load's answers say of it. */
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
    /** Of the requests that ended well, rising. */
    ttfts: rising(good.map(ttftOf)),
    /** The longest pause between two tokens of each of them, rising. */
    longestPauses: rising(pauses.map(largest)),
    itls: rising(pauses.flat()),
    tokensPerSecond: durationMs === 0 ? 0 : (tokens / durationMs) * 1000,
    durationMs,
    /** Requests that ended with an error; those whose client left are none of them. */
    failed: results.filter(({ error }) => error !== undefined && error !== 'cancelled').length,
    /** The longest mean TTFT of a tenant over the shortest: 1 is even. */
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
