import { blockSize, type EngineInfo, type EngineStatistics } from '@cllm/core'
import type { loadMetrics } from './metric-table.js'

/** A sample of one of {@link loadMetrics}, with its labels besides the model's name. */
export interface LoadSample {
  readonly name: (typeof loadMetrics)[number]
  readonly value: number
  readonly more?: Readonly<Record<string, string>>
}

/** How busy an engine is, or the workers of a model together. */
export interface Load {
  /** Tokens in slots of requests that run; in a pool at most those that are in its cells. */
  readonly runningTokens: number
  /** Tokens in idle slots. */
  readonly keptTokens: number
  /** Tokens that all slots together can hold. */
  readonly capacity: number
  /** What `/metrics/load` says of it. */
  readonly series: readonly LoadSample[]
}

/** Works out the load. What an engine's info says of its size is of one worker, the statistics are of all. */
export function loadOf({ limits }: EngineInfo, statistics: EngineStatistics): Load {
  const { running, waiting, waitMs, slots, kvPool } = statistics
  const capacity = kvPool?.tokens ?? slots.length * limits.contextSize
  let [runningTokens, keptTokens] = [0, 0]
  for (const { state, tokens } of slots) {
    if (state === 'idle') keptTokens += tokens
    else runningTokens += tokens
  }
  // slots of a pool that share a prefix have it in the same cells
  if (kvPool !== undefined) runningTokens = Math.min(runningTokens, kvPool.tokens - kvPool.free)
  const blocks = {
    block_size: String(blockSize),
    num_gpu_blocks: String(Math.floor(capacity / blockSize)),
  }
  const series: LoadSample[] = [
    { name: 'cllm_num_requests_running', value: running },
    { name: 'cllm_num_requests_waiting', value: waiting },
    { name: 'cllm_kv_cache_usage_perc', value: runningTokens / Math.max(1, capacity) },
    { name: 'cllm_cache_config_info', value: 1, more: blocks },
  ]
  if (waitMs !== undefined) {
    series.push({ name: 'cllm_predicted_wait_seconds', value: waitMs / 1000 })
  }
  return { runningTokens, keptTokens, capacity, series }
}
