import type { EngineCosts } from '../costs/engine-costs.js'
import type { PrefixIndex } from '../engine-parts.js'
import type { Sequence } from '../requests/sequence.js'
import { bestSources, reach } from './choose-slot.js'
import type { StateCache } from './states/state-cache.js'

/** How many tokens of a sequence are somewhere from where it is cheaper to have them than to compute them. */
export function lookUp(
  sequence: Sequence,
  index: PrefixIndex,
  costs: EngineCosts,
  states: StateCache,
): number {
  let most: number
  if (states.cutsAnywhere) {
    const idle = index.idle(sequence)
    const running = index.running(sequence)
    const isWorthIt = costs.steps.tokensMs(running - idle) > costs.copyMs
    most = running > idle && isWorthIt ? running : idle
  } else {
    const sources = bestSources(sequence, index)
    const reached = sources.flatMap((match) => reach(sequence, match, states))
    most = Math.max(0, ...reached.map(({ shared }) => shared))
  }
  const found = states.find(sequence)
  if (found === undefined || found.shared <= most) return most
  return costs.steps.tokensMs(found.shared - most) > states.loadMs(found) ? found.shared : most
}

/** How many tokens it begins with that some conversation has, of which maybe none can be used. */
export function knownTokens(sequence: Sequence, index: PrefixIndex, states: StateCache): number {
  return Math.max(index.idle(sequence), index.running(sequence), states.known(sequence))
}
