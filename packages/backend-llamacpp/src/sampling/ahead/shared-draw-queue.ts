import { performance } from 'node:perf_hooks'

/** A draw that any thread can make. */
export interface QueuedDraw {
  /** Which sampler draws. */
  readonly sampler: number
  readonly position: number
  /** Where the logits are in this process's memory. */
  readonly address: bigint
}

/** Which of the control numbers is which. */
const signalAt = 0
const ticketAt = 1
const leftAt = 2
const controls = 4
/** As many as are written down at once; a ticket has room for twice as many. */
const mostDraws = 120
/** Looks at the draws that are left before a thread sleeps: some microseconds. */
const looks = 5000

/** How long a thread that was woken watches for the next round before it sleeps again. */
const watchMs = 3

/** In place of a round: there are no more. */
const closed = -1

/** Written in place of a token by a thread that could not draw it. */
export const notDrawn = -1

/**
 * Draws that several threads make together, in memory that they share: one thread writes them down, all
 * take the next one until none is left.
 *
 * A ticket has the number of the round, of its draws, and of the next draw in one integer, so that a
 * thread that comes late takes nothing of a later round for a draw of its own.
 */
export class SharedDrawQueue {
  static readonly mostDraws = mostDraws
  readonly memory: SharedArrayBuffer
  readonly #control: Int32Array
  readonly #samplers: Int32Array
  readonly #positions: Int32Array
  readonly #tokens: Int32Array
  readonly #addresses: BigUint64Array

  /** @param memory - of a queue in another thread; default: a new one */
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

  /** Begins a round; the round before is over. Wakes up to `threads` threads. */
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

  /** Wakes up to `threads` threads that sleep, as a round begins soon: waking takes as long as a draw. */
  announce(threads: number): void {
    Atomics.notify(this.#control, signalAt, threads)
  }

  /** Sleeps until a round begins that is not the round `known`; returns which one, or undefined at the end. */
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

  /** Begins no more rounds. */
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

  /** Waits until all draws of the round are made; false where they are not after `patienceMs`. */
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

  /** What the `nth` draw of the round gave. */
  token(nth: number): number {
    return this.#tokens[nth]!
  }
}
