// For pages, which have no files: what this leads to needs nothing of Node.
import type { SimulatedRequest } from '@cllm/simulation'
import { azureItems, mooncakeItems } from './datasets/trace-items.js'
import { tokenIds } from './workload/work-item.js'

export { parseRecording } from './datasets/parse-json.js'

/**
 * The first requests in the text of a trace, at their times: JSON lines are Mooncake's, others Azure's CSV.
 *
 * @param file - its name, for messages
 * @param count - the most
 * @throws `invalid_dataset`
 */
export function tracedRequests(text: string, file: string, count: number): SimulatedRequest[] {
  const read = text.trimStart().startsWith('{') ? mooncakeItems : azureItems
  return read(text, file)
    .slice(0, count)
    .map((item, index) => ({
      id: String(index),
      arrival: item.atMs ?? 0,
      prompt: () => tokenIds(item),
      maxTokens: item.outputTokens,
    }))
}
