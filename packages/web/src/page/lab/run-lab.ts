import type { Recording } from '@cllm/core'
import { createPolicy } from '@cllm/scheduler'
import {
  builtInMachines,
  type MachineModel,
  recordedMachine,
  recordedRequests,
  simulateLoad,
  type SimulatedAnswer,
  type SimulatedRequest,
} from '@cllm/simulation'
import { type MadeLoad, madeRequests } from './made-load.js'
import { OwnPolicies } from './own-order.js'

/** A policy to try. */
export interface Candidate {
  readonly policy: string
  readonly options: Readonly<Record<string, unknown>>
}

/** What the lab is to do. */
export interface LabJob {
  /** The last minutes of a server, or a made load. */
  readonly load:
    | { readonly kind: 'recording'; readonly recording: Recording }
    | { readonly kind: 'made'; readonly load: MadeLoad }
  /** A built-in machine's name, or `recorded`: as the steps of the recording took. */
  readonly machine: string
  readonly slots: number
  /** The rank of a request in the order `own`, as code; the lowest goes first. */
  readonly ownOrder: string
  readonly candidates: readonly Candidate[]
}

/** What a policy made of the load; times are milliseconds of simulated time. */
export interface LabResult extends Candidate {
  /** Of the requests that ended well, rising. */
  readonly ttfts: readonly number[]
  /** The longest pause between two tokens of each of them, rising. */
  readonly longestPauses: readonly number[]
  readonly itls: readonly number[]
  readonly tokensPerSecond: number
  readonly durationMs: number
  readonly utilization: number
  readonly preemptions: number
  readonly failed: number
  /** The longest mean TTFT of a tenant over the shortest: 1 is even. */
  readonly unevenness: number | undefined
}

/**
 * Runs a load through a policy, as a server's engine would, on simulated time. Throws what a policy
 * does wrong.
 *
 * @param machine - that of the job, which takes a while to be fitted to a recording
 */
export async function runCandidate(
  job: LabJob,
  candidate: Candidate,
  machine = machineOf(job),
): Promise<LabResult> {
  const { policy, options } = candidate
  const own = policy.endsWith('+own') ? new OwnPolicies(job.ownOrder) : undefined
  const requests = requestsOf(job)
  const limits = job.load.kind === 'recording' ? job.load.recording.limits : undefined
  const { results, utilization, preemptions } = await simulateLoad({
    policy: () => own?.create(policy, options) ?? createPolicy(policy, options),
    machine,
    requests,
    slots: job.slots,
    contextSize: limits?.contextSize ?? 8192,
    batchSize: Math.max(limits?.batchSize ?? 2048, job.slots),
  })
  if (own?.problem !== undefined) throw own.problem
  return { ...candidate, ...summarize(results), utilization, preemptions }
}

function requestsOf({ load }: LabJob): SimulatedRequest[] {
  if (load.kind === 'made') return madeRequests(load.load)
  const requests = recordedRequests(load.recording)
  if (requests.length === 0) throw new Error('The recording has no requests yet')
  return requests
}

/** The machine that a job is to run on. Throws where a recording has too few steps to tell. */
export function machineOf({ machine, load }: LabJob): MachineModel {
  if (load.kind === 'recording' && machine === 'recorded') {
    return recordedMachine(load.recording, 'The recording')
  }
  const known = builtInMachines.get(machine)
  if (known === undefined) throw new Error(`There is no machine ${machine}`)
  return known
}

function summarize(results: readonly SimulatedAnswer[]) {
  const good = results.filter(
    ({ error, tokenTimes }) => error === undefined && tokenTimes.length > 0,
  )
  const rising = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b)
  const pauses = good.map(({ tokenTimes }) =>
    tokenTimes.slice(1).map((time, index) => time - (tokenTimes[index] ?? time)),
  )
  const ttftOf = ({ request, tokenTimes }: SimulatedAnswer): number =>
    (tokenTimes[0] ?? 0) - request.arrival
  const first = Math.min(...results.map(({ request }) => request.arrival))
  const durationMs = Math.max(0, ...results.map(({ endedAt = first }) => endedAt - first))
  const tokens = good.reduce((sum, { tokenTimes }) => sum + tokenTimes.length, 0)
  return {
    ttfts: rising(good.map(ttftOf)),
    longestPauses: rising(pauses.map((each) => Math.max(0, ...each))),
    itls: rising(pauses.flat()),
    tokensPerSecond: durationMs === 0 ? 0 : (tokens / durationMs) * 1000,
    durationMs,
    failed: results.length - good.length,
    unevenness: unevenness(good, ttftOf),
  }
}

function unevenness(
  good: readonly SimulatedAnswer[],
  ttftOf: (answer: SimulatedAnswer) => number,
): number | undefined {
  const sums = new Map<string, { ms: number; count: number }>()
  for (const answer of good) {
    const { tenant = '' } = answer.request
    const sum = sums.get(tenant) ?? { ms: 0, count: 0 }
    sums.set(tenant, { ms: sum.ms + ttftOf(answer), count: sum.count + 1 })
  }
  const means = [...sums.values()].map(({ ms, count }) => ms / count)
  return means.length < 2 ? undefined : Math.max(...means) / Math.max(0.001, Math.min(...means))
}
