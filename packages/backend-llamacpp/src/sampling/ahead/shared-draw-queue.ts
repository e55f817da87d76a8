import { performance } from 'node:perf_hooks'

/** A draw that any thread can make. */
export interface QueuedDraw {
  /** The number of the sampler that draws. */
  readonly sampler: number
  readonly position: number
  /** The address of the logits in this process's memory. */
  readonly address: bigint
}

/** The indexes of the control numbers: the round that has begun, the ticket, and the draws that are not made yet. */
const signalAt = 0
const ticketAt = 1
const leftAt = 2
const controls = 4
/** The most draws in a round; a ticket has room for twice as many. */
const mostDraws = 120
/** How often a thread polls for the end of the draws before it sleeps: a few microseconds in all. */
const looks = 5000

/** How long a woken thread polls for the next round before it sleeps again. */
const watchMs = 3

/** Stands in place of a round's number: there are no more rounds. */
const closed = -1

/** Stands in place of a token if the draw failed. */
export const notDrawn = -1

/**
 * A queue of draws in memory that several threads share: one thread writes the draws, then all threads take one after
 * the other until none is left.
 *
 * A ticket holds the number of the round, the number of its draws, and the next draw in one integer, so that a late
 * thread cannot mistake a draw of a later round for one of its own round.
 */
export class SharedDrawQueue {
  static readonly mostDraws = mostDraws
  readonly memory: SharedArrayBuffer
  readonly #control: Int32Array
  readonly #samplers: Int32Array
  readonly #positions: Int32Array
  readonly #tokens: Int32Array
  readonly #addresses: BigUint64Array

  /** @param memory - the memory of a queue in another thread; default: a new queue */
  constructor(memory?: SharedArrayBuffer) {
    this.memory = memory ?? new SharedArrayBuffer(4 * controls + (3 * 4 + 8) * mostDraws)
    this.#control = new Int32Array(this.memory, 0, controls)
    this.#addresses = new BigUint64Array(this.memory, 4 * controls, mostDraws)
    const [samplers, positions, tokens] = [0, 1, 2].map(
      (nth) => new Int32Array(this.memory, 4 * controls + (8 + 4 * nth) * mostDraws, mostDraws),
    )
    this.#samplers = samplers!
    this.#positions = positions!
    this.#tokens = tokens!
  }

  /** Begins a round and wakes up to `threads` threads. The previous round must be over. */
  begin(draws: readonly QueuedDraw[], threads: number): void {
    for (const [nth, { sampler, position, address }] of draws.entries()) {
      this.#samplers[nth] = sampler
      this.#positions[nth] = position
      this.#addresses[nth] = address
    }
    const round = (Atomics.load(this.#control, signalAt) + 1) & 0x7fff
    Atomics.store(this.#control, leftAt, draws.length)
    Atomics.store(this.#control, ticketAt, (round << 16) | (draws.length << 8))
    Atomics.store(this.#control, signalAt, round)
    Atomics.notify(this.#control, signalAt, threads)
  }

  /** Wakes up to `threads` sleeping threads before a round begins, as waking takes as long as a draw. */
  announce(threads: number): void {
    Atomics.notify(this.#control, signalAt, threads)
  }

  /** Sleeps until a round other than `known` begins; returns its number, or undefined after {@link close}. */
  waitForRound(known: number): number | undefined {
    const isKnown = (): boolean => Atomics.load(this.#control, signalAt) === known
    while (isKnown()) {
      Atomics.wait(this.#control, signalAt, known)
      const end = performance.now() + watchMs
      while (isKnown() && performance.now() < end);
    }
    const round = Atomics.load(this.#control, signalAt)
    return round === closed ? undefined : round
  }

  /** Ends the queue: threads that wait for a round stop waiting. */
  close(): void {
    Atomics.store(this.#control, signalAt, closed)
    Atomics.notify(this.#control, signalAt)
  }

  /** Makes draws of this round until all have been taken. */
  drawAll(draw: (one: QueuedDraw, nth: number) => number): void {
    for (;;) {
      const ticket = Atomics.add(this.#control, ticketAt, 1)
      const nth = ticket & 0xff
      if (nth >= ((ticket >>> 8) & 0xff)) return
      const one = {
        sampler: this.#samplers[nth]!,
        position: this.#positions[nth]!,
        address: this.#addresses[nth]!,
      }
      this.#tokens[nth] = draw(one, nth)
      if (Atomics.sub(this.#control, leftAt, 1) === 1) Atomics.notify(this.#control, leftAt)
    }
  }

  /** Waits until all draws of the round are made; returns false if none ends within `patienceMs`. */
  waitForAll(patienceMs: number): boolean {
    for (let look = 0; look < looks; look++) {
      if (Atomics.load(this.#control, leftAt) === 0) return true
    }
    for (;;) {
      const left = Atomics.load(this.#control, leftAt)
      if (left === 0) return true
      if (Atomics.wait(this.#control, leftAt, left, patienceMs) === 'timed-out') return false
    }
  }

  /** The result of the round's `nth` draw. */
  token(nth: number): number {
    return this.#tokens[nth]!
  }
}
