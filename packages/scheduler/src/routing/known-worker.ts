import type { RoutedRequest, WorkerView } from '@cllm/core'
import type { PlacedRequest, WorkerReport } from './load-meter.js'
import { type HeldBlocks, indexed, longestShared } from './prompt-chains.js'
import { type PromptWork, sumOf, workOf } from './prompt-chains.js'
import type { UnseenPlacements } from './unseen-placements.js'

/** A request to place, with what its blocks stand for. */
export type RequestToPlace = RoutedRequest & Pick<PlacedRequest, 'blockTokens'>

/** Costs of a worker that nobody has measured yet: a small model on a CPU. */
export const prior = {
  tokenMs: 1,
  besideMs: 0.15,
  pairMs: 0,
  stepMs: 20,
  serviceMs: 5000,
  fileMs: 500,
}

/** The name of a cost. */
export type Cost = keyof typeof prior

export const costNames = Object.keys(prior) as readonly Cost[]

/** A placement that the worker's report does not show yet. */
interface Pending extends PromptWork {
  readonly number: number
  readonly at: number
  /** What reports had shown of other fronts' placements. */
  readonly known: number
  readonly blocks: readonly number[]
}

/** What a router asks of a worker for every request, and what only a report, a placement or an end changes. */
interface Load {
  readonly open: number
  readonly tokenMs: number
  readonly pairMs: number
  readonly stepMs: number
  readonly waitMs: number
  /** What the table knew when that was computed; undefined: it follows from the worker's own report alone. */
  readonly version: number | undefined
}

/** What a worker has in common with the others that its front knows. */
export interface WorkerGroup {
  /** The time of the last question, and the request that it was for. */
  readonly now: number
  readonly request: RequestToPlace | undefined
  /** Counts the questions: what depends on the request and on what the workers hold is of one of them. */
  readonly question: number
  /** Changes with what {@link usual} says. */
  readonly version: number
  /** What the workers' prompts begin with. */
  readonly blocks: HeldBlocks<KnownWorker>
  /** What other fronts have placed and no report shows. */
  readonly unseen: UnseenPlacements
  /** The most fronts that a worker has seen. */
  readonly fronts: number
  /** A cost of the other workers, for those that have none yet. */
  usual(cost: Cost): number
}

/** A worker as its front knows it; see {@link WorkerView}. What depends on the request is computed when asked for. */
export class KnownWorker implements WorkerView {
  /** Fronts that it has seen. */
  seenFronts = 0
  reportedAt = 0
  isEligible = true
  placedAt = -Infinity
  #pending: Pending[] = []
  /** Requests that ended since the report, and their prompts. */
  #ended = 0
  #endedTokens = 0
  /** The question for which its prompts have this many leading blocks. */
  #heldFor = 0
  #held = 0
  /** The question for which it holds this many tokens. */
  #cachedFor = 0
  #cached = 0
  /** Its prompts by the last of their hashes, which stands for all of them. */
  #chains: ReadonlyMap<number, readonly number[]> = new Map()
  #known: Load | undefined

  constructor(
    readonly id: string,
    private readonly table: WorkerGroup,
    public report: WorkerReport,
    now: number,
  ) {
    this.update(report, now, 0)
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
    return this.#load.open
  }

  get openTokens(): number {
    const reported = this.report.openTokens - this.#endedTokens
    return Math.max(0, reported + sumOf(this.#pending, 'promptTokens'))
  }

  get backlogTokens(): number {
    return this.report.backlogTokens + sumOf(this.#pending, 'ahead')
  }

  get backlogFiles(): number {
    return (this.report.backlogFiles ?? 0) + sumOf(this.#pending, 'files')
  }

  get tokenMs(): number {
    return this.#load.tokenMs
  }

  get stepMs(): number {
    return this.#load.stepMs
  }

  get waitMs(): number {
    return this.#waitFor(this.#work)
  }

  get cachedTokens(): number {
    const { question, request } = this.table
    if (this.#cachedFor === question) return this.#cached
    // Most workers hold nothing of most prompts.
    if (this.#heldFor !== question && this.#pending.length === 0) return 0
    this.#cachedFor = question
    return (this.#cached = request === undefined ? 0 : this.#cachedOf(request))
  }

  #cachedOf({ blocks, blockTokens, promptTokens }: RequestToPlace): number {
    let longest = this.#heldFor === this.table.question ? this.#held : 0
    if (longest === indexed) longest = longestShared(this.report.chains, blocks)
    if (this.#pending.length > 0) {
      const placed = this.#pending.map((one) => one.blocks)
      longest = Math.max(longest, longestShared(placed, blocks))
    }
    return Math.min(promptTokens, longest * blockTokens)
  }

  get firstTokenMs(): number {
    const work = this.#work
    const { tokenMs, pairMs, stepMs } = this.#load
    return this.#waitFor(work) + work.ahead * tokenMs + work.pairs * pairMs + stepMs
  }

  /** What the request is here. */
  get #work(): PromptWork {
    return workOf(this.table.request ?? { promptTokens: 0 }, this.cachedTokens)
  }

  /** While its files and those before are encoded, the prompts ahead are computed. */
  #waitFor({ files }: PromptWork): number {
    const encodeMs = files && (this.backlogFiles + files) * this.#cost('fileMs')
    return Math.max(this.#load.waitMs, encodeMs)
  }

  get #load(): Load {
    const known = this.#known
    const isCurrent = known?.version === undefined || known.version === this.table.version
    return known !== undefined && isCurrent ? known : (this.#known = this.#computeLoad())
  }

  #computeLoad(): Load {
    const { report, slots } = this
    const open = Math.max(0, report.open + this.#pending.length - this.#ended)
    const tokenMs = this.#cost('tokenMs') + this.#cost('besideMs') * open
    const pairMs = this.#cost('pairMs')
    const slotMs = open < slots ? 0 : ((open - slots + 1) * this.#cost('serviceMs')) / slots
    // While it waits for a slot, the prompts ahead are computed.
    const pairs = report.backlogPairs + sumOf(this.#pending, 'pairs')
    const waitMs = Math.max(slotMs, this.backlogTokens * tokenMs + pairs * pairMs)
    const isMeasured = costNames.every((cost) => cost === 'fileMs' || report[cost] !== undefined)
    const version = isMeasured ? undefined : this.table.version
    return { open, tokenMs, pairMs, stepMs: this.#cost('stepMs'), waitMs, version }
  }

  #cost(cost: Cost): number {
    return this.report[cost] ?? this.table.usual(cost)
  }

  /** Takes a newer report. */
  update(report: WorkerReport, now: number, seen: number): void {
    this.report = report
    this.seenFronts = Object.keys(report.seen).length
    this.reportedAt = now
    this.placedAt = Math.max(this.placedAt, now - (report.idleMs ?? Infinity))
    this.#known = undefined
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
    const { known } = this.table.unseen
    const work = workOf(request, this.cachedTokens)
    this.#pending.push({ number, at: now, known, blocks: request.blocks, ...work })
    this.#known = undefined
    this.placedAt = now
  }

  /** This placement has not come about: no report will show it. */
  unplace(number: number): void {
    this.#pending = this.#pending.filter((one) => one.number !== number)
    this.#known = undefined
  }

  /** A request on it ended, which its last report does not show. */
  end(promptTokens: number): void {
    this.#ended++
    this.#endedTokens += promptTokens
    this.#known = undefined
  }

  /** Its reported prompts have this many leading blocks of what the table is asked about; not told: none. */
  onHeld(depth: number): void {
    this.#heldFor = this.table.question
    this.#held = depth
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
