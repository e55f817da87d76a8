import seedrandom from 'seedrandom'
import { randomLogNormal, randomNormal, randomUniform } from 'd3-random'

/** Draws numbers from 0 to below 1. */
export type RandomSource = () => number

/**
 * A seeded source for one purpose. Sources of the same seed with different purposes are independent,
 * so that, say, another arrival rate does not change the prompts.
 */
export function randomSource(seed: number, ...purpose: readonly (string | number)[]): RandomSource {
  return seedrandom.alea([seed, ...purpose].join('/'))
}

/** How long things are, in tokens. */
export type LengthDistribution =
  | { readonly kind: 'fixed'; readonly tokens: number }
  | { readonly kind: 'uniform'; readonly min: number; readonly max: number }
  | { readonly kind: 'normal'; readonly mean: number; readonly deviation: number }
  | { readonly kind: 'lognormal'; readonly median: number; readonly sigma: number }

const number = String.raw`(\d+(?:\.\d+)?)`
const forms: readonly (readonly [RegExp, (a: number, b: number) => LengthDistribution])[] = [
  [RegExp(`^(?:fixed:)?${number}$`), (tokens) => ({ kind: 'fixed', tokens })],
  [RegExp(`^uniform:${number}-${number}$`), (min, max) => ({ kind: 'uniform', min, max })],
  [
    RegExp(`^normal:${number},${number}$`),
    (mean, deviation) => ({ kind: 'normal', mean, deviation }),
  ],
  [
    RegExp(`^lognormal:${number},${number}$`),
    (median, sigma) => ({ kind: 'lognormal', median, sigma }),
  ],
]

/**
 * Reads `128`, `uniform:64-256`, `normal:128,32` (mean, standard deviation) or `lognormal:128,0.5`
 * (median, standard deviation of the logarithm).
 *
 * @throws Error for anything else
 */
export function parseLengths(text: string): LengthDistribution {
  for (const [form, make] of forms) {
    const match = form.exec(text)
    if (match === null) continue
    const lengths = make(Number(match[1]), Number(match[2]))
    const smallest = Number(match[1])
    if (smallest < 1 || (lengths.kind === 'uniform' && lengths.max < lengths.min)) break
    return lengths
  }
  throw new Error('expected 128, uniform:64-256, normal:128,32 or lognormal:128,0.5, from 1 token')
}

/** A function that draws lengths: whole numbers from 1. */
export function lengthDrawer(lengths: LengthDistribution, random: RandomSource): () => number {
  const draw = drawer(lengths, random)
  return () => Math.max(1, Math.round(draw()))
}

function drawer(lengths: LengthDistribution, random: RandomSource): () => number {
  switch (lengths.kind) {
    case 'fixed':
      return () => lengths.tokens
    case 'uniform':
      return randomUniform.source(random)(lengths.min - 0.5, lengths.max + 0.5)
    case 'normal':
      return randomNormal.source(random)(lengths.mean, lengths.deviation)
    case 'lognormal':
      return randomLogNormal.source(random)(Math.log(lengths.median), lengths.sigma)
  }
}
