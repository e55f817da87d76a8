import { readFileSync } from 'node:fs'
import { datasetError } from './dataset-error.js'

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
    throw datasetError(file, undefined, `cannot be read: ${(error as Error).message}`)
  }
  if (text.trim() === '') throw datasetError(file, undefined, 'is empty')
  return text
}
