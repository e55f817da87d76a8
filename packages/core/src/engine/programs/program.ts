import type { Usage } from '../../contracts/engine/generate-events.js'
import type { ProgramReport, ProgramView } from '../../contracts/scheduling/scheduler-policy.js'
import { setLatest } from '../../defined.js'

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

  /**
   * One of its requests has ended.
   *
   * @param served - empty: nothing of it was computed
   * @param tool - that its answer called
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

  /** Its pause counts among those of a tool, too. */
  #pauseFor(tool: string): void {
    const ofAll = this.others.of(this.tenant, tool)
    const own = this.#byTool.get(tool) ?? new PauseModel([this.#own, ofAll])
    if (this.#byTool.size < mostOwnTools) this.#byTool.set(tool, own)
    for (const model of [ofAll, own]) if (!this.#counted.has(model)) this.#counted.set(model, 0)
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
    const usage = { promptTokens, cachedTokens, generatedTokens }
    const own = { id, tenant, calls, open, servedTokens, keptTokens, ...usage, pauses, pausedMs }
    if (!this.isPausing(now)) return own
    return { ...own, pausesSinceMs: now - this.pausedAt, ...(tool && { tool }) }
  }
}

/** Tools of one program whose pauses are told apart. */
const mostOwnTools = 32

/** Upper bounds of the buckets, in milliseconds: each twice the one before, up to half an hour. */
const bounds: readonly number[] = Array.from({ length: 18 }, (_, index) => 16 * 2 ** index)

/** After this long a program counts as gone. */
const longestPause = bounds[bounds.length - 1]!

/** What is known before anything was seen: that many pauses … */
const priorPauses = 16
/** … of which such a share was over by a time, of the agents of vllm-project/router#285. */
const priorEnds: readonly (readonly [ms: number, share: number])[] = [
  [16, 0.02],
  [1000, 0.8],
  [10_000, 0.88],
  [longestPause, 0.92],
]
/** What each of the others does, or a client has told, counts as much as this many pauses of one's own. */
const othersWeight = 4

/**
 * The distribution of pauses between the requests of programs: for each of some bounds, how many pauses
 * lasted until the one before it, and how many of these ended before it. A pause that has not ended, or never
 * will, counts as far as it has lasted (as in Kaplan and Meier's estimate).
 */
class PauseModel {
  readonly #reached: number[]
  readonly #ended: number[]

  /** @param others - what its own pauses may be like, while they are few; without any: what is published */
  constructor(private readonly others: readonly PauseModel[] = []) {
    const known = others.length === 0 ? priorPauses : 0
    this.#reached = bounds.map((_, index) => known * (1 - priorShare(index - 1)))
    this.#ended = bounds.map((_, index) => known * (priorShare(index) - priorShare(index - 1)))
  }

  /**
   * A pause lasts or, where it `hasEnded`, has lasted so long; returns the bucket up to which it was counted.
   *
   * @param counted - what this returned for the same pause before; 0: nothing yet
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
   * What is to be expected of a pause of so long.
   *
   * @param retainMs - after how long at the latest it is over, as the client has told; 0: never. One prior of
   *   several, which says nothing any more when that time is over
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

  /** The share of the pauses that lasted until a bucket which ended in it. */
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

/** What is to be expected of a pause. */
interface Expectation {
  /**
   * How many returns a millisecond of waiting for one brings, at best: the chance that it ends within some time by
   * the time that is waited then, with the time that makes the most of it.
   */
  readonly rate: number
  /** The chance that it ends at all. */
  readonly chance: number
}

/** The pauses of all programs, and of each tenant's after the tools that they call. */
export class Pauses {
  readonly all = new PauseModel()
  readonly #tools = new Map<string, PauseModel>()

  get hasTools(): boolean {
    return this.#tools.size > 0
  }

  /** Whether some program paused for this tool. */
  knows(tenant: string, tool: string): boolean {
    return this.#tools.has(JSON.stringify([tenant, tool]))
  }

  of(tenant: string, tool: string): PauseModel {
    const key = JSON.stringify([tenant, tool])
    const model = this.#tools.get(key) ?? new PauseModel([this.all])
    setLatest(this.#tools, key, model, mostTools)
    return model
  }
}

/** Tools that are remembered. */
const mostTools = 1000

/** Evenly over the buckets up to the time that was told, and none behind it. */
function toldHazard(bucket: number, told: number): number {
  const last = bounds.findIndex((bound) => bound >= told)
  const left = (told === 0 ? -1 : last === -1 ? bounds.length - 1 : last) - bucket
  return left < 0 ? 0 : 1 / (left + 1)
}

/** The share of pauses that are over by the end of a bucket, evenly over the logarithm between the points. */
function priorShare(bucket: number): number {
  const ms = bounds[bucket] ?? 0
  let [fromMs, from] = [1, 0]
  for (const [toMs, to] of priorEnds) {
    if (ms <= toMs)
      return ms <= fromMs
        ? from
        : from + ((to - from) * Math.log(ms / fromMs)) / Math.log(toMs / fromMs)
    ;[fromMs, from] = [toMs, to]
  }
  return from
}
