import { type RequestEvent, LinearFit, defined } from '@cllm/core'
import { PromptChains, type PromptWork, sumOf, workOf } from './prompt-chains.js'

/** A request as a front announces it to a worker. */
export interface PlacedRequest {
  readonly id: string
  readonly promptTokens: number
  /** Hashes of the prompt's blocks. */
  readonly blocks: readonly number[]
  /** Tokens per block; estimated if the front has only the text. */
  readonly blockTokens: number
  /** The ends of its files, as in `RoutedRequest`. Default: none. */
  readonly files?: readonly number[]
  /** Tokens of its answer that another worker has generated. */
  readonly continuedTokens?: number
}

/** A worker's report to the fronts, as JSON. Times are milliseconds. */
export interface WorkerReport {
  /** Requests that it can compute at once. */
  readonly slots: number
  /** Requests in flight. */
  readonly open: number
  /** Prompt tokens of these requests. */
  readonly openTokens: number
  /** Prompt tokens of these requests that are still to be computed. */
  readonly backlogTokens: number
  /** The sum over these tokens of the number of tokens before each, to which it attends. */
  readonly backlogPairs: number
  /** Images and sounds of these requests that are still to be encoded. Default: none. */
  readonly backlogFiles?: number
  /** Measured time to encode a file; undefined before the first. */
  readonly fileMs?: number
  /** Time since the last request arrived; undefined before the first. */
  readonly idleMs?: number
  /** Measured time per prompt token on the idle worker; undefined before the first. */
  readonly tokenMs?: number
  /** The time that each other request adds to `tokenMs`. */
  readonly besideMs?: number
  /** The time that each token before it adds to `tokenMs`. */
  readonly pairMs?: number
  /** Measured time per token of an answer; undefined before the first. */
  readonly stepMs?: number
  /** Measured time that a request keeps a slot; undefined before the first. */
  readonly serviceMs?: number
  /** The prompts in its slots, as hashes of their blocks, the most recently used last. */
  readonly chains: readonly (readonly number[])[]
  /** By front: the number of the last placement that it has seen. */
  readonly seen: Readonly<Record<string, number>>
}

interface OpenRequest extends PromptWork {
  /** `arriving` until its `start` event: until then its text is tokenized and its images are encoded. */
  phase: 'arriving' | 'prefilling' | 'decoding'
}

/** The factor by which sums decay with each further request. */
const memory = 0.95

/** A learned ratio, in which recent requests weigh most. */
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

/** An observation ends when no prompt is being computed, or after this many prompts. */
const promptsAtOnce = 8

/**
 * Learns the time per prompt token: a fixed part, a part for each other request, whose tokens share the steps, and a part
 * for each token before it. Only whole stretches of work can be observed, as their prompts are computed side by side.
 */
class PromptCosts {
  readonly #fit = new LinearFit({ prior: [1, 0.15, 0.0005], memory: 0.97, outlier: 4 })
  #isMeasured = false
  #ms = 0
  #tokens = 0
  #othersMs = 0
  #pairs = 0
  #prompts = 0

  /** Prompts were being computed for this time, beside this many other requests. */
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

  /** The learned costs, as a report has them. */
  get figures(): Pick<WorkerReport, 'tokenMs' | 'besideMs' | 'pairMs'> {
    if (!this.#isMeasured) return {}
    const [tokenMs = 0, besideMs = 0, pairMs = 0] = this.#fit.coefficients
    return { tokenMs, besideMs, pairMs }
  }
}

/**
 * Measures a worker for routers, from the events of its requests: its load, the contents of its slots, and the time per
 * prompt token and per step. It needs nothing from inside the engine, so it works with every backend, and in simulations.
 */
export class LoadMeter {
  readonly #open = new Map<string, OpenRequest>()
  readonly #chains: PromptChains
  readonly #seen = new Map<string, number>()
  readonly #prompts = new PromptCosts()
  readonly #step = new Ratio()
  readonly #service = new Ratio()
  readonly #encodes = new Ratio()
  /** When the encoder began with the files that are still waiting. */
  #encodesSince = 0
  #prefilling = 0
  #since = 0
  #placedAt: number | undefined

  constructor(private readonly slots: number) {
    this.#chains = new PromptChains(slots)
  }

  /** A request was placed here by `front`, as its placement with this number. */
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

  /** Takes in an event of a request. Returns whether it changed the report. */
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
   * Its prompt is computed, or it has ended before that; false if that was known. Nothing is learned about a request
   * without a `start`, as its prompt's time is unknown.
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

  /** Its files are encoded, or no longer needed. Returns whether it had any. */
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
