import type { z } from 'zod'
import { datasetError } from './dataset-error.js'
import { problemOf } from './read-json-lines.js'
import { readText } from './read-text.js'

/**
 * Reads a JSON file.
 *
 * @param expected - what it could have been beside JSON, for the message
 * @throws `invalid_dataset` naming the file and its problem
 */
export function readJson<T>(file: string, schema: z.ZodType<T>, expected = 'not JSON'): T {
  let value: unknown
  try {
    value = JSON.parse(readText(file))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw datasetError(file, undefined, `${expected}: ${error.message}`)
  }
  const result = schema.safeParse(value)
  if (!result.success) throw datasetError(file, undefined, problemOf(result.error))
  return result.data
}
