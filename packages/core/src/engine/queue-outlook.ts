import TinyQueue from 'tinyqueue'

/** A request's work: tokens of its prompt to compute, and steps that it keeps a slot for. */
export interface Work {
  readonly tokens: number
  readonly steps: number
}

/** What work costs, in milliseconds. */
export interface WorkCosts {
  /** A step in which all slots decode. */
  readonly stepMs: number
  /** What each token of a prompt adds to the steps. */
  readonly tokenMs: number
}

/**
 * How the queue will move, as seen at one time: the slots take the waiting requests in their order,
 * each as soon as the one before it is done. Prompts ahead lengthen the steps meanwhile.
 */
export class QueueOutlook {
  /** When the slots are free again, in steps from now. */
  readonly #slots: TinyQueue<number>
  /** When the requests that wait are admitted, in their order. */
  readonly #turns: number[] = []
  /** Those of them who do not wait any more. */
  #gone = 0
  /** Tokens of prompts that are computed before a newcomer's. */
  #tokens = 0

  constructor(
    readonly madeAt: number,
    slots: number,
    running: Iterable<Work>,
    private readonly costs: WorkCosts,
  ) {
    const busy: number[] = []
    for (const { tokens, steps } of running) {
      busy.push(steps)
      this.#tokens += tokens
    }
    const free = Array.from({ length: Math.max(0, slots - busy.length) }, () => 0)
    this.#slots = new TinyQueue([...busy, ...free])
  }

  /** A request joins the queue. */
  add({ tokens, steps }: Work): void {
    this.#turns.push(this.turnOf(Infinity))
    this.#slots.push((this.#slots.pop() ?? 0) + steps)
    this.#tokens += tokens
  }

  /** One waits no more. */
  left(): void {
    this.#gone++
  }

  /** When the waiting request at this place, from 0, is admitted; that of a newcomer behind all. */
  turnOf(place: number): number {
    const known = this.#turns[place + this.#gone]
    if (known !== undefined) return known
    const { stepMs, tokenMs } = this.costs
    const steps = this.#slots.peek() ?? 0
    // A slot that is free now waits for nobody's prompt.
    return this.madeAt + (steps === 0 ? 0 : steps * stepMs + this.#tokens * tokenMs)
  }

  /** What the first token of a newcomer with this work takes from its admission on. */
  firstTokenMs({ tokens, steps }: Work): number {
    const { stepMs, tokenMs } = this.costs
    const others = this.#slots.peek() === 0 ? this.#tokens : 0
    return steps * stepMs + (tokens + others) * tokenMs
  }
}
