import type { RoutedRequest, WorkerView } from '@cllm/core'
import { pairsOf, type PlacedRequest } from './load-meter.js'
import { longestShared } from './prompt-chains.js'
import type { WorkerReport } from './worker-report.js'
import type { WorkerTable } from './worker-table.js'

/** A request to place, with what its blocks stand for. */
export type RequestToPlace = RoutedRequest & Pick<PlacedRequest, 'blockTokens'>

/** Costs of a worker that nobody has measured yet: a small model on a CPU. */
export const prior = { tokenMs: 1, besideMs: 0.15, pairMs: 0, stepMs: 20, serviceMs: 5000 }

/** The name of a cost. */
export type Cost = keyof typeof prior

/** A placement that the worker's report does not show yet. */
interface Pending {
  readonly number: number
  readonly at: number
  /** What reports had shown of other fronts' placements. */
  readonly known: number
  readonly promptTokens: number
  readonly ahead: number
  readonly pairs: number
  readonly blocks: readonly number[]
}

/** A worker as its front knows it; see {@link WorkerView}. What depends on the request is computed when asked for. */
export class KnownWorker implements WorkerView {
  report: WorkerReport
  /** Fronts that it has seen. */
  seenFronts: number
  reportedAt: number
  isEligible = true
  placedAt: number
  #pending: Pending[] = []
  /** Requests that ended since the report, and their prompts. */
  #ended = 0
  #endedTokens = 0
  #for: RequestToPlace | undefined
  #cached = 0
  /** Its prompts by the last of their hashes, which stands for all of them. */
  #chains: ReadonlyMap<number, readonly number[]> = new Map()
  #waitMs: number | undefined
  /** What the table knew when that was computed. */
  #waitVersion = 0

  constructor(
    readonly id: string,
    private readonly table: WorkerTable,
    /** Its place among all workers, in the order in which they came. */
    public index: number,
    report: WorkerReport,
    now: number,
  ) {
    this.report = report
    this.seenFronts = Object.keys(report.seen).length
    this.reportedAt = now
    this.placedAt = placedAt(report, now)
    this.hold(report.chains)
  }

  get ageMs(): number {
    return this.table.now - this.reportedAt
  }

  get fronts(): number {
    return this.table.fronts
  }

  get unseen(): number {
    return this.table.unseen.mean(this.table.fronts)
  }

  get slots(): number {
    return this.report.slots
  }

  get open(): number {
    return Math.max(0, this.report.open + this.#pending.length - this.#ended)
  }

  get openTokens(): number {
    const reported = this.report.openTokens - this.#endedTokens
    return Math.max(
      0,
      this.#pending.reduce((sum, { promptTokens }) => sum + promptTokens, reported),
    )
  }

  get backlogTokens(): number {
    return this.#pending.reduce((sum, { ahead }) => sum + ahead, this.report.backlogTokens)
  }

  get tokenMs(): number {
    const { tokenMs = this.table.usual('tokenMs') } = this.report
    const { besideMs = this.table.usual('besideMs') } = this.report
    return tokenMs + besideMs * this.open
  }

  get stepMs(): number {
    return this.report.stepMs ?? this.table.usual('stepMs')
  }

  get waitMs(): number {
    const isCurrent = this.#isMeasured || this.#waitVersion === this.table.version
    if (this.#waitMs !== undefined && isCurrent) return this.#waitMs
    this.#waitVersion = this.table.version
    return (this.#waitMs = this.#computeWaitMs())
  }

  #computeWaitMs(): number {
    const { open, slots } = this
    const serviceMs = this.report.serviceMs ?? this.table.usual('serviceMs')
    const slotMs = open < slots ? 0 : ((open - slots + 1) * serviceMs) / slots
    // While it waits for a slot, the prompts ahead are computed.
    const pairs = this.#pending.reduce((sum, one) => sum + one.pairs, this.report.backlogPairs)
    return Math.max(slotMs, this.backlogTokens * this.tokenMs + pairs * this.#pairMs)
  }

  get cachedTokens(): number {
    const { request } = this.table
    if (this.#for === request || request === undefined) return this.#cached
    const { blocks, blockTokens, promptTokens } = request
    let longest = this.table.held(this)
    if (longest === undefined) longest = longestShared(this.report.chains, blocks)
    if (this.#pending.length > 0) {
      const placed = this.#pending.map((one) => one.blocks)
      longest = Math.max(longest, longestShared(placed, blocks))
    }
    this.#for = request
    this.#cached = Math.min(promptTokens, longest * blockTokens)
    return this.#cached
  }

  get firstTokenMs(): number {
    const { cachedTokens } = this
    const tokens = (this.table.request?.promptTokens ?? 0) - cachedTokens
    const promptMs = tokens * this.tokenMs + pairsOf(tokens, cachedTokens) * this.#pairMs
    return this.waitMs + promptMs + this.stepMs
  }

  /** Whether its wait follows from its own report alone. */
  get #isMeasured(): boolean {
    const { tokenMs, besideMs, pairMs, serviceMs } = this.report
    const isKnown = tokenMs !== undefined && besideMs !== undefined
    return isKnown && pairMs !== undefined && serviceMs !== undefined
  }

  get #pairMs(): number {
    return this.report.pairMs ?? this.table.usual('pairMs')
  }

  /** Takes a newer report. */
  update(report: WorkerReport, now: number, seen: number): void {
    this.report = report
    this.seenFronts = Object.keys(report.seen).length
    this.reportedAt = now
    this.placedAt = Math.max(this.placedAt, placedAt(report, now))
    this.#for = undefined
    this.#waitMs = undefined
    this.#ended = this.#endedTokens = 0
    this.hold(report.chains)
    const { unseen } = this.table
    this.#pending = this.#pending.filter(({ number, at, known }) => {
      if (number <= seen) unseen.onShown(at, known, now)
      return number > seen
    })
  }

  /** This front placed the request that was asked about here. */
  place(request: RequestToPlace, number: number, now: number): void {
    const { promptTokens, blocks } = request
    const ahead = promptTokens - this.cachedTokens
    const pairs = pairsOf(ahead, this.cachedTokens)
    const { known } = this.table.unseen
    this.#pending.push({ number, at: now, known, promptTokens, ahead, pairs, blocks })
    this.#for = undefined
    this.#waitMs = undefined
    this.placedAt = now
  }

  /** A request on it ended, which its last report does not show. */
  end(promptTokens: number): void {
    this.#ended++
    this.#endedTokens += promptTokens
    this.#waitMs = undefined
  }

  /** It holds these prompts now; most are those of before. */
  hold(chains: readonly (readonly number[])[]): void {
    const before = this.#chains
    const now = new Map(chains.map((chain) => [chain.at(-1) ?? NaN, chain]))
    this.#chains = now
    for (const [key, chain] of before) if (!now.has(key)) this.table.blocks.remove(this, chain)
    for (const [key, chain] of now) if (!before.has(key)) this.table.blocks.add(this, chain)
  }
}

/** When a request last came to a worker, by the clock of the front that reads this now. */
function placedAt({ idleMs = Infinity }: WorkerReport, now: number): number {
  return now - idleMs
}
