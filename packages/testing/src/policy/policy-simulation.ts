import assert from 'node:assert/strict'
import {
  type PausedProgram,
  type Plan,
  type SchedulerEvent,
  type SchedulerPolicy,
  type SchedulerState,
  checkPlan,
  type SequenceView,
  entryOf,
  Pauses,
  Program,
} from '@cllm/core'
import { SimulatedRequest, type Workload, type WorkloadRequest } from './policy-workload.js'

/**
 * What the engine does around a policy, without the engine: requests arrive, are admitted, computed
 * and end, and the policy plans and observes. Every plan is checked.
 */
export class PolicySimulation {
  now = 0
  /** Plans asked for so far. */
  plans = 0
  /** In the order in which they ended by themselves. */
  readonly done: SimulatedRequest[] = []
  /** Receives every event of the policies, except those replayed to new ones. */
  watch: OvertakingWatch | undefined
  /** Whether an admission is not carried out, as where the request waits for what another one computes. */
  defers: (id: string) => boolean = () => false
  /** Since when nothing was computed. */
  #idleSince = 0
  /** Preempted ones first, then by arrival. */
  #waiting = new Map<string, SimulatedRequest>()
  readonly #running = new Map<string, SimulatedRequest>()
  /** By tenant and session. */
  readonly #programs = new Map<string, Program>()
  readonly #pauses = new Pauses()

  /** @param policies equal instances: they get the same events and must make the same plans */
  constructor(
    private readonly machine: Pick<Workload, 'limits' | 'msPerStep' | 'msPerToken'>,
    private policies: readonly SchedulerPolicy[],
  ) {
    Object.freeze(machine.limits)
  }

  get size(): number {
    return this.#waiting.size + this.#running.size
  }

  get waitingCount(): number {
    return this.#waiting.size
  }

  /** Puts other policies in charge, as `EngineClient.setScheduler` does. */
  setPolicies(policies: readonly SchedulerPolicy[]): void {
    this.policies = policies
    const { now } = this
    for (const request of this.#running.values()) this.#tell({ type: 'admitted', request, now })
    for (const request of this.#waiting.values()) this.#tell({ type: 'queued', request, now })
  }

  arrive(workload: WorkloadRequest): void {
    const { tenant, session, arrival } = workload
    const make = () => new Program(session ?? '', tenant, arrival, this.#pauses)
    const key = JSON.stringify([tenant, session])
    const program = session === undefined ? undefined : entryOf(this.#programs, key, make)
    program?.begin(this.now)
    this.join(new SimulatedRequest(workload, program))
  }

  /** As `arrive`, for a request that is there already and was in no simulation that computed it. */
  join(request: SimulatedRequest): void {
    this.#waiting.set(request.id, request)
    this.#observe({ type: 'queued', request, now: this.now })
  }

  cancel(id: string): void {
    const request = this.#waiting.get(id) ?? this.#running.get(id)
    if (request !== undefined) this.#leave(request, 'cancelled')
  }

  /** Asks for a plan, checks it and carries it out. Time passes up to `until` when nothing runs. */
  step(until = Infinity): void {
    const plan = this.plan(this.state())
    this.#apply(plan)
    if (plan.run.length > 0) this.#compute(plan)
    else if (plan.reject.length === 0) this.now = Math.min(plan.wakeAt ?? until, until)
  }

  /** Milliseconds in which a request was there and nothing was computed, up to now. */
  get idleMs(): number {
    let oldest = this.now
    for (const { arrival } of this.#waiting.values()) oldest = Math.min(oldest, arrival)
    for (const { arrival } of this.#running.values()) oldest = Math.min(oldest, arrival)
    return this.now - Math.max(oldest, this.#idleSince)
  }

  /** The checked plan of the policies. */
  plan(state: SchedulerState): Plan {
    this.plans++
    const [plan, ...others] = this.policies.map((policy) => policy.plan(state))
    assert(plan !== undefined)
    for (const other of others) {
      // What is equal as text is equal, and known to be so much faster.
      if (JSON.stringify(other) === JSON.stringify(plan)) continue
      assert.deepEqual(other, plan, 'two policies made different plans from the same events')
    }
    const victims = new Set(this.policies.map((policy) => policy.victim?.(state)))
    assert(victims.size === 1, 'two policies named different victims from the same events')
    for (const id of victims) {
      assert(id === undefined || this.#running.has(id), `victim names a running request: "${id}"`)
    }
    const { now, freeSlots, limits } = state
    // What the engine takes no plan without …
    checkPlan(this.policies[0]!, plan, {
      waiting: this.#waiting,
      running: this.#running,
      now,
      freeSlots,
      batchSize: limits.batchSize,
    })
    // … and what it could do without.
    for (const { id, reason } of plan.reject) {
      assert(typeof reason === 'string' && reason !== '', `"${id}" is rejected without a reason`)
    }
    assert.equal(new Set(plan.preempt).size, plan.preempt.length, 'preempt names a request twice')
    return plan
  }

  /** What the policies see, frozen. */
  state(): SchedulerState {
    return Object.freeze({
      now: this.now,
      waiting: Object.freeze({
        size: this.#waiting.size,
        has: (id: string) => this.#waiting.has(id),
        [Symbol.iterator]: () => this.#waiting.values(),
      }),
      running: Object.freeze([...this.#running.values()]),
      freeSlots: this.machine.limits.slots - this.#running.size,
      limits: this.machine.limits,
      programs: Object.freeze({ paused: (now: number) => this.#paused(now) }),
    })
  }

  #paused(now: number): readonly PausedProgram[] {
    const { msPerStep, msPerToken } = this.machine
    const pausing = this.#kept().filter((program) => program.isPausing(now))
    // Each one's pause changes what the others expect: counted before, it is the same for every policy that asks.
    for (const program of pausing) program.expect(now)
    return pausing.map((program) => {
      const lossMs = msPerStep + msPerToken * program.keptTokens
      return Object.freeze({ program, lossMs, returnRate: program.expect(now).rate })
    })
  }

  /** The programs whose tokens idle slots keep. */
  #kept(): Program[] {
    return [...this.#programs.values()].filter(({ keptTokens }) => keptTokens > 0)
  }

  #apply(plan: Plan): void {
    const { now } = this
    for (const { id } of plan.reject) {
      const request = this.#waiting.get(id)
      if (request !== undefined) this.#leave(request, 'failed')
    }
    for (const id of plan.preempt) {
      const request = this.#running.get(id)
      if (request === undefined) continue
      this.#running.delete(id)
      this.#waiting = new Map([[id, request], ...this.#waiting])
      request.preempt()
      this.#observe({ type: 'preempted', request, now })
    }
    for (const id of plan.admit) {
      const request = this.#waiting.get(id)
      if (request === undefined || this.defers(id)) continue
      this.#waiting.delete(id)
      this.#running.set(id, request)
      // It goes on in the slot of its program, or takes one that is kept, if no other is free.
      if (request.program !== undefined) request.program.slot = undefined
      const kept = this.#kept()
      if (kept.length > this.machine.limits.slots - this.#running.size) kept[0]!.slot = undefined
      request.admit()
      this.#observe({ type: 'admitted', request, now })
    }
  }

  #compute(plan: Plan): void {
    const parts = plan.run.flatMap(({ id, tokens }) => {
      const request = this.#running.get(id)
      if (request === undefined) return []
      const { computedTokens: context, state } = request
      const part = { request, context, isDecode: state === 'decoding' }
      return [{ ...part, tokens: Math.min(tokens, request.remainingTokens) }]
    })
    if (parts.length === 0) {
      this.now += this.machine.msPerStep
      return
    }
    const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0)
    const decoding = parts.filter(({ isDecode }) => isDecode)
    const tokens = sum(parts.map((part) => part.tokens))
    const durationMs = this.machine.msPerStep + this.machine.msPerToken * tokens
    this.now += durationMs
    this.#idleSince = this.now
    this.#observe({
      type: 'step',
      now: this.now,
      durationMs,
      prefillTokens: tokens - decoding.length,
      decodeSequences: decoding.length,
      contextTokens: sum(parts.map(({ context }) => context)),
      parts,
    })
    for (const { request, tokens } of parts) {
      if (!request.compute(tokens)) continue
      this.done.push(request)
      this.#leave(request, 'done')
    }
  }

  #leave(request: SimulatedRequest, state: 'done' | 'cancelled' | 'failed'): void {
    this.#waiting.delete(request.id)
    const hasSlot = this.#running.delete(request.id)
    const { program, promptTokens, generatedTokens, computedTokens: length } = request
    program?.end(hasSlot ? { promptTokens, generatedTokens } : {}, this.now)
    if (program !== undefined && hasSlot) program.slot = { length, program }
    request.end(state)
    this.#observe({ type: 'finished', request, now: this.now })
  }

  #observe(event: SchedulerEvent): void {
    this.#tell(event)
    this.watch?.observe(event)
  }

  #tell(event: SchedulerEvent): void {
    for (const policy of this.policies) policy.observe?.(Object.freeze(event))
  }
}

interface Waiting {
  readonly turn: number
  /** Requests that waited when it came. */
  readonly ahead: number
  /** Tokens computed of later requests since. */
  overtaken: number
}

/** Counts how much of later requests is computed before a request gets its first slot. */
export class OvertakingWatch {
  readonly #turns = new Map<SequenceView, number>()
  readonly #waiting = new Map<SequenceView, Waiting>()

  /** @param bound - tokens, at most, by the number of requests that waited when one came */
  constructor(private readonly bound: (ahead: number) => number) {}

  /** Throws an `AssertionError` when a request is overtaken by more than the bound. */
  observe(event: SchedulerEvent): void {
    if (event.type === 'step') {
      for (const part of event.parts) this.#count(part)
    } else if (event.type !== 'queued') {
      this.#waiting.delete(event.request)
    } else if (!this.#turns.has(event.request)) {
      const turn = this.#turns.size
      this.#turns.set(event.request, turn)
      this.#waiting.set(event.request, { turn, ahead: this.#waiting.size, overtaken: 0 })
    }
  }

  #count({ request, tokens }: { readonly request: SequenceView; readonly tokens: number }): void {
    const turn = this.#turns.get(request) ?? -1
    for (const [{ id }, one] of this.#waiting) {
      if (one.turn > turn) break
      one.overtaken += tokens
      const most = this.bound(one.ahead)
      // A message for each check that holds would take most of the time.
      if (one.overtaken <= most) continue
      assert.fail(
        `${one.overtaken} tokens of later requests were computed before "${id}", which had ${one.ahead} ahead: at most ${most}`,
      )
    }
  }
}
