import type { RoutedRequest, WorkerView } from '@cllm/core'
import type { PlacedRequest, WorkerReport } from './load-meter.js'
import { type HeldBlocks, indexed, longestShared } from './prompt-chains.js'
import { type PromptWork, sumOf, workOf } from './prompt-chains.js'
import type { UnseenPlacements } from './unseen-placements.js'

/** A request to place, with the number of tokens per block. */
export type RequestToPlace = RoutedRequest & Pick<PlacedRequest, 'blockTokens'>

/** The assumed costs of a worker without measurements: a small model on a CPU. */
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
  /** The count of other fronts' placements that reports had shown at that time. */
  readonly known: number
  readonly blocks: readonly number[]
}

/** The load of a worker, as routers read it for every request. Changed only by reports, placements and ends. */
interface Load {
  readonly open: number
  readonly tokenMs: number
  readonly pairMs: number
  readonly stepMs: number
  readonly waitMs: number
  /** The version of the table that it was computed from; undefined: it depends on the worker's own report only. */
  readonly version: number | undefined
}

/** What a front's workers have in common. */
export interface WorkerGroup {
  /** The time of the present placement. */
  readonly now: number
  /** The request that is being placed. */
  readonly request: RequestToPlace | undefined
  /** The number of the present placement; cached values that depend on the request are valid for one number. */
  readonly question: number
  /** Changes whenever {@link usual} does. */
  readonly version: number
  /** The index of the prompts that the workers hold. */
  readonly blocks: HeldBlocks<KnownWorker>
  /** The estimated placements of other fronts that no report shows yet. */
  readonly unseen: UnseenPlacements
  /** The most fronts that a worker has seen. */
  readonly fronts: number
  /** The mean cost of the measured workers, for workers without measurements. */
  usual(cost: Cost): number
}

/** A worker as its front knows it, see {@link WorkerView}. Values that depend on the request are computed on demand. */
export class KnownWorker implements WorkerView {
  /** Fronts that it has seen. */
  seenFronts = 0
  reportedAt = 0
  isEligible = true
  placedAt = -Infinity
  #pending: Pending[] = []
  /** The number of requests that ended since the report. */
  #ended = 0
  /** The prompt tokens of these requests. */
  #endedTokens = 0
  /** The placement for which `#held` is valid. */
  #heldFor = 0
  /** The number of the request's leading blocks in the reported prompts. */
  #held = 0
  /** The placement for which `#cached` is valid. */
  #cachedFor = 0
  /** The number of the request's leading tokens that the worker has probably cached. */
  #cached = 0
  /** Its prompts by their last hash, which depends on all blocks. */
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
    // Most workers have nothing of most prompts.
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

  /** The work of the present request on this worker. */
  get #work(): PromptWork {
    return workOf(this.table.request ?? { promptTokens: 0 }, this.cachedTokens)
  }

  /** The longer of two waits: for the prompts ahead, and for encoding the files ahead and its own. */
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
    // The wait for a slot and that for the prompts ahead overlap.
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

  /** This front placed the present request here. */
  place(request: RequestToPlace, number: number, now: number): void {
    const { known } = this.table.unseen
    const work = workOf(request, this.cachedTokens)
    this.#pending.push({ number, at: now, known, blocks: request.blocks, ...work })
    this.#known = undefined
    this.placedAt = now
  }

  /** This placement was withdrawn: no report will show it. */
  unplace(number: number): void {
    this.#pending = this.#pending.filter((one) => one.number !== number)
    this.#known = undefined
  }

  /** A request on it has ended since its last report. */
  end(promptTokens: number): void {
    this.#ended++
    this.#endedTokens += promptTokens
    this.#known = undefined
  }

  /** Its reported prompts have this many leading blocks of the present request. Not called where there are none. */
  onHeld(depth: number): void {
    this.#heldFor = this.table.question
    this.#held = depth
  }

  /** Replaces its prompts; most of them stay the same. */
  hold(chains: readonly (readonly number[])[]): void {
    const before = this.#chains
    const now = new Map(chains.map((chain) => [chain.at(-1) ?? NaN, chain]))
    this.#chains = now
    for (const [key, chain] of before) if (!now.has(key)) this.table.blocks.remove(this, chain)
    for (const [key, chain] of now) if (!before.has(key)) this.table.blocks.add(this, chain)
  }
}
