import type { WorkerView } from '@cllm/core'
import { HeldBlocks } from './prompt-chains.js'
import { type Cost, costNames, KnownWorker, prior, type RequestToPlace } from './known-worker.js'
import type { WorkerReport } from './load-meter.js'
import { UnseenPlacements } from './unseen-placements.js'

/**
 * The workers that one front knows: their last reports, and the front's placements since then, so that a burst of
 * requests does not follow an old report to the same worker.
 */
export class WorkerTable {
  /** The time of the present placement. */
  now = 0
  /** The request that is being placed. */
  request: RequestToPlace | undefined
  /** @internal The number of the present placement, for which cached values are valid. */
  question = 1
  #isAnswered = false
  readonly #workers = new Map<string, KnownWorker>()
  #eligible: readonly KnownWorker[] | undefined
  #sorted: KnownWorker[] | undefined
  #placements = 0
  #fronts: number | undefined
  /** @internal Changes whenever {@link usual} does. */
  version = 0
  /** @internal The index of the prompts that the workers hold. */
  readonly blocks = new HeldBlocks<KnownWorker>()
  #usual: Partial<Record<Cost, number | undefined>> = {}

  /** @internal The estimated placements of other fronts that no report shows yet. */
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
    this.#isAnswered = false
    this.#fronts = undefined
    this.unseen.onReport(id, report.seen, now)
    const known = this.#workers.get(id)
    this.#noteCosts(known?.report, report)
    if (known !== undefined) return known.update(report, now, report.seen[this.front] ?? 0)
    this.#workers.set(id, new KnownWorker(id, this, report, now))
    this.#changed()
  }

  /** A worker is gone, with all its requests. */
  delete(id: string): void {
    this.unseen.forget(id)
    const gone = this.#workers.get(id)
    if (gone === undefined) return
    gone.hold([])
    this.#workers.delete(id)
    this.#noteCosts(gone.report, undefined)
    this.#isAnswered = false
    this.#fronts = undefined
    this.#changed()
  }

  /** Sets whether a worker may get requests: not while it drains, and not while it sends no reports. */
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
    this.#ask(request)
    const list = (this.#eligible ??= this.#list().filter(({ isEligible }) => isEligible))
    return isFit === undefined ? list : list.filter(({ id }) => isFit(id))
  }

  /** Notes that the request is placed on this worker now; returns the number of the placement. */
  place(id: string, request: RequestToPlace, now: number): number {
    const number = ++this.#placements
    this.#ask(request)
    this.#workers.get(id)?.place(request, number, now)
    this.#isAnswered = false
    return number
  }

  /** Withdraws a placement that the worker was never told about. */
  unplace(id: string, number: number): void {
    this.#workers.get(id)?.unplace(number)
    this.#isAnswered = false
  }

  /**
   * Notes that a request on this worker has ended, before a report shows it, so that its slot counts as free at once.
   */
  end(id: string, promptTokens: number): void {
    this.#workers.get(id)?.end(promptTokens)
  }

  #ask(request: RequestToPlace): void {
    if (this.#isAnswered && this.request === request) return
    this.question++
    this.request = request
    this.#isAnswered = true
    this.blocks.tell(request.blocks, (worker, depth) => worker.onHeld(depth))
  }

  /** @internal The largest number of fronts that a worker has seen. */
  get fronts(): number {
    if (this.#fronts !== undefined) return this.#fronts
    let most = 1
    for (const { seenFronts } of this.#workers.values()) most = Math.max(most, seenFronts)
    return (this.#fronts = most)
  }

  /** @internal The mean cost of the measured workers, for workers without measurements. */
  usual(cost: Cost): number {
    const known = this.#usual[cost]
    if (known !== undefined) return known
    let [sum, count] = [0, 0]
    for (const { report } of this.#workers.values()) {
      const value = report[cost] ?? NaN
      if (Number.isNaN(value)) continue
      sum += value
      count++
    }
    return (this.#usual[cost] = count === 0 ? prior[cost] : sum / count)
  }

  #noteCosts(before: WorkerReport | undefined, after: WorkerReport | undefined): void {
    for (const cost of costNames) {
      if (before?.[cost] === after?.[cost]) continue
      this.#usual[cost] = undefined
      this.version++
    }
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

/** Milliseconds for which a router holds a request at least before it is asked again. */
export const leastHoldMs = 5
