import type { ProgramReport, ProgramView } from '../../contracts/scheduling/programs.js'
import { longestPause, PauseModel } from './pause-model.js'

/** Requests that go on with each other, and how long they pause. */
export class Program implements ProgramView, ProgramReport {
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
  readonly #own: PauseModel
  /** Up to which bucket its pause was counted, among those of all and its own. */
  #counted: readonly [number, number] = [0, 0]

  /** @param all - the pauses of all programs */
  constructor(
    readonly id: string,
    readonly tenant: string,
    readonly arrival: number,
    private readonly all: PauseModel,
  ) {
    this.pausedAt = arrival
    this.#own = new PauseModel(all)
  }

  /** One of its requests came. */
  begin(now: number): void {
    if (this.isPausing(now)) {
      this.#count(now, true)
      this.pauses++
      this.pausedMs += now - this.pausedAt
    }
    this.calls++
    this.open++
  }

  /** One of its requests has ended. */
  end(served: Served, now: number): void {
    this.open--
    this.account(served)
    if (this.open > 0) return
    this.pausedAt = now
    this.#counted = [0, 0]
  }

  account({ promptTokens, cachedTokens, generatedTokens }: Served): void {
    this.promptTokens += promptTokens
    this.cachedTokens += cachedTokens
    this.generatedTokens += generatedTokens
    this.servedTokens += promptTokens - cachedTokens + generatedTokens
  }

  /** Whether it is between two of its requests, and not gone. */
  isPausing(now: number): boolean {
    return this.open === 0 && this.calls > 0 && now - this.pausedAt < longestPause
  }

  /** Returns for each millisecond that its slot waits for its next request, at best. */
  returnRate(now: number): number {
    this.#count(now, false)
    return this.#own.rate(now - this.pausedAt)
  }

  #count(now: number, hasEnded: boolean): void {
    const ms = now - this.pausedAt
    const [all, own] = this.#counted
    this.#counted = [this.all.count(ms, all, hasEnded), this.#own.count(ms, own, hasEnded)]
  }

  /** What clients are shown. */
  report(now: number): ProgramReport {
    const { id, tenant, calls, open, servedTokens, keptTokens } = this
    const { promptTokens, cachedTokens, generatedTokens, pauses, pausedMs } = this
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
      ...(this.isPausing(now) && { pausesSinceMs: now - this.pausedAt }),
    }
  }
}

/** The tokens of a request that has ended. */
export interface Served {
  readonly promptTokens: number
  readonly cachedTokens: number
  readonly generatedTokens: number
}
