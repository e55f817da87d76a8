import { AsyncLocalStorage } from 'node:async_hooks'
import { createHash } from 'node:crypto'

const seeds = new AsyncLocalStorage<() => number>()

/**
 * Runs what computes a line with this seed for requests that have none, so that a line that is computed
 * twice has the same answer.
 */
export function withSeed<T>(seed: number, run: () => T): T {
  let count = 0
  return seeds.run(() => (seed + count++) >>> 0, run)
}

/** The seed for a request of a line; undefined outside of any. */
export const seedOfLine = (): number | undefined => seeds.getStore()?.()

/** A line's seed: the same each time that it is computed. */
export function lineSeed(batch: string, line: number): number {
  return createHash('sha256').update(`${batch}:${line}`).digest().readUInt32LE()
}
