import TinyQueue from 'tinyqueue'

/** A request's work. */
export interface Work {
  /** Milliseconds that its prompt adds to the steps. */
  readonly promptMs: number
  /** Steps for which it keeps a slot. */
  readonly steps: number
}

/**
 * A model of the queue at one time: the slots take the waiting requests in their order, each slot as
 * soon as its request ends. Prompts ahead lengthen the steps meanwhile.
 */
export class QueueModel {
  /** When each slot is free again, in steps from now. */
  readonly #slots: TinyQueue<number>
  /** When the waiting requests are admitted, in their order. */
  readonly #turns: number[] = []
  /** The number of requests admitted since. */
  #gone = 0
  /** Milliseconds of the prompts that are computed before a new request's. */
  #promptMs = 0

  constructor(
    readonly madeAt: number,
    slots: number,
    running: Iterable<Work>,
    /** Milliseconds of a step in which all slots decode. */
    private readonly stepMs: number,
  ) {
    const busy: number[] = []
    for (const { promptMs, steps } of running) {
      busy.push(steps)
      this.#promptMs += promptMs
    }
    const free = Array.from({ length: Math.max(0, slots - busy.length) }, () => 0)
    this.#slots = new TinyQueue([...busy, ...free])
  }

  /** A request joins the queue. */
  add({ promptMs, steps }: Work): void {
    this.#turns.push(this.turnOf(Infinity))
    this.#slots.push((this.#slots.pop() ?? 0) + steps)
    this.#promptMs += promptMs
  }

  /** The first waiting request got a slot. */
  onLeft(): void {
    this.#gone++
  }

  /** When the waiting request at this place, from 0, is admitted; beyond the queue: a new request. */
  turnOf(place: number): number {
    const known = this.#turns[place + this.#gone]
    if (known !== undefined) return known
    const steps = this.#slots.peek() ?? 0
    // With a free slot, no other prompt is ahead.
    return this.madeAt + (steps === 0 ? 0 : steps * this.stepMs + this.#promptMs)
  }

  /** Time from the admission of a new request with this work to its first token. */
  firstTokenMs({ promptMs, steps }: Work): number {
    const others = this.#slots.peek() === 0 ? this.#promptMs : 0
    return steps * this.stepMs + promptMs + others
  }
}
