import { type ArrivalRecord, defined, type Recording } from '@cllm/core'
import { datasetError } from '../datasets/dataset-error.js'
import { listDataset } from '../datasets/list-dataset.js'
import type { Dataset, PromptSegment, WorkItem } from '../workload/work-item.js'

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
    return { ...itemOf(arrival, index, recording.blockTokens), atMs: arrival.atMs - begin }
  })
  if (items.length === 0) throw datasetError(file, undefined, 'has no request that was taken in')
  return listDataset(`recording ${file}`, items)
}

function itemOf(arrival: ArrivalRecord, index: number, blockTokens: number): WorkItem {
  const { promptTokens = 0, blocks } = arrival
  const tail = promptTokens - blocks.length * blockTokens
  const prompt: PromptSegment[] = blocks.map((block) => ({
    key: `block ${block}`,
    tokens: blockTokens,
  }))
  if (tail > 0) prompt.push({ key: `tail ${index}`, tokens: tail })
  return {
    prompt,
    inputTokens: promptTokens,
    outputTokens: answerTokens(arrival),
    request: requestOf(arrival),
  }
}

function answerTokens({ end, tokens, maxTokens = tokens }: ArrivalRecord): number {
  const isCut = end === 'cancelled' || end === 'timeout'
  return Math.max(1, isCut ? maxTokens : tokens)
}

function requestOf(arrival: ArrivalRecord): NonNullable<WorkItem['request']> {
  const { priority, deadlineMs, tenant, session, stepGroup, cache, end, endMs } = arrival
  const timeoutMs = arrival.timeoutMs ?? (end === 'timeout' ? endMs : undefined)
  const cancelAfterMs = end === 'cancelled' ? endMs : undefined
  return defined({
    priority,
    deadlineMs,
    timeoutMs,
    tenant,
    session: session === undefined ? undefined : String(session),
    stepGroup,
    cache,
    cancelAfterMs,
  })
}
