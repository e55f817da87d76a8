import type { TokenId } from '@cllm/core'
import type { Candidates } from '../candidates/candidates.js'
import type { FinalDraw } from './chain-step.js'

/** Chooses the likeliest token; of equal ones the first. */
export class GreedyDraw implements FinalDraw {
  readonly temperature = 0

  pick(candidates: Candidates): TokenId {
    return candidates.likeliest
  }
}
