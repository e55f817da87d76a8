import { nextNumber } from '@cllm/core'
import type { WorkItem } from '../workload/work-item.js'

/**
 * Token ids that stand for an item's prompt: equal where two prompts have the same text, and as good
 * as never equal elsewhere. A prompt that is a text is taken as a whole.
 *
 * @param lap - counts how often a dataset has begun anew: its prompts are others each time
 */
export function tokenIds(item: WorkItem, lap = 0): number[] {
  const { prompt, inputTokens } = item
  const segments =
    typeof prompt === 'string' ? [{ key: `text ${prompt}`, tokens: inputTokens }] : prompt
  const ids: number[] = []
  for (const { key, tokens } of segments) {
    let state = hashOf(lap === 0 ? key : `${lap} ${key}`)
    for (let index = 0; index < tokens; index++) {
      state = nextNumber(state)
      // 0 is what a simulated model says.
      ids.push(1 + (state >>> 3))
    }
  }
  return ids
}

/** FNV-1a over the characters, mixed once more so that like keys begin with unlike tokens. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5
  for (let index = 0; index < key.length; index++) {
    hash = Math.imul(hash ^ key.charCodeAt(index), 0x01000193)
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  return (hash ^ (hash >>> 13)) >>> 0
}
