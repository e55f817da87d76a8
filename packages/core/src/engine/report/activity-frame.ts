import type {
  ActivityFrame,
  ActivitySpan,
  EndedActivity,
} from '../../contracts/engine/engine-statistics.js'
import type { StepRecord } from '../../contracts/engine/engine-observer.js'

/** The bounds of the ITL histogram grow by this factor. */
const itlBase = 1.15

/** The most entries of each kind in a frame, so that frames stay small under any load. */
const most = 500
const mostTenants = 50

/** The frame that is being written. */
export class OpenFrame {
  readonly #spans: ActivitySpan[] = []
  readonly #firstTokensMs: number[] = []
  readonly #itl = new Map<number, number>()
  readonly #tenants = new Map<string, number>()
  readonly #ended: EndedActivity[] = []
  readonly #steps = {
    count: 0,
    ms: 0,
    prefillTokens: 0,
    decodeTokens: 0,
    prefillSequences: 0,
    decodeSequences: 0,
  }

  constructor(private readonly atMs: number) {}

  get isEmpty(): boolean {
    return this.#steps.count + this.#spans.length + this.#ended.length === 0
  }

  onStep(step: StepRecord): void {
    const sums = this.#steps
    sums.count++
    sums.ms += step.durationMs
    sums.prefillTokens += step.prefillTokens
    sums.decodeTokens += step.decodeSequences + step.acceptedTokens
    sums.prefillSequences += step.prefillSequences
    sums.decodeSequences += step.decodeSequences
  }

  addSpan(span: ActivitySpan): void {
    if (this.#spans.length < most) this.#spans.push(span)
  }

  addFirstToken(ms: number): void {
    if (this.#firstTokensMs.length < most) this.#firstTokensMs.push(ms)
  }

  addPause(ms: number): void {
    const exponent = Math.max(0, Math.ceil(Math.log(ms) / Math.log(itlBase)))
    this.#itl.set(exponent, (this.#itl.get(exponent) ?? 0) + 1)
  }

  addTokens(tenant: string, tokens: number): void {
    const known = this.#tenants.get(tenant)
    if (known === undefined && this.#tenants.size >= mostTenants) return
    this.#tenants.set(tenant, (known ?? 0) + tokens)
  }

  addEnd(end: EndedActivity): void {
    if (this.#ended.length < most) this.#ended.push(end)
  }

  close(number: number, untilMs: number): ActivityFrame {
    return {
      number,
      atMs: this.atMs,
      untilMs,
      spans: this.#spans,
      steps: this.#steps,
      firstTokensMs: this.#firstTokensMs,
      itl: [...this.#itl].sort(([a], [b]) => a - b),
      tenants: Object.fromEntries(this.#tenants),
      ended: this.#ended,
    }
  }
}
