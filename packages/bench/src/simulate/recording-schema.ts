import { type Recording, recordingSchema } from '@cllm/core'
import { z } from 'zod'
import { parseJson } from '../datasets/parse-json.js'

/** The schema of recordings as JSON Schema. */
export function recordingJsonSchema(): object {
  return z.toJSONSchema(recordingSchema, { io: 'input' })
}

/**
 * The recording in a text.
 *
 * @param file - its name, for messages
 * @throws `invalid_dataset` naming the file and its problem
 */
export const parseRecording = (text: string, file: string): Recording =>
  parseJson(text, file, recordingSchema) as Recording
