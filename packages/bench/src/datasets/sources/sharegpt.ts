import { z } from 'zod'
import type { Dataset, WorkItem } from '../../workload/work-item.js'
import { datasetError } from '../dataset-error.js'
import { guessTokens } from '../guess-tokens.js'
import { listDataset } from '../list-dataset.js'
import { readJson } from '../read-json.js'

const conversations = z.array(
  z.object({ conversations: z.array(z.object({ from: z.string(), value: z.string() })) }),
)

/**
 * Conversations as ShareGPT's JSON has them: an array of `{conversations: [{from, value}, …]}`. The
 * first message is the prompt, and the length of its answer is the requested length; conversations
 * without an answer are left out, as in vLLM's benchmark.
 */
export function shareGptDataset(file: string): Dataset {
  const items = readJson(file, conversations).flatMap(
    ({ conversations: [first, second] }): WorkItem[] => {
      if (first === undefined || second === undefined || first.value === '') return []
      const prompt = first.value
      const outputTokens = guessTokens(second.value)
      return [{ prompt, inputTokens: guessTokens(prompt), outputTokens }]
    },
  )
  if (items.length === 0) throw datasetError(file, undefined, 'has no conversation with an answer')
  return listDataset('sharegpt', items)
}
