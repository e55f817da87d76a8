import type { RoutedRequest, WorkerView } from '@cllm/core'
import { pairsOf, type PlacedRequest } from './load-meter.js'
import { longestShared } from './prompt-chains.js'
import { UnseenPlacements } from './unseen-placements.js'
import type { WorkerReport } from './worker-report.js'

/** A request to place, with what its blocks stand for. */
export type RequestToPlace = RoutedRequest & Pick<PlacedRequest, 'blockTokens'>

/** Costs of a worker that nobody has measured yet: a small model on a CPU. */
const prior = { tokenMs: 1, besideMs: 0.15, pairMs: 0, stepMs: 20, serviceMs: 5000 }
const costs = Object.keys(prior) as (keyof typeof prior)[]

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
class KnownWorker implements WorkerView {
  report: WorkerReport
  /** Fronts that it has seen. */
  seenFronts: number
  reportedAt: number
  isEligible = true
  placedAt: number
  #pending: Pending[] = []
  #for: RequestToPlace | undefined
  #cached = 0

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
    return this.report.open + this.#pending.length
  }

  get openTokens(): number {
    return this.#pending.reduce(
      (sum, { promptTokens }) => sum + promptTokens,
      this.report.openTokens,
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
    let longest = longestShared(this.report.chains, blocks)
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
    this.placedAt = now
  }
}

/**
 * The workers that one front knows: their last reports, and what the front has placed since, so that a
 * burst does not follow an old report to the same worker.
 */
export class WorkerTable {
  /** The time of the last question, and the request that it was for. */
  now = 0
  request: RequestToPlace | undefined
  readonly #workers = new Map<string, KnownWorker>()
  /** The reported costs, one list for each cost in the order of the workers; NaN: not measured. */
  readonly #costs = new Map<keyof typeof prior, number[]>(costs.map((cost) => [cost, []]))
  #eligible: readonly KnownWorker[] | undefined
  #sorted: KnownWorker[] | undefined
  #placements = 0
  #fronts: number | undefined
  #usual: Partial<Record<keyof typeof prior, number>> = {}

  /** @internal What other fronts have placed and no report shows. */
  readonly unseen: UnseenPlacements

  /** @param front the name under which workers see this front */
  constructor(private readonly front: string) {
    this.unseen = new UnseenPlacements(front)
  }

  /** The ids of all workers, in their order. */
  get ids(): string[] {
    return this.#list().map(({ id }) => id)
  }

  /** Whether some worker may get requests. */
  get hasEligible(): boolean {
    return this.#list().some(({ isEligible }) => isEligible)
  }

  /** A worker reported. */
  set(id: string, report: WorkerReport, now: number): void {
    this.#usual = {}
    this.#fronts = undefined
    this.unseen.onReport(id, report.seen, now)
    const known = this.#workers.get(id)
    if (known !== undefined) {
      this.#noteCosts(known.index, report)
      return known.update(report, now, report.seen[this.front] ?? 0)
    }
    const index = this.#workers.size
    this.#workers.set(id, new KnownWorker(id, this, index, report, now))
    this.#noteCosts(index, report)
    this.#changed()
  }

  /** A worker is gone, and what was on it. */
  delete(id: string): void {
    this.unseen.forget(id)
    if (!this.#workers.delete(id)) return
    for (const list of this.#costs.values()) list.length = 0
    for (const [index, worker] of [...this.#workers.values()].entries()) {
      worker.index = index
      this.#noteCosts(index, worker.report)
    }
    this.#usual = {}
    this.#fronts = undefined
    this.#changed()
  }

  /** Whether a worker may get requests: not while it drains, and not while it is silent. */
  setEligible(id: string, isEligible: boolean): void {
    const known = this.#workers.get(id)
    if (known === undefined || known.isEligible === isEligible) return
    known.isEligible = isEligible
    this.#changed()
  }

  /**
   * The workers that may take a request, for a router. The views are valid until the next call.
   *
   * @param isFit whether a worker can serve this request at all; default: all can
   */
  views(
    request: RequestToPlace,
    now: number,
    isFit?: (id: string) => boolean,
  ): readonly WorkerView[] {
    this.now = now
    this.request = request
    const list = (this.#eligible ??= this.#list().filter(({ isEligible }) => isEligible))
    return isFit === undefined ? list : list.filter(({ id }) => isFit(id))
  }

  /** Notes that the request is placed on this worker now; returns the number of the placement. */
  place(id: string, request: RequestToPlace, now: number): number {
    const number = ++this.#placements
    this.request = request
    this.#workers.get(id)?.place(request, number, now)
    return number
  }

  /** @internal The most fronts that a worker has seen. */
  get fronts(): number {
    if (this.#fronts !== undefined) return this.#fronts
    let most = 1
    for (const { seenFronts } of this.#workers.values()) most = Math.max(most, seenFronts)
    return (this.#fronts = most)
  }

  /** @internal A cost of the other workers, for those that have none yet. */
  usual(cost: keyof typeof prior): number {
    const known = this.#usual[cost]
    if (known !== undefined) return known
    let [sum, count] = [0, 0]
    for (const value of this.#costs.get(cost)!) {
      if (Number.isNaN(value)) continue
      sum += value
      count++
    }
    return (this.#usual[cost] = count === 0 ? prior[cost] : sum / count)
  }

  #noteCosts(index: number, report: WorkerReport): void {
    for (const cost of costs) this.#costs.get(cost)![index] = report[cost] ?? NaN
  }

  #changed(): void {
    this.#sorted = undefined
    this.#eligible = undefined
  }

  #list(): KnownWorker[] {
    return (this.#sorted ??= [...this.#workers.values()].sort((one, other) =>
      one.id < other.id ? -1 : 1,
    ))
  }
}

/** When a request last came to a worker, by the clock of the front that reads this now. */
function placedAt({ idleMs = Infinity }: WorkerReport, now: number): number {
  return now - idleMs
}
