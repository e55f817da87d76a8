import { z } from 'zod'
import type { Dataset, PromptSegment } from '../../workload/work-item.js'
import { datasetError } from '../dataset-error.js'
import { listDataset } from '../list-dataset.js'
import { readJsonLines } from '../read-json-lines.js'

/** Tokens per hash id. */
const blockTokens = 512

const count = z.int().nonnegative()
const request = z.object({
  timestamp: z.number().nonnegative(),
  input_length: count,
  output_length: count,
  hash_ids: z.array(z.int()).default([]),
})

/**
 * A trace in Mooncake's JSONL format (kvcache-ai/Mooncake): `timestamp` (ms), `input_length`,
 * `output_length`, `hash_ids`: one per 512-token block of the prompt. Equal ids become equal text, so
 * prefixes are shared as they were.
 */
export function mooncakeTrace(file: string): Dataset {
  const requests = readJsonLines(file, request)
  const begin = requests[0]?.value.timestamp ?? 0
  let before = begin
  const items = requests.map(({ line, value: entry }, index) => {
    if (entry.timestamp < before) {
      throw datasetError(file, line, 'timestamp: earlier than the one before')
    }
    before = entry.timestamp
    const inputTokens = Math.max(1, entry.input_length)
    return {
      prompt: blocks(entry.hash_ids, inputTokens, index),
      inputTokens,
      outputTokens: Math.max(1, entry.output_length),
      atMs: entry.timestamp - begin,
    }
  })
  return listDataset('mooncake', items)
}

function blocks(ids: readonly number[], inputTokens: number, index: number): PromptSegment[] {
  const segments: PromptSegment[] = []
  let left = inputTokens
  for (const id of ids) {
    if (left <= 0) break
    segments.push({ key: `block ${id}`, tokens: Math.min(blockTokens, left) })
    left -= blockTokens
  }
  if (left > 0) segments.push({ key: `item ${index}`, tokens: left })
  return segments
}
