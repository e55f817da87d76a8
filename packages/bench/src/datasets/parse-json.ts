import type { z } from 'zod'
import { CllmError, defined, type Recording, recordingSchema } from '@cllm/core'

/**
 * The objects of a text with one JSON object per line, each with its line from 1; empty lines are skipped.
 *
 * @throws `invalid_dataset` with the line of the first object that does not match the schema
 */
export function parseJsonLines<T>(text: string, file: string, schema: z.ZodType<T>) {
  return text.split(/\r?\n/).flatMap((text, index) => {
    if (text.trim() === '') return []
    const line = index + 1
    return [{ line, value: parseJson(text, file, schema, 'not JSON', line) }]
  })
}

/**
 * The value of a JSON text.
 *
 * @param expected - what it could have been beside JSON, for the message
 * @param line - of the file, from 1; default: the text is the whole file
 * @throws `invalid_dataset` naming the file and its problem
 */
export function parseJson<T>(
  text: string,
  file: string,
  schema: z.ZodType<T>,
  expected = 'not JSON',
  line?: number,
): T {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw datasetError(file, line, `${expected}: ${(error as Error).message}`)
  }
  const result = schema.safeParse(value)
  if (!result.success) throw datasetError(file, line, problemOf(result.error))
  return result.data
}

/**
 * The recording in a text.
 *
 * @param file - its name, for messages
 * @throws `invalid_dataset` naming the file and its problem
 */
export const parseRecording = (text: string, file: string): Recording =>
  parseJson(text, file, recordingSchema) as Recording

/** The first problem, with its field. */
function problemOf(error: z.ZodError): string {
  const [issue] = error.issues
  const path = issue?.path.join('.') ?? ''
  return path === '' ? (issue?.message ?? 'not valid') : `${path}: ${issue?.message}`
}

/** An `invalid_dataset` error that names the file and, where known, the line (from 1). */
export function datasetError(file: string, line: number | undefined, problem: string): CllmError {
  const place = line === undefined ? file : `${file}:${line}`
  const details = defined({ file, line })
  return new CllmError('invalid_dataset', `${place}: ${problem}`, { details })
}
