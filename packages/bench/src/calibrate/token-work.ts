import { nextNumber } from '@cllm/core'

/** The same work for every stage: a number of sequences, each with a prompt and tokens to draw. */
export interface TokenWork {
  readonly sequences: number
  readonly promptTokens: number
  readonly outputTokens: number
}

/** Prompts that share no prefix with prompts of another round. */
export function promptsOf(work: TokenWork, vocabularySize: number, round: number): number[][] {
  let state = Math.imul(round + 1, 0x9e3779b1) >>> 0
  return Array.from({ length: work.sequences }, () =>
    Array.from({ length: work.promptTokens }, () => {
      state = nextNumber(state)
      // Special tokens are mostly at the ends of a vocabulary.
      return Math.floor(vocabularySize / 8) + ((state >>> 8) % Math.ceil(vocabularySize / 2))
    }),
  )
}

/** How every stage samples, as far as it does. */
export const workSampling = { temperature: 0.7, topK: 40, topP: 0.9, seed: 1 } as const
