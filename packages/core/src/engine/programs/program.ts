import type { Usage } from '../../contracts/engine/generate-events.js'
import type { ProgramReport, ProgramView } from '../../contracts/scheduling/scheduler-policy.js'
import { type Expectation, longestPause, PauseModel, type Pauses } from './pause-model.js'

/** Requests that go on with each other, and how long they pause. */
export class Program implements ProgramView {
  calls = 0
  open = 0
  servedTokens = 0
  promptTokens = 0
  cachedTokens = 0
  generatedTokens = 0
  pauses = 0
  pausedMs = 0
  pausedAt: number
  keptTokens = 0
  /** The tool that its last answer called, as far as that is known. */
  tool: string | undefined
  /** How soon it comes back, as its client has told. */
  #retainMs: number | undefined
  readonly #own: PauseModel
  /** Its pauses after each of its tools. */
  readonly #byTool = new Map<string, PauseModel>()
  /** Among which pauses its present one is counted, and up to which bucket; the most like it last. */
  #counted = new Map<PauseModel, number>()

  constructor(
    readonly id: string,
    readonly tenant: string,
    readonly arrival: number,
    private readonly others: Pauses,
  ) {
    this.pausedAt = arrival
    this.#own = new PauseModel([others.all])
  }

  /**
   * One of its requests came.
   *
   * @param tool - whose result it brings; undefined: it is not known
   */
  begin(now: number, tool?: string): void {
    if (this.isPausing(now)) {
      if (tool !== undefined) this.#pauseFor(tool)
      this.#count(now, true)
      this.pauses++
      this.pausedMs += now - this.pausedAt
    }
    this.calls++
    this.open++
  }

  /** One of its requests has ended. */
  end(served: Usage, now: number, { tool, retainMs }: PauseHints = {}): void {
    this.open--
    this.account(served)
    if (this.open > 0) return
    this.pausedAt = now
    this.tool = tool
    this.#retainMs = retainMs
    this.#counted = new Map([this.others.all, this.#own].map((model) => [model, 0]))
    if (tool !== undefined) this.#pauseFor(tool)
  }

  /** Its pause counts among those of a tool, too. */
  #pauseFor(tool: string): void {
    const ofAll = this.others.of(this.tenant, tool)
    const own = this.#byTool.get(tool) ?? new PauseModel([this.#own, ofAll])
    if (this.#byTool.size < mostTools) this.#byTool.set(tool, own)
    for (const model of [ofAll, own]) if (!this.#counted.has(model)) this.#counted.set(model, 0)
  }

  account({ promptTokens, cachedTokens, generatedTokens }: Usage): void {
    this.promptTokens += promptTokens
    this.cachedTokens += cachedTokens
    this.generatedTokens += generatedTokens
    this.servedTokens += promptTokens - cachedTokens + generatedTokens
  }

  /** Whether it is between two of its requests, and not gone. */
  isPausing(now: number): boolean {
    return this.open === 0 && this.calls > 0 && now - this.pausedAt < longestPause
  }

  /** When, and whether, its next request is to be expected while it pauses. */
  expect(now: number): Expectation {
    this.#count(now, false)
    const model = [...this.#counted.keys()].at(-1) ?? this.#own
    return model.after(now - this.pausedAt, this.#retainMs)
  }

  /** The chance that it has another request. */
  returnChance(now: number): number {
    if (this.open > 0) return 1
    return this.isPausing(now) ? this.expect(now).chance : 0
  }

  #count(now: number, hasEnded: boolean): void {
    const ms = now - this.pausedAt
    for (const [model, bucket] of this.#counted) {
      this.#counted.set(model, model.count(ms, bucket, hasEnded))
    }
  }

  /** What clients are shown. */
  report(now: number): ProgramReport {
    const { id, tenant, calls, open, servedTokens, keptTokens } = this
    const { promptTokens, cachedTokens, generatedTokens, pauses, pausedMs, tool } = this
    return {
      id,
      tenant,
      calls,
      open,
      servedTokens,
      keptTokens,
      promptTokens,
      cachedTokens,
      generatedTokens,
      pauses,
      pausedMs,
      ...(this.isPausing(now) && { pausesSinceMs: now - this.pausedAt, ...(tool && { tool }) }),
    }
  }
}

/** Tools of one program whose pauses are told apart. */
const mostTools = 32

/** What is known of a pause when it begins. */
export interface PauseHints {
  /** The tool that the answer called. */
  readonly tool?: string | undefined
  /** See `RequestScheduling`. */
  readonly retainMs?: number | undefined
}
