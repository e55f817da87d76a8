import type { Continuation } from '../../contracts/engine/generate-request.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'
import { CllmError } from '../../errors/cllm-error.js'

/** What a number may be. */
export interface NumberRange {
  readonly min?: number
  readonly max?: number
  readonly integer?: boolean
}

/** Throws `invalid_request` naming the field, what was expected and what came. */
export function checkNumber(field: string, value: unknown, range: NumberRange): void {
  const { min = -Infinity, max = Infinity, integer = false } = range
  const fits =
    typeof value === 'number' &&
    (integer ? Number.isSafeInteger(value) : Number.isFinite(value)) &&
    value >= min &&
    value <= max
  if (fits) return
  const bounds = [
    ...(min === -Infinity ? [] : [`at least ${min}`]),
    ...(max === Infinity ? [] : [`at most ${max}`]),
  ].join(' and ')
  const expected = `${integer ? 'an integer' : 'a number'}${bounds === '' ? '' : ` of ${bounds}`}`
  throw invalidField(field, expected, value)
}

/** The error for a field that is not what was expected. */
export function invalidField(field: string, expected: string, received: unknown): CllmError {
  // JSON would show NaN and infinity as null.
  const isNumber = typeof received === 'number'
  const shown = isNumber ? String(received) : (JSON.stringify(received) ?? typeof received)
  const short = shown.length > 80 ? `${shown.slice(0, 77)}…` : shown
  return new CllmError('invalid_request', `${field}: expected ${expected}, instead got ${short}`, {
    details: { field, expected, received: short },
  })
}

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
