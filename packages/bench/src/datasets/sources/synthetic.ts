import { randomSource } from '../../statistics/random-source.js'
import { lengthDrawer, type LengthDistribution } from '../../workload/length-distribution.js'
import type { Dataset } from '../../workload/work-item.js'

/** Options of a synthetic load. */
export interface SyntheticOptions {
  readonly inputLengths: LengthDistribution
  readonly outputLengths: LengthDistribution
  /** Share of each prompt, from its beginning, that its group has in common; 0 to 1, default 0. */
  readonly sharedPrefix?: number
  /** How many such groups there are; default 1. */
  readonly prefixGroups?: number
  readonly seed: number
}

/** An endless dataset with random lengths. */
export function syntheticDataset(options: SyntheticOptions): Dataset {
  const { inputLengths, outputLengths, sharedPrefix = 0, prefixGroups = 1, seed } = options
  return {
    name: 'synthetic',
    timed: false,
    item(index) {
      // A random source per item, so that an item does not depend on earlier calls.
      const random = randomSource(seed, 'synthetic', index)
      const inputTokens = lengthDrawer(inputLengths, random)()
      const shared = Math.round(inputTokens * sharedPrefix)
      const group = Math.floor(random() * prefixGroups)
      const prompt = [
        { key: `group ${group}`, tokens: shared },
        { key: `item ${index}`, tokens: inputTokens - shared },
      ].filter(({ tokens }) => tokens > 0)
      return { prompt, inputTokens, outputTokens: lengthDrawer(outputLengths, random)() }
    },
  }
}
