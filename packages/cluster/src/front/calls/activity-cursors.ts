/** Cursors that can be continued from; who has an older one begins anew. */
const most = 64

/** How far a client has seen the activity of several engines: one number for the cursors of all of them. */
export class ActivityCursors {
  readonly #cursors = new Map<number, ReadonlyMap<string, number>>()
  #last = 0

  /** The cursor of each engine; undefined for a number that is not known any more. */
  get(cursor: number | undefined): ReadonlyMap<string, number> | undefined {
    return cursor === undefined ? undefined : this.#cursors.get(cursor)
  }

  /** Notes the cursor of each engine; returns the number for all of them. */
  add(cursors: ReadonlyMap<string, number>): number {
    this.#cursors.set(++this.#last, cursors)
    this.#cursors.delete(this.#last - most)
    return this.#last
  }
}
