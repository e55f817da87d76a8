import { z } from 'zod'
import type { PromptPart } from '@cllm/simulation'
import type { WorkItem } from '../../workload/work-item.js'
import { datasetError, parseJsonLines } from '../parse-json.js'

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
 * The requests in the text of a {@link mooncakeTrace}.
 *
 * @param file - its name, for messages
 * @throws `invalid_dataset`
 */
export function mooncakeItems(text: string, file: string): WorkItem[] {
  const requests = parseJsonLines(text, file, request)
  const begin = requests[0]?.value.timestamp ?? 0
  let before = begin
  return requests.map(({ line, value: entry }, index) => {
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
}

function blocks(ids: readonly number[], inputTokens: number, index: number): PromptPart[] {
  const segments: PromptPart[] = []
  let left = inputTokens
  for (const id of ids) {
    if (left <= 0) break
    segments.push({ key: `block ${id}`, tokens: Math.min(blockTokens, left) })
    left -= blockTokens
  }
  if (left > 0) segments.push({ key: `item ${index}`, tokens: left })
  return segments
}
