/** The average time that requests waited for their slot. */
export class WaitTimes {
  #count = 0
  #sum = 0

  add(milliseconds: number): void {
    this.#count++
    this.#sum += milliseconds
  }

  /** In milliseconds; 0 before the first request. */
  get average(): number {
    return this.#count === 0 ? 0 : this.#sum / this.#count
  }
}
