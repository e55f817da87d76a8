import type { ProposerDefinition } from '../../contracts/definition.js'

/** Types a proposer's `create` by its options, and returns the definition as it is. */
export function defineProposer<Options>(
  proposer: ProposerDefinition<Options>,
): ProposerDefinition<Options> {
  return proposer
}
