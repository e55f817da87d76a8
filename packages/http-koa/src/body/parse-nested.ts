import { CllmError } from '@cllm/core'
import { defaultJsonDepth, isDeeperThan } from './read-json-body.js'

/**
 * The value of JSON that a field of a body holds as a text, which the limit of the body's own depth does
 * not look into.
 *
 * @param what - what the field expects, for the message
 * @throws `invalid_request`
 */
export function parseNested(text: string, field: string, what: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (cause) {
    const message = `${field}: expected ${what}`
    throw new CllmError('invalid_request', message, { details: { field }, cause })
  }
  if (!isDeeperThan(text, defaultJsonDepth)) return value
  const message = `${field}: expected JSON of at most ${defaultJsonDepth} levels, instead got more`
  throw new CllmError('invalid_request', message, { details: { field, limit: defaultJsonDepth } })
}
