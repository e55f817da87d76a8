import {
  type Backend,
  type Clock,
  type Engine,
  type Forecast,
  type RequestEvent,
  type SchedulerPolicy,
  type TokenId,
  type Usage,
  CllmError,
  createEngine,
  defined,
  PluginRegistry,
  SimulatedClock,
} from '@cllm/core'
import { eventLoopTurns } from './event-loop-turn.js'
import type {
  FleetOptions,
  FleetParts,
  RequestService,
  ServiceParts,
  SimulatedTask,
} from './fleet/fleet-options.js'
import { SimulatedFleet } from './fleet/simulated-fleet.js'
import { slower } from './machine.js'
import { SimulatedBackend, type SimulatedLimits, type SimulatedStep } from './simulated-backend.js'
import { simulatedProposer } from './simulated-model.js'

/** A request of a simulated load. */
export interface SimulatedRequest extends Omit<SimulatedTask, 'sampling'> {
  readonly id: string
  /** Milliseconds of the simulated clock. */
  readonly arrival: number
  /** Token ids, or a function that makes them at arrival, which saves memory for long loads. */
  readonly prompt: readonly number[] | (() => readonly number[])
  /** Tokens drawn: no answer ends before. */
  readonly maxTokens: number
  /** Its client cancels this many milliseconds after its arrival. */
  readonly cancelAfterMs?: number
}

/** The result of a request. */
export interface SimulatedAnswer {
  readonly request: SimulatedRequest
  /** When each token reached the client, in milliseconds of the clock. */
  readonly tokenTimes: readonly number[]
  /** When it ended, be it with an error; absent where the simulation was interrupted. */
  readonly endedAt?: number
  /** The code of the error that it ended with. */
  readonly error?: string
  readonly message?: string
  readonly usage?: Usage
  /** What the engine predicted when the request joined the queue, where its `forecast` is true. */
  readonly forecast?: Forecast
}

/**
 * A load, and what serves it. Each machine has 16 slots of 4,096 tokens, and 2,048 tokens a step, unless other limits
 * are given. With an `acceptance` the engines speculate.
 */
export interface SimulationOptions extends FleetOptions, Partial<SimulatedLimits> {
  /** Called for each machine: a policy serves one engine. */
  readonly policy: () => SchedulerPolicy
  readonly requests: readonly SimulatedRequest[]
  /** A closed loop: the request that follows one that has ended, not before `now`. */
  readonly after?: (ended: SimulatedAnswer, now: number) => SimulatedRequest | undefined
  readonly seed?: number
  /**
   * A draft model guesses, whose passes take this share of the time of the machine's model. Only with
   * `acceptance`. Default: guesses take no time.
   */
  readonly draftShare?: number
  /** Policies that take over, each at its time. */
  readonly successors?: readonly { readonly at: number; readonly policy: SchedulerPolicy }[]
  /** Makes each machine's backend, which waits for its clock alone; default: a {@link SimulatedBackend}. */
  readonly createBackend?: (clock: Clock) => Backend
  /** What serves the requests. Default: the machines. */
  readonly serve?: (parts: ServiceParts) => RequestService
  /** Called for every token that is drawn. */
  readonly onToken?: (request: string, token: TokenId) => void
  /** Called for every step, with the machine's number. */
  readonly onStep?: (step: SimulatedStep, machine: number) => void
  /** Ends the simulation early. */
  readonly signal?: AbortSignal
}

/** The result of a simulation. */
export interface SimulationReport {
  /** In the order of their submission. */
  readonly results: readonly SimulatedAnswer[]
  readonly steps: number
  /** Prompt tokens computed; what a slot held is not. */
  readonly prefillTokens: number
  readonly preemptions: number
  /** How often a model left memory for another one; absent: there is one. */
  readonly swaps?: number
  /** Tokens of drafts that were verified, and those of them that were right. */
  readonly draftTokens: number
  readonly acceptedTokens: number
  /** Share of the simulated time in which the machines computed. */
  readonly utilization: number
}

/**
 * Serves a load with the real engine and policy on simulated time and a simulated machine. The same
 * load gives the same report.
 *
 * @throws `policy_failed` when a request never ends or a router fails, and what `after`, `onToken`, `onStep` or
 *   `serve` throws, which ends the simulation
 */
export async function simulateLoad(options: SimulationOptions): Promise<SimulationReport> {
  return await new SimulatedService(options).run()
}

/** What is not named. */
const usual = { slots: 16, contextSize: 4096, batchSize: 2048, seed: 1 }

type Open = { -readonly [Key in keyof SimulatedAnswer]: SimulatedAnswer[Key] } & {
  tokenTimes: number[]
}

class SimulatedService {
  readonly #options: SimulationOptions & typeof usual
  readonly #clock = new SimulatedClock()
  readonly #fleet: RequestService
  readonly #results: Open[] = []
  readonly #open = new Map<string, Open>()
  readonly #turn = eventLoopTurns()
  readonly #registry = new PluginRegistry()
  /** What a callback threw first. */
  #failure: { readonly error: unknown } | undefined

  constructor(options: SimulationOptions) {
    this.#options = { ...usual, ...defined(options) }
    const { policy: _, serve, ...fleet } = this.#options
    this.#registry.registerProposer(simulatedProposer)
    const parts: FleetParts = {
      ...fleet,
      clock: this.#clock,
      createEngine: (index) => this.#createEngine(index),
      onEvent: (id, event) => this.#take(id, event),
      isBusy: () => this.#open.size > 0,
    }
    this.#fleet = serve?.(parts) ?? new SimulatedFleet(parts)
  }

  async run(): Promise<SimulationReport> {
    const { requests, successors = [], signal } = this.#options
    for (const { at, policy } of successors) {
      this.#clock.at(at, () => {
        for (const engine of this.#fleet.engines) engine.setPolicy(policy)
      })
    }
    for (const request of requests) this.#schedule(request)
    // All that happens between two timers are promises, which are settled here. Nothing of it may wait for a
    // turn of the event loop, as texts that are tokenized in parts do: prompts are tokens.
    for (;;) {
      await this.#turn()
      if (this.#failure !== undefined) throw this.#failure.error
      const next = this.#clock.nextTimer()
      if (next === undefined || signal?.aborted === true) break
      this.#clock.advanceTo(next)
    }
    const report = this.#report()
    if (this.#open.size > 0 && signal?.aborted !== true) {
      const message = `${this.#open.size} requests did not end, and nothing is ahead: a policy, router or model scheduler holds them for ever`
      throw new CllmError('policy_failed', message)
    }
    if (this.#open.size === 0) {
      await Promise.all(Array.from(this.#fleet.engines, (engine) => engine.close()))
    }
    return report
  }

  #createEngine(index: number): Engine {
    const { policy, machine, onStep, createBackend, seed, acceptance, draftShare } = this.#options
    const { slots, contextSize, batchSize } = this.#options
    const tell = onStep && ((step: SimulatedStep) => this.#call(() => onStep(step, index)))
    const model = typeof machine === 'function' ? machine(index) : machine
    const guessing = draftShare !== undefined && acceptance !== undefined
    const small = { slots, contextSize, batchSize, acceptance: 1 }
    const speculative = guessing ? 'draft' : simulatedProposer.name
    return createEngine({
      backend:
        createBackend?.(this.#clock) ??
        new SimulatedBackend(this.#clock, model, this.#options, tell),
      ...(guessing && {
        draftBackend: new SimulatedBackend(this.#clock, slower(model, draftShare), small),
      }),
      policy: policy(),
      clock: this.#clock,
      random: { uint32: () => seed >>> 0 },
      registry: this.#registry,
      options: {
        maxQueuedRequests: Number.MAX_SAFE_INTEGER,
        speculative: acceptance === undefined ? 'off' : speculative,
      },
    })
  }

  /** The engine would take an error here for one of its own, and go on. */
  #call<T>(callback: () => T): T | undefined {
    if (this.#failure !== undefined) return undefined
    try {
      return callback()
    } catch (error) {
      this.#failure = { error }
      return undefined
    }
  }

  #schedule(request: SimulatedRequest): void {
    const result: Open = { request, tokenTimes: [] }
    this.#results.push(result)
    this.#open.set(request.id, result)
    this.#clock.at(request.arrival, () => this.#submit(request))
  }

  #submit({ id, prompt, arrival, cancelAfterMs, ...request }: SimulatedRequest): void {
    const tokens = typeof prompt === 'function' ? prompt() : prompt
    const sampling = { temperature: 0, ignoreEos: true }
    this.#call(() => this.#fleet.submit(id, tokens, { ...request, sampling }))
    if (cancelAfterMs !== undefined) {
      this.#clock.at(arrival + cancelAfterMs, () => this.#fleet.cancel(id))
    }
  }

  #take(id: string, event: RequestEvent): void {
    const result = this.#open.get(id)
    if (result === undefined) return
    if (event.type === 'start' && event.forecast !== undefined) result.forecast = event.forecast
    if (event.type === 'token') {
      result.tokenTimes.push(this.#clock.now())
      this.#call(() => this.#options.onToken?.(id, event.token))
    }
    if (event.type === 'error') {
      result.error = event.error.code
      result.message = event.error.message
    }
    if (event.type === 'end') result.usage = event.usage
    if (event.type !== 'end' && event.type !== 'error') return
    result.endedAt = this.#clock.now()
    this.#open.delete(id)
    const next = this.#call(() => this.#options.after?.(result, this.#clock.now()))
    if (next !== undefined) this.#schedule(next)
  }

  #report(): SimulationReport {
    const all = this.#fleet.statistics()
    const sum = (of: (one: (typeof all)[number]) => number) =>
      all.reduce((total, one) => total + of(one), 0)
    // deaths and drains that are still ahead do not make it longer
    const end = this.#results.reduce(
      (latest, { endedAt = this.#clock.now() }) => Math.max(latest, endedAt),
      0,
    )
    const duration = end - (this.#options.requests[0]?.arrival ?? 0)
    return {
      results: this.#results,
      steps: sum(({ steps }) => steps),
      prefillTokens: sum(({ prefillTokens }) => prefillTokens),
      preemptions: sum(({ preemptions }) => preemptions),
      ...defined({ swaps: this.#fleet.swaps }),
      draftTokens: sum(({ speculation }) => speculation?.draftTokens ?? 0),
      acceptedTokens: sum(({ speculation }) => speculation?.acceptedTokens ?? 0),
      utilization: duration > 0 ? sum(({ busyMs }) => busyMs) / duration / this.#fleet.size : 0,
    }
  }
}
