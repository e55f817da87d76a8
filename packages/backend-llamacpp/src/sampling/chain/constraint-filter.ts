import type { TokenId } from '@cllm/core'
import type { NativeGrammarState } from '../../native/native.js'

/** Asks llama.cpp which tokens a grammar allows next. */
export interface GrammarFilter {
  /** Sets the logits of those of the first `size` tokens to −Infinity that it does not allow. */
  forbid(state: NativeGrammarState, ids: Int32Array, logits: Float32Array, size: number): void
}

const oneId = new Int32Array(1)
const oneLogit = new Float32Array(1)

/** Whether the grammar allows this token. */
export function allows(filter: GrammarFilter, state: NativeGrammarState, token: TokenId): boolean {
  oneId[0] = token
  oneLogit[0] = 1
  filter.forbid(state, oneId, oneLogit, 1)
  return oneLogit[0] > -Infinity
}
