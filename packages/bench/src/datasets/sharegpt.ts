import { z } from 'zod'
import type { Dataset, WorkItem } from '../workload/work-item.js'
import { datasetError } from './dataset-error.js'
import { guessTokens } from './guess-tokens.js'
import { listDataset } from './list-dataset.js'
import { problemOf } from './read-json-lines.js'
import { readText } from './read-text.js'

const conversations = z.array(
  z.object({ conversations: z.array(z.object({ from: z.string(), value: z.string() })) }),
)

/**
 * Conversations as ShareGPT's JSON has them: an array of `{conversations: [{from, value}, …]}`. The
 * first message is the prompt, the length of its answer is what is asked for; conversations without
 * an answer are left out, as vLLM's benchmark does.
 */
export function shareGptDataset(file: string): Dataset {
  let value: unknown
  try {
    value = JSON.parse(readText(file))
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
    throw datasetError(file, undefined, `not JSON: ${error.message}`)
  }
  const result = conversations.safeParse(value)
  if (!result.success) throw datasetError(file, undefined, problemOf(result.error))
  const items = result.data.flatMap(({ conversations: [first, second] }): WorkItem[] => {
    if (first === undefined || second === undefined || first.value === '') return []
    const prompt = first.value
    const outputTokens = guessTokens(second.value)
    return [{ prompt, inputTokens: guessTokens(prompt), outputTokens }]
  })
  if (items.length === 0) throw datasetError(file, undefined, 'has no conversation with an answer')
  return listDataset('sharegpt', items)
}
