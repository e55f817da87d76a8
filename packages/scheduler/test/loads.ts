import type { Plan, SchedulerPolicy } from '@cllm/core'
import { type Machine, type SimulatedAnswer, simulateLoad, tile } from '@cllm/simulation'

/** A request of which only lengths matter: no two prompts have a token in common. */
export interface Job {
  readonly id: string
  readonly arrival: number
  readonly promptTokens: number
  readonly maxTokens: number
  readonly stepGroup?: string
  readonly priority?: number
}

/** What became of a request; times in milliseconds. */
export interface Served {
  readonly id: string
  readonly maxTokens: number
  readonly firstTokenMs: number
  /** From each token to the next. */
  readonly gapsMs: readonly number[]
  readonly endedAt: number
}

/** Which policy serves a load on which machine. */
export interface Serving {
  readonly policy: SchedulerPolicy
  readonly machine: Machine
  /** Told of every plan. */
  readonly onPlan?: (plan: Plan) => void
}

interface Load {
  readonly jobs: readonly Job[]
  readonly slots: number
  readonly batchSize?: number
  /** The next request of a client whose last one ended. */
  readonly after?: (served: Served) => Job | undefined
}

/** Serves requests of these lengths; what was served is in the order of their arrival. */
export async function serve({ policy, machine, onPlan }: Serving, load: Load): Promise<Served[]> {
  const { jobs, slots, batchSize = 2048, after } = load
  let made = 0
  const request = ({ promptTokens, ...job }: Job) => {
    const number = ++made
    return { ...job, prompt: Array.from({ length: promptTokens }, () => number) }
  }
  const watched: SchedulerPolicy = {
    name: policy.name,
    plan(state) {
      const plan = policy.plan(state)
      onPlan?.(plan)
      return plan
    },
    observe: (event) => policy.observe?.(event),
  }
  const { results } = await simulateLoad({
    policy: () => watched,
    machine: { name: '', about: '', stepMs: machine, copyMs: () => 0, chunkMultiple: tile },
    requests: jobs.map(request),
    slots,
    batchSize,
    after(ended) {
      const job = after?.(servedOf(ended))
      return job && request(job)
    },
  })
  return results.map(servedOf)
}

function servedOf({ request, tokenTimes, error, endedAt = NaN }: SimulatedAnswer): Served {
  const { id, arrival, maxTokens } = request
  if (error !== undefined) throw new Error(`${id} ended with ${error}`)
  const gapsMs = tokenTimes.slice(1).map((time, index) => time - (tokenTimes[index] ?? NaN))
  return { id, maxTokens, firstTokenMs: (tokenTimes[0] ?? NaN) - arrival, gapsMs, endedAt }
}

/** A closed loop: clients that each send their next request when the last one has ended. */
export interface ClosedLoop {
  readonly clients: number
  readonly requestsEach: number
  /** Prompt lengths, in turn. */
  readonly promptTokens: readonly number[]
  readonly maxTokens: number
  /** From the end of an answer to the next request. */
  readonly returnMs: number
}

/** Serves a closed loop in 16 slots. */
export async function serveClosedLoop(serving: Serving, load: ClosedLoop): Promise<Served[]> {
  let made = 0
  const request = (client: number, round: number, arrival: number): Job => {
    const promptTokens = load.promptTokens[made++ % load.promptTokens.length] ?? 1
    return { id: `${client}-${round}`, arrival, promptTokens, maxTokens: load.maxTokens }
  }
  return await serve(serving, {
    slots: 16,
    jobs: Array.from({ length: load.clients }, (_, client) => request(client, 0, client * 0.3)),
    after({ id, endedAt }) {
      const [client = 0, round = 0] = id.split('-').map(Number)
      const arrival = endedAt + load.returnMs + (made % 7) / 7
      return round + 1 < load.requestsEach ? request(client, round + 1, arrival) : undefined
    },
  })
}

/** Four streams decode, and then a prompt of 1,800 tokens arrives. */
export async function serveIntruder(serving: Serving) {
  const streams = [0, 1, 2, 3].map((arrival) => {
    return { id: `stream ${arrival}`, arrival, promptTokens: 40, maxTokens: 400 }
  })
  const intruder = { id: 'intruder', arrival: 2000, promptTokens: 1800, maxTokens: 24 }
  const served = await serve(serving, { slots: 16, jobs: [...streams, intruder] })
  const found = served.find(({ id }) => id === 'intruder')
  if (found === undefined) throw new Error('the intruder was not served')
  return { streams: served.filter((other) => other !== found), intruder: found }
}

/** Tokens per second over the whole load. */
export function throughput(served: readonly Served[]): number {
  const tokens = served.reduce((sum, { maxTokens }) => sum + maxTokens, 0)
  return (1000 * tokens) / Math.max(...served.map(({ endedAt }) => endedAt))
}

/** The middle of the times to the first token. */
export function medianFirstToken(served: readonly Served[]): number {
  const sorted = served.map(({ firstTokenMs }) => firstTokenMs).sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}

/** The longest time between two tokens of a request. */
export function largestGap(served: readonly Served[]): number {
  return Math.max(...served.flatMap(({ gapsMs }) => gapsMs))
}
