import type { SchedulerEvent, SchedulerState, SequenceView } from '@cllm/core'
import { TokenClock } from './token-clock.js'

/** A waiting request, and what it waits for. */
export interface Work {
  readonly request: SequenceView
  /** Tokens that no slot holds. */
  tokens: number
  /** When it came, on the token clock. */
  readonly cameAt: number
}

/** What a slot holds changes: so many waiting requests are looked up again for one ranking. */
const lookUps = 128
/** The first ones are searched one by one, more of them are sorted. */
const searches = 32

/**
 * The waiting requests by a rank that changes while they wait, from the work that they are and how
 * long they have waited, the lowest first, equals as they came. Ranks all of them when the first one
 * is asked for; of more than 128, what slots hold is looked up for as many in turn.
 */
export class WorkRanking {
  readonly #work = new Map<SequenceView, Work>()
  readonly #clock = new TokenClock()
  #rankings = 0

  /** @param rank - of a request, given the time on the token clock */
  constructor(private readonly rank: (work: Work, now: number) => number) {}

  /** The waiting requests in their order. */
  *inOrder({ waiting }: Pick<SchedulerState, 'waiting'>): Iterable<SequenceView> {
    const all = [...this.#work.values()]
    this.#lookUp(all)
    const ranks = Float64Array.from(all, (work) => this.rank(work, this.#clock.now))
    for (const index of lowestFirst(ranks)) {
      const request = all[index]?.request
      if (request !== undefined && waiting.has(request.id)) yield request
    }
  }

  /** Takes in who begins to wait and who waits no more. */
  observe(event: SchedulerEvent): void {
    this.#clock.observe(event)
    if (event.type === 'step') return
    const { request, type } = event
    if (type === 'queued' || type === 'preempted') {
      const cameAt = this.#clock.cameAt(request)
      this.#work.set(request, { request, tokens: request.remainingTokens, cameAt })
    } else {
      this.#work.delete(request)
    }
  }

  #lookUp(all: readonly Work[]): void {
    const parts = Math.max(1, Math.ceil(all.length / lookUps))
    for (let index = this.#rankings++ % parts; index < all.length; index += parts) {
      const work = all[index]
      if (work !== undefined) work.tokens = work.request.remainingTokens
    }
  }
}

/** The places of the values, the lowest first. Overwrites the values. */
function* lowestFirst(values: Float64Array): Iterable<number> {
  for (let search = 0; search < searches; search++) {
    let lowest = -1
    let value = Infinity
    for (let index = 0; index < values.length; index++) {
      const other = values[index] ?? Infinity
      if (other >= value) continue
      lowest = index
      value = other
    }
    if (lowest < 0) return
    values[lowest] = Infinity
    yield lowest
  }
  const rest = Array.from(values.keys()).filter((index) => values[index] !== Infinity)
  yield* rest.sort((one, other) => (values[one] ?? 0) - (values[other] ?? 0))
}
