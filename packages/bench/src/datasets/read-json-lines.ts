import type { z } from 'zod'
import { datasetError } from './dataset-error.js'
import { readText } from './read-text.js'

/** An object and the line, from 1, that it was on. */
export interface JsonLine<T> {
  readonly line: number
  readonly value: T
}

/**
 * The objects of a file with one JSON object per line; empty lines are skipped.
 *
 * @throws `invalid_dataset` with the line of the first object that does not match the schema
 */
export function readJsonLines<T>(file: string, schema: z.ZodType<T>): JsonLine<T>[] {
  return readText(file)
    .split(/\r?\n/)
    .flatMap((text, index) => {
      if (text.trim() === '') return []
      const line = index + 1
      let value: unknown
      try {
        value = JSON.parse(text)
      } catch (error) {
        throw datasetError(file, line, `not JSON: ${(error as Error).message}`)
      }
      const result = schema.safeParse(value)
      if (!result.success) throw datasetError(file, line, problemOf(result.error))
      return [{ line, value: result.data }]
    })
}

/** The first problem, with its field. */
export function problemOf(error: z.ZodError): string {
  const [issue] = error.issues
  const path = issue?.path.join('.') ?? ''
  return path === '' ? (issue?.message ?? 'not valid') : `${path}: ${issue?.message}`
}
