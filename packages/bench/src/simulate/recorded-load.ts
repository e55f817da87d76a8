import { type Recording, recordingSchema } from '@cllm/core'
import { z } from 'zod'
import { recordedPrompts } from '@cllm/simulation'
import { datasetError, parseRecording } from '../datasets/parse-json.js'
import { listDataset, readText } from '../datasets/open-dataset.js'
import type { Dataset } from '../workload/work-item.js'

/**
 * The requests of a recording, at their arrival times. Requests that were refused before their
 * prompt was read are left out. An unfinished answer has the tokens that it had; a cancelled
 * request is cancelled at the same time after its arrival.
 *
 * @throws `invalid_dataset` when no request was accepted
 */
export function recordedLoad(recording: Recording, file: string): Dataset {
  const items = recordedPrompts(recording)
  if (items.length === 0) throw datasetError(file, undefined, 'has no request that was taken in')
  return listDataset(`recording ${file}`, items)
}

/** What to know of a replay without speculation, where the recorded server speculated. */
export function draftWarnings({ steps }: Pick<Recording, 'steps'>): readonly string[] {
  let [tokens, accepted] = [0, 0]
  for (const { drafts } of steps) {
    tokens += drafts?.tokens ?? 0
    accepted += drafts?.accepted ?? 0
  }
  if (tokens === 0) return []
  const share = (accepted / tokens).toFixed(2)
  return [`the recorded server speculated, the simulation does not: try --speculative ${share}`]
}

/**
 * Reads a recording. Apart from the schema, which the web page has as well and which reads no files.
 *
 * @throws `invalid_dataset` naming the file and its problem
 */
export const readRecording = (file: string): Recording => parseRecording(readText(file), file)

/** The schema of recordings as JSON Schema. */
export function recordingJsonSchema(): object {
  return z.toJSONSchema(recordingSchema, { io: 'input' })
}
