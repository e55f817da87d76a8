import type { ProposerDefinition, TokenId } from '@cllm/core'

/** What a simulated model says where it says what is expected. */
export const expected: TokenId = 0

/** Always guesses the expected tokens: how often that is right is up to the {@link SimulatedBackend}. */
export const simulatedProposer: ProposerDefinition = {
  name: 'simulated',
  doc: 'Guesses what a simulated model is expected to say.',
  create: () => ({
    begin: () => ({
      propose: (_, most) => ({ tokens: Array.from({ length: most }, () => expected) }),
    }),
  }),
}
