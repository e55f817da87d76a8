import type { Recording } from '@cllm/core'
import { recordedPrompt } from '@cllm/simulation'
import { datasetError } from '../datasets/dataset-error.js'
import { listDataset } from '../datasets/list-dataset.js'
import type { Dataset } from '../workload/work-item.js'

/**
 * The requests of a recording, at their arrival times. Requests that were refused before their
 * prompt was read are left out. An unfinished answer has the tokens that it had; a cancelled
 * request is cancelled at the same time after its arrival.
 *
 * @throws `invalid_dataset` when no request was accepted
 */
export function recordedLoad(recording: Recording, file: string): Dataset {
  const taken = recording.arrivals.filter(({ promptTokens = 0 }) => promptTokens > 0)
  const begin = Math.min(...taken.map(({ atMs }) => atMs))
  const items = taken.map((arrival, index) => {
    const { parts, promptTokens, answerTokens, settings } = recordedPrompt(
      arrival,
      index,
      recording.blockTokens,
    )
    return {
      prompt: parts,
      inputTokens: promptTokens,
      outputTokens: answerTokens,
      request: settings,
      atMs: arrival.atMs - begin,
    }
  })
  if (items.length === 0) throw datasetError(file, undefined, 'has no request that was taken in')
  return listDataset(`recording ${file}`, items)
}
