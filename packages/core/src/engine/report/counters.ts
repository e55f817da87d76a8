import { injectable } from 'tsyringe'
import type { Usage } from '../../contracts/engine/generate-events.js'
import type {
  EngineObserver,
  RequestEnd,
  StepRecord,
} from '../../contracts/engine/engine-observer.js'
import type { Distribution } from '../../contracts/engine/engine-statistics.js'
import type { RecordedStep } from '../../contracts/engine/recording.js'
import type { CllmError } from '../../errors/cllm-error.js'
import { defined } from '../../defined.js'
import type { Sequence } from '../requests/sequence.js'

/** The final state of a request by its error; undefined: it is done. */
export function endState(error: Pick<CllmError, 'code'> | undefined): RequestEnd['state'] {
  if (error === undefined) return 'done'
  if (error.code === 'cancelled') return 'cancelled'
  return error.code === 'timeout' ? 'timed_out' : 'failed'
}

/** A step in the compact form in which it is sent, counted and recorded. */
export function toRecordedStep(step: StepRecord): RecordedStep {
  const chunks: [tokens: number, context: number][] = []
  for (const { tokens, context, isDecode } of step.parts) {
    if (!isDecode) chunks.push([tokens, context])
  }
  const { startedAt, durationMs, decodeMs, sampleMs } = step
  const { decodeSequences: decode, decodeContextTokens: context } = step
  const recorded = { atMs: startedAt, ms: durationMs, decodeMs, sampleMs, decode, context, chunks }
  const { draftSequences: sequences, draftTokens: tokens, acceptedTokens: accepted } = step
  return sequences === 0 ? recorded : { ...recorded, drafts: { sequences, tokens, accepted } }
}

const stepMsBounds = [1, 2, 5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2500, 10_000]
/** Bounds of vLLM's `iteration_tokens_total`. */
const tokenBounds = [1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384]
const sequenceBounds = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256]

/** Counts the work of an engine since its start, or of the engines that replaced each other. */
@injectable()
export class Counters implements EngineObserver {
  readonly requests = { done: 0, cancelled: 0, failed: 0, timed_out: 0 }
  busyMs = 0
  readonly #totals = {
    promptTokens: 0,
    cachedTokens: 0,
    generatedTokens: 0,
    preemptions: 0,
    steps: 0,
    decodeMs: 0,
    sampleMs: 0,
    prefillTokens: 0,
    decodeTokens: 0,
    prefillMs: 0,
  }
  readonly #stepMs = new Tally(stepMsBounds)
  readonly #stepTokens = new Tally(tokenBounds)
  readonly #stepSequences = new Tally(sequenceBounds)
  readonly #speculation = { drafts: 0, draftTokens: 0, acceptedTokens: 0 }
  /** Sums over passes of prompts alone and of decodes alone, for the time per token of each. */
  readonly #prefillAlone = { ms: 0, tokens: 0 }
  readonly #decodeAlone = { ms: 0, tokens: 0 }

  onStep(step: StepRecord): void {
    this.countStep(toRecordedStep(step))
  }

  /** Counts a step of an engine in another process, from its record. */
  countStep({ ms, decodeMs, sampleMs, decode, chunks, drafts }: RecordedStep): void {
    const totals = this.#totals
    const decodeTokens = decode + (drafts?.tokens ?? 0)
    let prefillTokens = 0
    for (const [tokens] of chunks) prefillTokens += tokens
    totals.steps++
    totals.decodeMs += decodeMs
    totals.sampleMs += sampleMs
    totals.prefillTokens += prefillTokens
    totals.decodeTokens += decodeTokens
    this.#stepMs.add(ms)
    this.#stepTokens.add(prefillTokens + decodeTokens)
    this.#stepSequences.add(chunks.length + decode)
    if (drafts !== undefined) {
      this.#speculation.drafts += drafts.sequences
      this.#speculation.draftTokens += drafts.tokens
      this.#speculation.acceptedTokens += drafts.accepted
    }
    if (prefillTokens > 0 && decodeTokens > 0) {
      totals.prefillMs += decodeMs * this.#prefillShare(prefillTokens, decodeTokens)
      return
    }
    const alone = prefillTokens === 0 ? this.#decodeAlone : this.#prefillAlone
    alone.ms += decodeMs
    alone.tokens += prefillTokens + decodeTokens
    if (prefillTokens > 0) totals.prefillMs += decodeMs
  }

  onTurn(durationMs: number): void {
    this.busyMs += durationMs
  }

  onRefused(_id: string, error: CllmError): void {
    this.requests[endState(error)]++
  }

  onEnded(sequence: Sequence, { state, usage, timings }: RequestEnd): void {
    const { promptHeld: promptTokens, request } = sequence
    const had = request.continued?.tokens.length
    this.countRequest(state, { ...usage, promptTokens }, timings.preemptions, had)
  }

  /**
   * Counts a request, once, at its last event.
   *
   * @param had - tokens that it brought from another engine, which are not counted; default 0
   */
  countRequest(state: RequestEnd['state'], usage: Usage, preemptions: number, had = 0): void {
    const totals = this.#totals
    this.requests[state]++
    totals.promptTokens += usage.promptTokens
    totals.cachedTokens += usage.cachedTokens
    totals.generatedTokens += usage.generatedTokens - had
    totals.preemptions += preemptions
  }

  /** All counts since the start. */
  snapshot() {
    const speculation = this.#speculation.drafts > 0 ? { ...this.#speculation } : undefined
    return {
      ...this.#totals,
      stepMs: this.#stepMs.snapshot(),
      stepTokens: this.#stepTokens.snapshot(),
      stepSequences: this.#stepSequences.snapshot(),
      requests: { ...this.requests },
      busyMs: this.busyMs,
      ...defined({ speculation }),
    }
  }

  /** The prompts' share of a mixed pass: by the time per token of each alone or, if unknown, by tokens. */
  #prefillShare(prefillTokens: number, decodeTokens: number): number {
    const prefillMs = prefillTokens * (this.#prefillAlone.ms / this.#prefillAlone.tokens)
    const decodeMs = decodeTokens * (this.#decodeAlone.ms / this.#decodeAlone.tokens)
    const share = prefillMs / (prefillMs + decodeMs)
    return Number.isFinite(share) ? share : prefillTokens / (prefillTokens + decodeTokens)
  }
}

class Tally {
  readonly #counts: number[]
  #sum = 0

  constructor(private readonly bounds: readonly number[]) {
    this.#counts = Array.from({ length: bounds.length + 1 }, () => 0)
  }

  add(value: number): void {
    let index = 0
    while (value > (this.bounds[index] ?? Infinity)) index++
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#sum += value
  }

  snapshot(): Distribution {
    return { bounds: this.bounds, counts: [...this.#counts], sum: this.#sum }
  }
}
