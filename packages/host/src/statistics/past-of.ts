import {
  type CacheStatistics,
  type EncodeStatistics,
  type EngineStatistics,
  defined,
} from '@cllm/core'

/** What an engine that has left memory had counted; nothing goes on in it any more. */
export function pastOf(statistics: EngineStatistics): EngineStatistics {
  const { waitMs: _, kvPool: __, recorder: ___, workers, ...counted } = statistics
  return {
    ...counted,
    waiting: 0,
    running: 0,
    slots: [],
    ...pastParts(statistics),
    ...defined({ workers: workers && { ...workers, list: [] } }),
  }
}

/** What an encoder that is gone had done. */
const idle = (encodes: EncodeStatistics): EncodeStatistics => ({
  ...encodes,
  waiting: 0,
  waitMs: 0,
})

/** The same of what an engine may not have: the tiers, and images and sounds. */
export const pastParts = ({ cache, encodes }: Pick<EngineStatistics, 'cache' | 'encodes'>) =>
  defined({ cache: cache && emptied(cache), encodes: encodes && idle(encodes) })

/** The tiers of an engine that is gone: what they had counted, and nothing in them. */
function emptied({ ram, disk, longestPauseMs }: CacheStatistics): CacheStatistics {
  const held = { states: 0, bytes: 0, limitBytes: 0 }
  return {
    ram: { ...ram, ...held },
    ...(disk !== undefined && { disk: { ...disk, ...held } }),
    longestPauseMs,
  }
}
