/** A placement of this front that a report has shown at this time. */
interface Shown {
  readonly at: number
  /** The value of `UnseenPlacements.known` when it was made. */
  readonly known: number
}

/** The weight of one placement in the mean. */
const weight = 1 / 16

/**
 * Learns how many requests the other fronts have placed that no report shows yet. Placements of other fronts that are
 * reported between a placement of this front and the report that shows it were made before, and were unseen at that time.
 */
export class UnseenPlacements {
  readonly #seen = new Map<string, Readonly<Record<string, number>>>()
  #shown: Shown[] = []
  /** The number of reports that have shown new placements of other fronts. */
  known = 0
  #mean: number | undefined

  /** @param front - the name under which workers see this front */
  constructor(private readonly front: string) {}

  /** The probable number of unseen placements; before anything was learned, one for each other front. */
  mean(fronts: number): number {
    return this.#mean ?? fronts - 1
  }

  /** A worker reported what it has seen of each front. */
  onReport(worker: string, seen: Readonly<Record<string, number>>, now: number): void {
    this.#learn(now)
    const before = this.#seen.get(worker)
    this.#seen.set(worker, seen)
    for (const front in seen) {
      if (front !== this.front && seen[front] !== before?.[front]) this.known++
    }
  }

  /** A report has shown a placement that this front made when `known` was this large. */
  onShown(placedAt: number, known: number, now: number): void {
    // A placement that is shown at once says nothing about unseen ones.
    this.#shown.push({ at: now, known: placedAt === now ? Infinity : known })
  }

  /** A worker is gone. */
  forget(worker: string): void {
    this.#seen.delete(worker)
  }

  #learn(now: number): void {
    if (this.#shown.length === 0 || this.#shown[0]!.at === now) return
    for (const { known } of this.#shown.splice(0)) {
      const unseen = Math.max(0, this.known - known)
      this.#mean = (this.#mean ?? unseen) + weight * (unseen - (this.#mean ?? unseen))
    }
  }
}
