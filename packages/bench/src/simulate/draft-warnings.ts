import type { Recording } from '@cllm/core'

/** What to know of a replay without speculation, where the recorded server speculated. */
export function draftWarnings({ steps }: Pick<Recording, 'steps'>): readonly string[] {
  let [tokens, accepted] = [0, 0]
  for (const { drafts } of steps) {
    tokens += drafts?.tokens ?? 0
    accepted += drafts?.accepted ?? 0
  }
  if (tokens === 0) return []
  const share = (accepted / tokens).toFixed(2)
  return [`the recorded server speculated, the simulation does not: try --speculative ${share}`]
}
