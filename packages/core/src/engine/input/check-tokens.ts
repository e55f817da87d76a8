import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'

/** Throws `invalid_token` naming the field and the first id that is outside the vocabulary. */
export function checkTokens(field: string, tokens: readonly TokenId[], tokenizer: Tokenizer): void {
  const size = tokenizer.vocabularySize
  const at = tokens.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= size)
  if (at === -1) return
  const expected = `token ids from 0 to ${size - 1}`
  const received = String(tokens[at])
  const message = `${field}: expected ${expected}, instead got ${received}`
  throw new CllmError('invalid_token', message, { details: { field, expected, received } })
}
