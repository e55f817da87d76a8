/** Something that was noted down at a time and takes some memory. */
export interface Noted {
  readonly atMs: number
}

/** The latest of many things by time: the oldest ones go first, in constant time each. */
export class RecentList<T extends Noted> {
  #items: T[] = []
  #first = 0

  get size(): number {
    return this.#items.length - this.#first
  }

  get oldest(): T | undefined {
    return this.#items[this.#first]
  }

  add(item: T): void {
    this.#items.push(item)
  }

  /** Takes the oldest one out. */
  drop(): T | undefined {
    const item = this.oldest
    if (item === undefined) return undefined
    this.#first++
    if (this.#first > 1024 && this.#first * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#first)
      this.#first = 0
    }
    return item
  }

  list(): readonly T[] {
    return this.#items.slice(this.#first)
  }
}
