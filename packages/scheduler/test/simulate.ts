import type { Plan, RequestState, SchedulerPolicy, SequenceView } from '@cllm/core'
import { type Machine, tile } from '@cllm/scheduler/simulation'

/** A request of a simulated load. */
export interface Job {
  readonly id: string
  readonly arrival: number
  readonly promptTokens: number
  readonly maxTokens: number
  readonly stepGroup?: string
}

/** What became of a request; times in milliseconds. */
export interface Served extends Job {
  readonly admittedAt: number
  readonly firstTokenMs: number
  /** From each token to the next. */
  readonly gapsMs: readonly number[]
  readonly endedAt: number
}

/** A load and the machine that serves it. */
export interface Simulation {
  readonly policy: SchedulerPolicy
  readonly machine: Machine
  readonly slots: number
  readonly batchSize?: number
  readonly jobs: readonly Job[]
  /** The next request of a client whose last one ended. */
  readonly after?: (served: Served) => Job | undefined
  /** Told of every plan. */
  readonly onPlan?: (plan: Plan, now: number) => void
}

class Sequence implements SequenceView {
  state: RequestState = 'queued'
  readonly priority = 0
  readonly deadline = undefined
  readonly tenant = ''
  readonly session = undefined
  readonly preemptions = 0
  generatedTokens = 0
  computedTokens = 0
  slot = -1
  admittedAt = 0
  readonly tokenTimes: number[] = []

  constructor(readonly job: Job) {}

  get id(): string {
    return this.job.id
  }

  get arrival(): number {
    return this.job.arrival
  }

  get promptTokens(): number {
    return this.job.promptTokens
  }

  get maxTokens(): number {
    return this.job.maxTokens
  }

  get stepGroup(): string | undefined {
    return this.job.stepGroup
  }

  get remainingTokens(): number {
    return this.promptTokens + this.generatedTokens - this.computedTokens
  }

  served(): Served {
    const [first = 0] = this.tokenTimes
    const gapsMs = this.tokenTimes
      .slice(1)
      .map((time, index) => time - (this.tokenTimes[index] ?? 0))
    const endedAt = this.tokenTimes.at(-1) ?? 0
    const { job, admittedAt } = this
    return { ...job, admittedAt, firstTokenMs: first - job.arrival, gapsMs, endedAt }
  }
}

/** What the engine does between two steps. */
const overheadMs = 1

/**
 * Serves a load with a policy on a simulated machine, as the engine would.
 *
 * @throws Error for a plan that the engine would refuse
 */
export function simulate(simulation: Simulation): Served[] {
  const { policy, machine, slots, batchSize = 2048 } = simulation
  const limits = { slots, contextSize: 4096, batchSize, chunkMultiple: tile }
  const arrivals = [...simulation.jobs]
  const waiting = new Map<string, Sequence>()
  const running = new Map<string, Sequence>()
  const served: Served[] = []
  let now = 0

  function takeArrivals(): void {
    arrivals.sort((one, other) => one.arrival - other.arrival)
    while (arrivals[0] !== undefined && arrivals[0].arrival <= now) {
      const request = new Sequence(arrivals[0])
      arrivals.shift()
      waiting.set(request.id, request)
      policy.observe?.({ type: 'queued', request, now: request.arrival })
    }
  }

  function admit(id: string): void {
    const request = waiting.get(id)
    if (request === undefined) throw new Error(`"${id}" is admitted and does not wait`)
    if (running.size === slots) throw new Error(`"${id}" is admitted without a free slot`)
    const used = new Set([...running.values()].map((other) => other.slot))
    request.slot = 0
    while (used.has(request.slot)) request.slot++
    request.state = 'prefilling'
    request.admittedAt = now
    waiting.delete(id)
    running.set(id, request)
    policy.observe?.({ type: 'admitted', request, now })
  }

  function partsOf(plan: Plan): { request: Sequence; tokens: number }[] {
    const parts = plan.run.map(({ id, tokens }) => {
      const request = running.get(id)
      if (request === undefined) throw new Error(`"${id}" is to run and has no slot`)
      if (!Number.isInteger(tokens) || tokens < 1) throw new Error(`"${id}" runs ${tokens} tokens`)
      return { request, tokens: Math.min(tokens, request.remainingTokens) }
    })
    const total = parts.reduce((sum, { tokens }) => sum + tokens, 0)
    if (total > batchSize) throw new Error(`a step has ${total} tokens`)
    if (new Set(plan.run.map(({ id }) => id)).size < parts.length) throw new Error('one runs twice')
    const groups = new Set(parts.map(({ request }) => request.stepGroup))
    if (groups.size > 1) throw new Error('a step has two groups')
    return parts
  }

  function end(request: Sequence): void {
    running.delete(request.id)
    request.state = 'done'
    request.computedTokens = 0
    policy.observe?.({ type: 'finished', request, now })
    const result = request.served()
    served.push(result)
    const following = simulation.after?.(result)
    if (following !== undefined) arrivals.push(following)
  }

  function run(parts: readonly { request: Sequence; tokens: number }[]): void {
    const shares = parts.map(({ request, tokens }) => {
      return { request, slot: request.slot, tokens, context: request.computedTokens }
    })
    const durationMs = machine(shares)
    now += durationMs
    let prefillTokens = 0
    let decodeSequences = 0
    let contextTokens = 0
    for (const { request, tokens } of parts) {
      if (request.state === 'decoding') decodeSequences++
      else prefillTokens += tokens
      contextTokens += request.computedTokens
      request.computedTokens += tokens
      if (request.remainingTokens > 0) continue
      request.state = 'decoding'
      request.generatedTokens++
      request.tokenTimes.push(now)
      if (request.generatedTokens === request.maxTokens) end(request)
    }
    const work = { durationMs, prefillTokens, decodeSequences, contextTokens, parts: shares }
    policy.observe?.({ type: 'step', now, ...work })
    now += overheadMs
  }

  while (arrivals.length + waiting.size + running.size > 0) {
    takeArrivals()
    const next = arrivals[0]?.arrival ?? Infinity
    if (waiting.size + running.size === 0) {
      now = next
      continue
    }
    const plan = policy.plan({
      now,
      waiting: {
        size: waiting.size,
        has: (id) => waiting.has(id),
        [Symbol.iterator]: () => waiting.values(),
      },
      running: [...running.values()],
      freeSlots: slots - running.size,
      limits,
    })
    simulation.onPlan?.(plan, now)
    for (const id of plan.admit) admit(id)
    const parts = partsOf(plan)
    if (parts.length > 0) run(parts)
    else if (plan.wakeAt !== undefined && plan.wakeAt > now) now = Math.min(plan.wakeAt, next)
    else throw new Error('nothing runs and nothing will')
  }
  return served
}
