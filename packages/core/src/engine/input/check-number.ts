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
