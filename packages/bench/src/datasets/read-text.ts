import { readFileSync } from 'node:fs'
import { datasetError, parseJson } from './parse-json.js'
import type { z } from 'zod'

/**
 * The text of a file.
 *
 * @throws `invalid_dataset` when it cannot be read or has nothing in it
 */
export function readText(file: string): string {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    throw datasetError(file, undefined, code === 'ENOENT' ? 'there is no such file' : message)
  }
  if (text.trim() === '') throw datasetError(file, undefined, 'is empty')
  return text
}

/**
 * Reads a JSON file.
 *
 * @param expected - what it could have been beside JSON, for the message
 * @throws `invalid_dataset` naming the file and its problem
 */
export const readJson = <T>(file: string, schema: z.ZodType<T>, expected?: string): T =>
  parseJson(readText(file), file, schema, expected)
