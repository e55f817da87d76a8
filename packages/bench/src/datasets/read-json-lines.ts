import type { z } from 'zod'
import { type JsonLine, parseJsonLines } from './parse-json.js'
import { readText } from './read-text.js'

/**
 * The objects of a file with one JSON object per line; empty lines are skipped.
 *
 * @throws `invalid_dataset` with the line of the first object that does not match the schema
 */
export const readJsonLines = <T>(file: string, schema: z.ZodType<T>): JsonLine<T>[] =>
  parseJsonLines(readText(file), file, schema)
