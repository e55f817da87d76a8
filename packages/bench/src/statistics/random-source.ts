import seedrandom from 'seedrandom'

/** Draws numbers from 0 to below 1. */
export type RandomSource = () => number

/**
 * A seeded source for one purpose. Sources of the same seed with different purposes are independent,
 * so that, say, another arrival rate does not change the prompts.
 */
export function randomSource(seed: number, ...purpose: readonly (string | number)[]): RandomSource {
  return seedrandom.alea([seed, ...purpose].join('/'))
}
