/** A placement of this front that a report has shown: it is counted until time goes on. */
interface Shown {
  readonly at: number
  /** What was known of the others when it was made. */
  readonly known: number
}

/** Weight of one placement in the mean. */
const weight = 1 / 16

/**
 * Learns how many requests the other fronts have placed that no report shows yet. What reports show of
 * them between one of this front's placements and the report that shows that one was placed before it and
 * could not be seen.
 */
export class UnseenPlacements {
  readonly #seen = new Map<string, Readonly<Record<string, number>>>()
  #shown: Shown[] = []
  /** Placements of the other fronts that reports have shown. */
  known = 0
  #mean: number | undefined

  /** @param front - the name under which workers see this front */
  constructor(private readonly front: string) {}

  /** How many are probably there; before any was learnt, one of each other front. */
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
    // What is shown at once hides nothing.
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
