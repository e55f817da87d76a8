import type { Recording } from '@cllm/core'
import { readText } from '../datasets/read-text.js'
import { parseRecording } from './recording-schema.js'

/**
 * Reads a recording. Apart from the schema, which the web page has as well and which reads no files.
 *
 * @throws `invalid_dataset` naming the file and its problem
 */
export const readRecording = (file: string): Recording => parseRecording(readText(file), file)
