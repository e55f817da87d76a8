import type { Continuation } from '../../contracts/engine/engine-client.js'
import type { Tokenizer } from '../../contracts/model/tokenizer.js'
import { checkNumber, invalidField } from './check-number.js'
import { checkTokens } from './check-tokens.js'

/** Throws `invalid_request` or `invalid_token` for what cannot be taken up. */
export function checkContinuation(
  continued: Continuation | undefined,
  maxTokens: number,
  { tokenizer }: { readonly tokenizer: Tokenizer },
): void {
  if (continued === undefined) return
  const { tokens, elapsedMs, firstTokenMs = 0 } = continued
  if (!Array.isArray(tokens)) {
    throw invalidField('continued.tokens', 'an array of token ids', tokens)
  }
  checkTokens('continued.tokens', tokens, tokenizer)
  checkNumber('continued.tokens.length', tokens.length, { max: maxTokens - 1, integer: true })
  checkNumber('continued.elapsedMs', elapsedMs, { min: 0 })
  checkNumber('continued.firstTokenMs', firstTokenMs, { min: 0, max: elapsedMs })
}
