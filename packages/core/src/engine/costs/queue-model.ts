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

/** When a request gets its slot. */
interface Turn {
  /** In steps from now. */
  readonly at: number
  readonly time: number
  /** How many of the busy ones have ended by then. */
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
  /** The number of requests that got a slot since, each the first that waited. */
  gone = 0
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
    this.#turns.push(turn.time)
    for (const ended of this.#busy.splice(0, turn.ended)) {
      this.#freeCells += ended.cells
      this.#freeSlots++
    }
    this.#at = turn.at
    this.#freeSlots--
    this.#take({ end: turn.at + steps, cells })
    this.#promptMs += promptMs
  }

  /** When the waiting request at this place, from 0, is admitted; beyond the queue: a new one. */
  turnOf(place: number): number {
    return this.#turns[place + this.gone] ?? this.#turn(0).time
  }

  /** When a new request with this work is admitted, and how long its first token takes from then on. */
  forecast({ promptMs, steps, cells = 0 }: Work): { turn: number; firstTokenMs: number } {
    const { at, time } = this.#turn(cells)
    const others = at === 0 ? this.#promptMs : 0
    return { turn: time, firstTokenMs: steps * this.stepMs + promptMs + others }
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
    // With a free slot, no other prompt is ahead.
    const ms = at === 0 ? 0 : at * this.stepMs + this.#promptMs
    return { at, time: this.madeAt + ms, ended }
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
