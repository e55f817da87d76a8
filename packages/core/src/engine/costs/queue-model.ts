/** A request's work. */
export interface Work {
  /** Milliseconds that its prompt adds to the steps. */
  readonly promptMs: number
  /** Steps for which it keeps a slot. */
  readonly steps: number
  /** Cells of a pool that it keeps as long; default 0. */
  readonly cells?: number
}

/** A request that has a slot: until when, in steps from now, and with how many cells. */
interface Busy {
  readonly end: number
  readonly cells: number
}

/** When a request gets its slot, in steps from now, and how many of the busy ones have ended by then. */
interface Turn {
  readonly at: number
  readonly ended: number
}

/**
 * A model of the queue at one time: the waiting requests are admitted in their order, each as soon as a
 * slot is free and, where slots share a pool of cells, the cells that it needs are. Prompts ahead lengthen
 * the steps meanwhile.
 */
export class QueueModel {
  /** By their end. */
  readonly #busy: Busy[] = []
  #freeSlots: number
  #freeCells: number
  /** When the last one was admitted. */
  #at = 0
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
    /** Cells of the pool; default: each slot has its own. */
    cells = Infinity,
  ) {
    this.#freeCells = cells
    for (const { promptMs, steps, cells: own = 0 } of running) {
      this.#take({ end: steps, cells: own })
      this.#promptMs += promptMs
    }
    this.#freeSlots = Math.max(0, slots - this.#busy.length)
  }

  /** A request joins the queue. */
  add({ promptMs, steps, cells = 0 }: Work): void {
    const turn = this.#turn(cells)
    this.#turns.push(this.#timeOf(turn))
    for (const ended of this.#busy.splice(0, turn.ended)) {
      this.#freeCells += ended.cells
      this.#freeSlots++
    }
    this.#at = turn.at
    this.#freeSlots--
    this.#take({ end: turn.at + steps, cells })
    this.#promptMs += promptMs
  }

  /** The first waiting request got a slot. */
  onLeft(): void {
    this.#gone++
  }

  /**
   * When the waiting request at this place, from 0, is admitted.
   *
   * @param place - beyond the queue: a new request
   * @param cells - of a pool that a new request needs
   */
  turnOf(place: number, cells = 0): number {
    return this.#turns[place + this.#gone] ?? this.#timeOf(this.#turn(cells))
  }

  /** Time from the admission of a new request with this work to its first token. */
  firstTokenMs({ promptMs, steps, cells = 0 }: Work): number {
    const others = this.#turn(cells).at === 0 ? this.#promptMs : 0
    return steps * this.stepMs + promptMs + others
  }

  /** With a free slot, no other prompt is ahead. */
  #timeOf({ at }: Turn): number {
    return this.madeAt + (at === 0 ? 0 : at * this.stepMs + this.#promptMs)
  }

  /** Alone, every request has the cells that it needs. */
  #turn(cells: number): Turn {
    let [at, freeSlots, freeCells] = [this.#at, this.#freeSlots, this.#freeCells]
    let ended = 0
    for (const { end, cells: own } of this.#busy) {
      if (freeSlots > 0 && freeCells >= cells) break
      at = end
      freeSlots++
      freeCells += own
      ended++
    }
    return { at, ended }
  }

  #take(one: Busy): void {
    this.#freeCells -= one.cells
    let [low, high] = [0, this.#busy.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#busy[middle]!.end <= one.end) low = middle + 1
      else high = middle
    }
    this.#busy.splice(low, 0, one)
  }
}
