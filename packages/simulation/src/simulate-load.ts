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
  /** Time of arrival, in milliseconds of the simulated clock. */
  readonly arrival: number
  /** Token ids, or a function that makes them at arrival, which saves memory for long loads. */
  readonly prompt: readonly number[] | (() => readonly number[])
  /** Tokens of the answer, which never ends earlier. */
  readonly maxTokens: number
  /** Its client cancels this many milliseconds after its arrival. */
  readonly cancelAfterMs?: number
}

/** The result of a request. */
export interface SimulatedAnswer {
  readonly request: SimulatedRequest
  /** When each token reached the client, in milliseconds of the clock. */
  readonly tokenTimes: readonly number[]
  /** When the request ended, also with an error; absent where the simulation was interrupted before. */
  readonly endedAt?: number
  /** The code of the error that the request ended with. */
  readonly error?: string
  readonly message?: string
  readonly usage?: Usage
  /** What the engine predicted when the request joined the queue, where its `forecast` is true. */
  readonly forecast?: Forecast
}

/**
 * A load, and the machines that serve it. Each machine has 16 slots of 4,096 tokens and takes 2,048 tokens a
 * step, unless other limits are given. With an `acceptance` the engines speculate.
 */
export interface SimulationOptions extends FleetOptions, Partial<SimulatedLimits> {
  /** Makes the policy of each machine: a policy serves one engine. */
  readonly policy: () => SchedulerPolicy
  readonly requests: readonly SimulatedRequest[]
  /** For a closed loop: makes the request that follows one that has ended, with an `arrival` from `now` on. */
  readonly after?: (ended: SimulatedAnswer, now: number) => SimulatedRequest | undefined
  readonly seed?: number
  /**
   * Passes of the draft model take this share of the time of the machine's model. Only with `acceptance`.
   * Default: there is no draft model, and drafts take no time.
   */
  readonly draftShare?: number
  /** Policies that replace the running one, each at the millisecond `at`. */
  readonly successors?: readonly { readonly at: number; readonly policy: SchedulerPolicy }[]
  /** Makes each machine's backend, which may wait for the clock only; default: a {@link SimulatedBackend}. */
  readonly createBackend?: (clock: Clock) => Backend
  /** Makes the service of the requests. Default: a fleet of the machines. */
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
  /** One for each request, in the order of submission. */
  readonly results: readonly SimulatedAnswer[]
  readonly steps: number
  /** Prompt tokens computed; tokens found in a slot's cache are not counted. */
  readonly prefillTokens: number
  readonly preemptions: number
  /** How often a model was unloaded for another one; absent where there is only one model. */
  readonly swaps?: number
  /** Draft tokens that were verified; `acceptedTokens` of them were accepted. */
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

/** Defaults of the options. */
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
  /** The first error that a callback threw. */
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
    // Between two timers, work waits for promises only, which are settled here. None of it may wait for a turn
    // of the event loop, as the tokenizing of long texts does: prompts are tokens.
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

  /** Runs a callback of the options and keeps its error: the engine would catch it as its own, and go on. */
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
    // deaths and drains after the last request do not count
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
