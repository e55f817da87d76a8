import type { TokenId } from '@cllm/core'
import type { Candidates } from '../candidates/candidates.js'
import type { DrawRandom } from '../random.js'

/** Changes the logits of single tokens before any is left out. */
export interface LogitChange {
  /** @param history - all tokens before the one that is drawn */
  apply(logits: Float32Array, history: readonly TokenId[]): void
}

/** Leaves out candidates, or changes all of their logits. At least one is left. */
export interface ChainStep {
  apply(candidates: Candidates, random: DrawRandom): void
}

/** Chooses one of the candidates that the steps have left. */
export interface FinalDraw {
  pick(candidates: Candidates, random: DrawRandom): TokenId
  /** The temperature of the last draw; 0 where the likeliest was taken. */
  readonly temperature: number
}
