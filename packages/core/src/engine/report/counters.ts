import { injectable } from 'tsyringe'
import type { Usage } from '../../contracts/engine/engine-client.js'
import type {
  EngineObserver,
  RequestEnd,
  StepRecord,
} from '../../contracts/engine/engine-observer.js'
import type {
  Distribution,
  EngineStatistics,
  StepStatistics,
} from '../../contracts/engine/engine-statistics.js'
import type { SequenceView } from '../../contracts/scheduling/scheduler-policy.js'
import type { CllmError } from '../../errors/cllm-error.js'
import { defined } from '../../defined.js'

/** How a request can end. */
export type EndState = 'done' | 'cancelled' | 'failed' | 'timed_out'

/** The state of a request that ended with this error, or with none. */
export function endState(error: Pick<CllmError, 'code'> | undefined): EndState {
  if (error === undefined) return 'done'
  if (error.code === 'cancelled') return 'cancelled'
  return error.code === 'timeout' ? 'timed_out' : 'failed'
}

/** Counters of an engine's work. */
type Counts = Omit<
  EngineStatistics,
  | 'waiting'
  | 'running'
  | 'slots'
  | 'policyFaults'
  | 'interruptedSteps'
  | 'recorder'
  | 'cache'
  | 'kvPool'
>

/** The fields of a step that are counted. */
export type StepTotals = Pick<
  StepRecord,
  | 'durationMs'
  | 'decodeMs'
  | 'sampleMs'
  | 'prefillTokens'
  | 'prefillSequences'
  | 'decodeSequences'
  | 'draftSequences'
  | 'draftTokens'
  | 'acceptedTokens'
>

/** Counts work since the start. */
@injectable()
export class Counters implements EngineObserver {
  readonly requests: Record<EndState, number> = { done: 0, cancelled: 0, failed: 0, timed_out: 0 }
  busyMs = 0
  readonly #composition = new StepCounters()
  readonly #prefill = new PrefillTime()
  readonly #totals = {
    promptTokens: 0,
    cachedTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    steps: 0,
    decodeMs: 0,
    sampleMs: 0,
  }
  readonly #speculation = { drafts: 0, draftTokens: 0, acceptedTokens: 0 }

  onStep(step: StepTotals): void {
    const totals = this.#totals
    this.#composition.count(step)
    this.#prefill.count(step)
    totals.steps++
    totals.decodeMs += step.decodeMs
    totals.sampleMs += step.sampleMs
    this.#speculation.drafts += step.draftSequences
    this.#speculation.draftTokens += step.draftTokens
    this.#speculation.acceptedTokens += step.acceptedTokens
  }

  onTurn(durationMs: number): void {
    this.busyMs += durationMs
  }

  onRefused(_id: string, error: CllmError): void {
    this.requests[endState(error)]++
  }

  onEnded({ preemptions }: SequenceView, { state, usage }: RequestEnd): void {
    this.countRequest(state, usage, preemptions)
  }

  /** Each request is counted once, with its last event. */
  countRequest(state: EndState, usage: Usage, preemptions: number): void {
    const totals = this.#totals
    this.requests[state]++
    totals.promptTokens += usage.promptTokens
    totals.cachedTokens += usage.cachedTokens
    totals.generatedTokens += usage.generatedTokens
    totals.preemptions += preemptions
  }

  /** All counts since the start. */
  snapshot(): Counts {
    const { requests, busyMs } = this
    const composition = this.#composition.snapshot()
    const speculation = this.#speculation.drafts > 0 ? { ...this.#speculation } : undefined
    const { ms: prefillMs } = this.#prefill
    const all = { ...this.#totals, ...composition, prefillMs, requests: { ...requests }, busyMs }
    return { ...all, ...defined({ speculation }) }
  }
}

const stepMsBounds = [1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2500, 10_000]
/** Bounds of vLLM's `iteration_tokens_total`. */
const tokenBounds = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384]
const sequenceBounds = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256]

/** Composition and duration of steps. */
class StepCounters {
  #prefillTokens = 0
  #decodeTokens = 0
  readonly #stepMs = new Tally(stepMsBounds)
  readonly #stepTokens = new Tally(tokenBounds)
  readonly #stepSequences = new Tally(sequenceBounds)

  count(step: StepTotals): void {
    const { durationMs, prefillTokens, prefillSequences, decodeSequences, draftTokens } = step
    this.#prefillTokens += prefillTokens
    this.#decodeTokens += decodeSequences + draftTokens
    this.#stepMs.add(durationMs)
    this.#stepTokens.add(prefillTokens + decodeSequences + draftTokens)
    this.#stepSequences.add(prefillSequences + decodeSequences)
  }

  snapshot(): StepStatistics {
    return {
      prefillTokens: this.#prefillTokens,
      decodeTokens: this.#decodeTokens,
      stepMs: this.#stepMs.snapshot(),
      stepTokens: this.#stepTokens.snapshot(),
      stepSequences: this.#stepSequences.snapshot(),
    }
  }
}

class Tally {
  readonly #counts: number[]
  #sum = 0

  constructor(private readonly bounds: readonly number[]) {
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  add(value: number): void {
    const found = this.bounds.findIndex((bound) => value <= bound)
    const index = found === -1 ? this.bounds.length : found
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += value
  }

  snapshot(): Distribution {
    return { bounds: this.bounds, counts: [...this.#counts], sum: this.#sum }
  }
}

/** What passes of one kind took. */
interface Passes {
  ms: number
  tokens: number
}

/** The time of the forward passes that went into prompts. */
class PrefillTime {
  #ms = 0
  /** Passes that did one of the two alone: from them it is known what a token of it takes. */
  readonly #prefill: Passes = { ms: 0, tokens: 0 }
  readonly #decode: Passes = { ms: 0, tokens: 0 }

  get ms(): number {
    return this.#ms
  }

  count({ decodeMs, prefillTokens, decodeSequences, draftTokens }: StepTotals): void {
    const decodeTokens = decodeSequences + draftTokens
    if (prefillTokens === 0) add(this.#decode, decodeMs, decodeTokens)
    else if (decodeTokens === 0) {
      add(this.#prefill, decodeMs, prefillTokens)
      this.#ms += decodeMs
    } else this.#ms += decodeMs * this.#shareOf(prefillTokens, decodeTokens)
  }

  /** The prompts' share of a pass that did both: by what each takes alone, or else by tokens. */
  #shareOf(prefillTokens: number, decodeTokens: number): number {
    const prefillMs = prefillTokens * (this.#prefill.ms / this.#prefill.tokens)
    const decodeMs = decodeTokens * (this.#decode.ms / this.#decode.tokens)
    const share = prefillMs / (prefillMs + decodeMs)
    return Number.isFinite(share) ? share : prefillTokens / (prefillTokens + decodeTokens)
  }
}

function add(passes: Passes, ms: number, tokens: number): void {
  passes.ms += ms
  passes.tokens += tokens
}
