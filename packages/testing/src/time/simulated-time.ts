import { setImmediate as turnOfTheEventLoop, setTimeout as wait } from 'node:timers/promises'
import type { SimulatedClock } from '@cllm/core'

/** Turns of the event loop in which everything that can happen without time passing has happened. */
const turnsUntilQuiet = 4
/** Turns without a timer after which nothing in this process will happen any more. */
const turnsUntilStuck = 500_000
/** After so many, it is left to others for a millisecond every hundred: a disk, or another process, may be slow. */
const turnsAtOnce = 20_000

async function letEverythingRun(): Promise<void> {
  for (let turn = 0; turn < turnsUntilQuiet; turn++) await turnOfTheEventLoop()
}

async function waitFor(turn: number): Promise<void> {
  await (turn > turnsAtOnce && turn % 100 === 0 ? wait(1) : turnOfTheEventLoop())
}

function advanceToNextTimer(clock: SimulatedClock, until: number): boolean {
  const next = clock.nextTimer()
  if (next === undefined || next > until) return false
  clock.advance(Math.max(0, next - clock.now()))
  return true
}

/**
 * Lets simulated time pass until the promise settles, and settles the same way: again and again what
 * can run runs, then the clock moves to its next timer. Wall time plays no part.
 *
 * @param patience turns of the event loop to wait for what does not come from a timer, such as an
 *   answer over a socket; default 500,000
 * @throws Error when the promise is pending and nothing is left that could settle it
 */
export async function drive<T>(
  clock: SimulatedClock,
  promise: Promise<T>,
  patience = turnsUntilStuck,
): Promise<T> {
  const state = { settled: false }
  const settle = () => {
    state.settled = true
  }
  promise.then(settle, settle)
  let idleTurns = 0
  while (!state.settled) {
    await letEverythingRun()
    if (state.settled) break
    idleTurns = advanceToNextTimer(clock, Infinity) ? 0 : idleTurns + turnsUntilQuiet
    if (idleTurns >= patience) {
      throw new Error(`drive: at ${clock.now()} ms no timer is left and the promise is pending`)
    }
    if (idleTurns > 0) await waitFor(idleTurns)
  }
  return promise
}

/**
 * Lets simulated time pass until no timer is left, or until the next one would be later than `until`
 * (milliseconds of the clock); then the clock stands at the last timer, or at `until`.
 */
export async function runUntilIdle(clock: SimulatedClock, until = Infinity): Promise<void> {
  do await letEverythingRun()
  while (advanceToNextTimer(clock, until))
  if (until !== Infinity) clock.advance(Math.max(0, until - clock.now()))
}

/**
 * Lets the event loop turn until something is so.
 *
 * @param patience turns to wait at most; default 500,000
 * @param what - describes in the error what did not happen
 */
export async function until(
  condition: () => boolean,
  patience = turnsUntilStuck,
  what = 'what was waited for',
): Promise<void> {
  for (let turn = 0; !condition(); turn++) {
    if (turn >= patience) throw new Error(`until: ${what} does not happen`)
    await waitFor(turn)
  }
}
