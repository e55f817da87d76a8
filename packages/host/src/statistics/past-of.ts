import { type CacheStatistics, type EngineStatistics, defined } from '@cllm/core'

/** What an engine that has left memory had counted; nothing goes on in it any more. */
export function pastOf(statistics: EngineStatistics): EngineStatistics {
  const { waitMs: _, kvPool: __, recorder: ___, workers, cache, ...counted } = statistics
  return {
    ...counted,
    waiting: 0,
    running: 0,
    slots: [],
    ...defined({ cache: cache && emptied(cache), workers: workers && { ...workers, list: [] } }),
  }
}

/** The tiers of an engine that is gone: what they had counted, and nothing in them. */
export function emptied({ ram, disk, longestPauseMs }: CacheStatistics): CacheStatistics {
  const held = { states: 0, bytes: 0, limitBytes: 0 }
  return {
    ram: { ...ram, ...held },
    ...(disk !== undefined && { disk: { ...disk, ...held } }),
    longestPauseMs,
  }
}
