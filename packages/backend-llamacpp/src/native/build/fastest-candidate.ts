import type { Candidate, Figures } from './build-info.js'

/** A library that was built is used from this gain on: less is within what measurements differ by. */
const leastGain = 1.01

/** How many times as fast as another, over prefill and all widths: the geometric mean. */
export function gainOver(figures: Figures, other: Figures): number {
  const ratios = rates(figures).map((rate, index) => rate / rates(other)[index]!)
  return Math.exp(ratios.reduce((sum, ratio) => sum + Math.log(ratio), 0) / ratios.length)
}

/** The fastest of those that were measured. */
export function fastestOf(
  figures: Readonly<Partial<Record<Candidate, Figures>>> & { readonly prebuilt: Figures },
): Candidate {
  let fastest: Candidate = 'prebuilt'
  let gain = leastGain
  for (const name of ['plain', 'openmp'] as const) {
    const own = figures[name]
    if (own === undefined || gainOver(own, figures.prebuilt) < gain) continue
    fastest = name
    gain = gainOver(own, figures.prebuilt)
  }
  return fastest
}

function rates({ prefill, decode }: Figures): number[] {
  return [prefill, ...decode]
}
