/** Looks that can be gone on from; older ones begin anew. */
const most = 64

/** What several engines were asked last, by one number for all of them. */
export class Looks {
  readonly #looks = new Map<number, ReadonlyMap<string, number>>()
  #last = 0

  /** What each engine was at then; undefined for a look that is not known any more. */
  get(look: number | undefined): ReadonlyMap<string, number> | undefined {
    return look === undefined ? undefined : this.#looks.get(look)
  }

  /** Notes where each engine is; returns the number for that. */
  add(cursors: ReadonlyMap<string, number>): number {
    this.#looks.set(++this.#last, cursors)
    this.#looks.delete(this.#last - most)
    return this.#last
  }
}
