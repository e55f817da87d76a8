import type { Usage } from '../../contracts/engine/generate-events.js'
import type { PartingStatistics, ProgramReport } from '../../contracts/engine/engine-statistics.js'
import type { ProgramView } from '../../contracts/scheduling/scheduler-policy.js'
import { setLatest } from '../../defined.js'

/**
 * A program: requests that continue each other, and the pauses between them.
 *
 * @internal
 */
export class Program implements ProgramView {
  calls = 0
  open = 0
  servedTokens = 0
  promptTokens = 0
  cachedTokens = 0
  generatedTokens = 0
  pauses = 0
  pausedMs = 0
  partings: PartingStatistics = { prompts: 0, tokens: 0 }
  pausedAt: number
  /** The idle slot of its latest request, until another request gets it (`Slot.program`). */
  slot: { readonly length: number; readonly program?: Program | undefined } | undefined
  /** The tool that its last answer called, if known. */
  tool: string | undefined
  /** The client's hint when it returns, see `RequestScheduling`. */
  #retainMs: number | undefined
  readonly #own: PauseModel
  /** The pauses after each of its tools. */
  readonly #byTool = new Map<string, PauseModel>()
  /** The models in which the present pause is counted, each with the bucket reached; the most specific model last. */
  #counted = new Map<PauseModel, number>()

  /** @param key - under which `Programs` has it */
  constructor(
    public id: string,
    readonly tenant: string,
    readonly arrival: number,
    private readonly others: Pauses,
    public key = '',
  ) {
    this.pausedAt = arrival
    this.#own = new PauseModel([others.all])
  }

  /**
   * One of its requests arrived.
   *
   * @param tool - the tool whose result it brings; undefined: unknown
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

  /**
   * One of its requests has ended.
   *
   * @param served - the request's usage; empty: nothing was computed
   * @param tool - the tool that its answer called
   * @param retainMs - see `RequestScheduling`
   */
  end(served: Partial<Usage>, now: number, tool?: string, retainMs?: number): void {
    this.open--
    const { promptTokens = 0, cachedTokens = 0, generatedTokens = 0 } = served
    this.promptTokens += promptTokens
    this.cachedTokens += cachedTokens
    this.generatedTokens += generatedTokens
    this.servedTokens += promptTokens - cachedTokens + generatedTokens
    if (this.open > 0) return
    this.pausedAt = now
    this.tool = tool
    this.#retainMs = retainMs
    this.#counted = new Map([this.others.all, this.#own].map((model) => [model, 0]))
    if (tool !== undefined) this.#pauseFor(tool)
  }

  /** The present pause is also counted for this tool. */
  #pauseFor(tool: string): void {
    const ofAll = this.others.of(this.tenant, tool)
    const own = this.#byTool.get(tool) ?? new PauseModel([this.#own, ofAll])
    if (this.#byTool.size < mostOwnTools) this.#byTool.set(tool, own)
    for (const model of [ofAll, own]) if (!this.#counted.has(model)) this.#counted.set(model, 0)
  }

  get keptTokens(): number {
    return this.slot?.program === this ? this.slot.length : 0
  }

  /** Whether it is between two requests, and not given up as ended. */
  isPausing(now: number): boolean {
    return this.open === 0 && this.calls > 0 && now - this.pausedAt < longestPause
  }

  /** When, and how likely, its next request comes while it pauses. */
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

  /**
   * The chance that it needs an idle slot again; undefined: its latest request was in another one.
   *
   * @param ever - whether at any time; else within a second
   */
  chanceFor(slot: Program['slot'], now: number, ever: boolean): number | undefined {
    if (this.slot !== slot) return undefined
    if (ever || this.open > 0) return this.returnChance(now)
    return Math.min(1, 1000 * this.expect(now).rate)
  }

  #count(now: number, hasEnded: boolean): void {
    const ms = now - this.pausedAt
    for (const [model, bucket] of this.#counted) {
      this.#counted.set(model, model.count(ms, bucket, hasEnded))
    }
  }

  /** The program as clients see it. */
  report(now: number): ProgramReport {
    const { id, tenant, calls, open, servedTokens, keptTokens } = this
    const { promptTokens, cachedTokens, generatedTokens, pauses, pausedMs, partings, tool } = this
    const usage = { promptTokens, cachedTokens, generatedTokens }
    const counts = { calls, open, servedTokens, keptTokens, ...usage, pauses, pausedMs, partings }
    const own = { id, tenant, ...counts }
    if (!this.isPausing(now)) return own
    return { ...own, pausesSinceMs: now - this.pausedAt, ...(tool && { tool }) }
  }
}

/** The most tools of one program whose pauses are learned separately. */
const mostOwnTools = 32

/** Upper bounds of the buckets in milliseconds, doubling up to half an hour. */
const bounds: readonly number[] = Array.from({ length: 18 }, (_, index) => 16 * 2 ** index)

/** A program that pauses longer counts as ended. */
const longestPause = bounds[bounds.length - 1]!

/** The weight of the prior, as a number of pauses. */
const priorPauses = 16
/** The prior: the share of pauses that have ended by a time, of the agents of vllm-project/router#285. */
const priorEnds: readonly (readonly [ms: number, share: number])[] = [
  [16, 0.02],
  [1000, 0.8],
  [10_000, 0.88],
  [longestPause, 0.92],
]
/** The weight of each more general model, and of a client's hint, as a number of own pauses. */
const othersWeight = 4

/**
 * The distribution of the pauses between the requests of programs: for each bucket, how many pauses reached it, and how
 * many of these ended in it. A pause that has not ended, or never will, counts in the buckets that it has reached (the
 * Kaplan–Meier estimator).
 */
class PauseModel {
  readonly #reached: number[]
  readonly #ended: number[]

  /** @param others - more general models that serve as the prior; without any, published figures do */
  constructor(private readonly others: readonly PauseModel[] = []) {
    const known = others.length === 0 ? priorPauses : 0
    this.#reached = bounds.map((_, index) => known * (1 - priorShare(index - 1)))
    this.#ended = bounds.map((_, index) => known * (priorShare(index) - priorShare(index - 1)))
  }

  /**
   * Counts a pause that has lasted `ms` so far or, with `hasEnded`, in all. Returns the bucket up to which it is counted.
   *
   * @param counted - the bucket that the previous call for this pause returned; 0 at first
   */
  count(ms: number, counted: number, hasEnded: boolean): number {
    let bucket = counted
    for (; bucket < bounds.length; bucket++) {
      if (bucket > 0 && bounds[bucket - 1]! > ms) break
      this.#reached[bucket]!++
    }
    if (hasEnded && bucket > 0 && ms < longestPause) this.#ended[bucket - 1]!++
    return bucket
  }

  /**
   * The expectation for a pause that has lasted `ms`.
   *
   * @param retainMs - the client's hint after how long the pause ends at the latest; 0: never. One prior among several,
   *   ignored once that time is over
   */
  after(ms: number, retainMs?: number): Expectation {
    let [lasts, waitedMs, from, rate] = [1, 0, ms, 0]
    const told = retainMs === undefined || (retainMs > 0 && ms >= retainMs) ? undefined : retainMs
    for (let bucket = 0; bucket < bounds.length; bucket++) {
      const bound = bounds[bucket]!
      if (bound <= ms) continue
      const ends = lasts * this.#hazard(bucket, told)
      waitedMs += (lasts - ends / 2) * (bound - from)
      lasts -= ends
      from = bound
      rate = Math.max(rate, (1 - lasts) / waitedMs)
    }
    return { rate, chance: 1 - lasts }
  }

  /** The share of the pauses that reached a bucket and ended in it. */
  #hazard(bucket: number, told?: number): number {
    let [ended, reached] = [this.#ended[bucket]!, this.#reached[bucket]!]
    for (const other of this.others) {
      ended += othersWeight * other.#hazard(bucket)
      reached += othersWeight
    }
    if (told !== undefined) {
      ended += othersWeight * toldHazard(bucket, told)
      reached += othersWeight
    }
    return reached > 0 ? ended / reached : 0
  }
}

/** The expectation for a pause. */
interface Expectation {
  /**
   * The highest expected number of returns per millisecond of waiting: the chance that the pause ends within some time,
   * divided by the time waited until then, for the best choice of that time.
   */
  readonly rate: number
  /** The chance that the pause ends with another request. */
  readonly chance: number
}

/**
 * The pauses of all programs, and by tenant those after each tool.
 *
 * @internal
 */
export class Pauses {
  readonly all = new PauseModel()
  /** The pauses for each tool for which a program has paused. */
  readonly tools = new Map<string, PauseModel>()

  /** Whether some program paused for this tool. */
  knows(tenant: string, tool: string): boolean {
    return this.tools.has(JSON.stringify([tenant, tool]))
  }

  of(tenant: string, tool: string): PauseModel {
    const key = JSON.stringify([tenant, tool])
    const model = this.tools.get(key) ?? new PauseModel([this.all])
    setLatest(this.tools, key, model, mostTools)
    return model
  }
}

/** The most tools that are remembered. */
const mostTools = 1000

/** The hazard from a client's hint: evenly over the buckets up to that time, and 0 behind it. */
function toldHazard(bucket: number, told: number): number {
  const last = bounds.findIndex((bound) => bound >= told)
  const left = (told === 0 ? -1 : last === -1 ? bounds.length - 1 : last) - bucket
  return left < 0 ? 0 : 1 / (left + 1)
}

/** The prior's share of pauses that have ended by the end of a bucket, interpolated on a logarithmic scale. */
function priorShare(bucket: number): number {
  const ms = bounds[bucket] ?? 0
  let [fromMs, from] = [1, 0]
  for (const [toMs, to] of priorEnds) {
    const passed = Math.max(ms, fromMs) / fromMs
    if (ms <= toMs) return from + ((to - from) * Math.log(passed)) / Math.log(toMs / fromMs)
    ;[fromMs, from] = [toMs, to]
  }
  return from
}
