import type { z } from 'zod'
import { parseJson } from './parse-json.js'
import { readText } from './read-text.js'

/**
 * Reads a JSON file.
 *
 * @param expected - what it could have been beside JSON, for the message
 * @throws `invalid_dataset` naming the file and its problem
 */
export const readJson = <T>(file: string, schema: z.ZodType<T>, expected?: string): T =>
  parseJson(readText(file), file, schema, expected)
