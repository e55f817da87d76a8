import { type RequestEvent, LinearFit, defined } from '@cllm/core'
import { PromptChains, type PromptWork, sumOf, workOf } from './prompt-chains.js'

/** What a front says of a request that it places on a worker. */
export interface PlacedRequest {
  readonly id: string
  readonly promptTokens: number
  /** Hashes of the prompt's blocks. */
  readonly blocks: readonly number[]
  /** Tokens in a block; estimated where the front has only the text. */
  readonly blockTokens: number
  /** As a `RoutedRequest` has them. Default: none. */
  readonly files?: readonly number[]
  /** Tokens of an answer that has begun elsewhere. */
  readonly continuedTokens?: number
}

/** What a worker says of itself to the fronts, as JSON. Times are milliseconds. */
export interface WorkerReport {
  /** Sequences that it holds in memory. */
  readonly slots: number
  /** Requests that have not ended. */
  readonly open: number
  /** Prompt tokens of those requests. */
  readonly openTokens: number
  /** Prompt tokens of those requests that it has yet to compute. */
  readonly backlogTokens: number
  /** The same, each with the tokens before it, which it attends to. */
  readonly backlogPairs: number
  /** Images and sounds of those requests that it has yet to encode. Default: none. */
  readonly backlogFiles?: number
  /** Time that encoding one takes it, measured; undefined before the first. */
  readonly fileMs?: number
  /** Time since a request came; undefined before the first. */
  readonly idleMs?: number
  /** Time of a prompt token on the idle worker, measured; undefined before the first. */
  readonly tokenMs?: number
  /** What each other request on it adds to that, measured with it. */
  readonly besideMs?: number
  /** What each token before it adds to that, measured with it. */
  readonly pairMs?: number
  /** Time of an answer's token, measured; undefined before the first. */
  readonly stepMs?: number
  /** Time for which a request keeps a slot, measured; undefined before the first. */
  readonly serviceMs?: number
  /** The prompts in its slots, as hashes of their blocks, the last used one last. */
  readonly chains: readonly (readonly number[])[]
  /** The number of the last placement that it has seen of each front. */
  readonly seen: Readonly<Record<string, number>>
}

interface OpenRequest extends PromptWork {
  /** Its text is read and its images are encoded until it has its `start`, and only then it is computed. */
  phase: 'arriving' | 'prefilling' | 'decoding'
}

/** Weight that the sums keep with each further request. */
const memory = 0.95

/** Sums of a ratio that is learnt: the latest requests weigh most. */
class Ratio {
  #over = 0
  #under = 0

  get value(): number | undefined {
    return this.#under > 0 ? this.#over / this.#under : undefined
  }

  add(over: number, under: number): void {
    if (!(over >= 0 && under > 0)) return
    this.#over = memory * this.#over + over
    this.#under = memory * this.#under + under
  }
}

/** Prompts that are computed without a pause are one observation, or several of this many. */
const promptsAtOnce = 8

/**
 * Learns what a prompt token takes: some time, some for each other request, whose tokens share the
 * steps, and some for each token before it. Only whole stretches of work are known, as the prompts in them are computed side by side.
 */
class PromptCosts {
  readonly #fit = new LinearFit({ prior: [1, 0.15, 0.0005], memory: 0.97, outlier: 4 })
  #isMeasured = false
  #ms = 0
  #tokens = 0
  #othersMs = 0
  #pairs = 0
  #prompts = 0

  /** Some prompt was computed for this time, beside this many other requests. */
  onTime(ms: number, others: number): void {
    this.#ms += ms
    this.#othersMs += ms * others
  }

  /** A prompt of this many tokens is done; `isLast` when no other one is being computed. */
  onPrompt({ ahead, pairs }: OpenRequest, isLast: boolean): void {
    this.#tokens += ahead
    this.#pairs += pairs
    if (!isLast && ++this.#prompts < promptsAtOnce) return
    const others = this.#ms > 0 ? this.#othersMs / this.#ms : 0
    this.#fit.observe([this.#tokens, this.#tokens * others, this.#pairs], this.#ms)
    this.#isMeasured ||= this.#ms > 0
    this.#ms = this.#tokens = this.#pairs = this.#othersMs = this.#prompts = 0
  }

  /** As a report has them. */
  get figures(): Pick<WorkerReport, 'tokenMs' | 'besideMs' | 'pairMs'> {
    if (!this.#isMeasured) return {}
    const [tokenMs = 0, besideMs = 0, pairMs = 0] = this.#fit.coefficients
    return { tokenMs, besideMs, pairMs }
  }
}

/**
 * Measures a worker from the events of its requests, as routers need it: what is on it, what its slots
 * hold, and what a prompt token and a step take. It needs nothing from inside the engine, so it is the same for every
 * backend, and in a simulation.
 */
export class LoadMeter {
  readonly #open = new Map<string, OpenRequest>()
  readonly #chains: PromptChains
  readonly #seen = new Map<string, number>()
  readonly #prompts = new PromptCosts()
  readonly #step = new Ratio()
  readonly #service = new Ratio()
  readonly #encodes = new Ratio()
  /** When the encoder began with those that are next. */
  #encodesSince = 0
  #prefilling = 0
  #since = 0
  #placedAt: number | undefined

  constructor(private readonly slots: number) {
    this.#chains = new PromptChains(slots)
  }

  /** A request was placed here: `front` says so with the number of its placements. */
  onPlaced(request: PlacedRequest, front: string, placement: number, now: number): void {
    this.#seen.set(front, placement)
    this.#placedAt = now
    this.#account(now)
    const { id, promptTokens, blocks, blockTokens, continuedTokens = 0 } = request
    const cached = Math.min(promptTokens, this.#chains.held(blocks) * blockTokens)
    const ahead = Math.max(1, promptTokens - cached) + continuedTokens
    if (sumOf(this.#open.values(), 'files') === 0) this.#encodesSince = now
    this.#open.set(id, { ...workOf(request, cached, ahead), phase: 'arriving' })
    this.#chains.add(id, blocks)
  }

  /** An event of a request came. Returns whether the report changed by it. */
  onEvent(id: string, event: RequestEvent, now: number): boolean {
    const request = this.#open.get(id)
    if (request === undefined) return false
    if (event.type === 'start') {
      request.promptTokens = event.promptTokens
      if (request.phase !== 'arriving') return false
      this.#account(now)
      request.phase = 'prefilling'
      this.#prefilling++
      return this.#encoded(request, true, now)
    }
    if (event.type === 'progress') return false
    const isNews = this.#prefilled(request, event.type === 'token', now)
    if (event.type === 'token') return isNews
    this.#open.delete(id)
    this.#chains.end(id)
    if (event.type === 'end') {
      const { usage, timings } = event
      const { prefillMs, decodeMs } = timings
      this.#service.add(prefillMs + decodeMs, 1)
      this.#step.add(decodeMs, usage.generatedTokens - 1)
    }
    return true
  }

  /** A front is gone: its number starts anew. */
  forget(front: string): void {
    this.#seen.delete(front)
  }

  /** The worker now. */
  report(now: number): WorkerReport {
    const open = [...this.#open.values()]
    const ahead = open.filter(({ phase }) => phase !== 'decoding')
    const measured = [this.#step, this.#service, this.#encodes].map(({ value }) => value)
    const [stepMs, serviceMs, fileMs] = measured
    return {
      slots: this.slots,
      open: open.length,
      openTokens: sumOf(open, 'promptTokens'),
      backlogTokens: sumOf(ahead, 'ahead'),
      backlogPairs: sumOf(ahead, 'pairs'),
      backlogFiles: sumOf(ahead, 'files'),
      ...(this.#placedAt === undefined ? {} : { idleMs: now - this.#placedAt }),
      ...this.#prompts.figures,
      ...defined({ stepMs, serviceMs, fileMs }),
      chains: this.#chains.list,
      seen: Object.fromEntries(this.#seen),
    }
  }

  /**
   * Its prompt is computed, or it ended before that; false: it was known. Without a `start` nobody knows how long
   * it took.
   */
  #prefilled(request: OpenRequest, isComputed: boolean, now: number): boolean {
    const { phase } = request
    if (phase === 'decoding') return false
    this.#account(now)
    request.phase = 'decoding'
    this.#encoded(request, false, now)
    if (phase === 'arriving') return true
    this.#prefilling--
    if (isComputed) this.#prompts.onPrompt(request, this.#prefilling === 0)
    return true
  }

  /** The files that it had are encoded, or are not needed any more. Returns whether it had some. */
  #encoded(request: OpenRequest, isDone: boolean, now: number): boolean {
    const { files } = request
    if (files === 0) return false
    if (isDone) this.#encodes.add(now - this.#encodesSince, files)
    this.#encodesSince = now
    request.files = 0
    return true
  }

  #account(now: number): void {
    const others = this.#open.size - 1
    if (this.#prefilling > 0) this.#prompts.onTime(now - this.#since, others)
    this.#since = now
  }
}
