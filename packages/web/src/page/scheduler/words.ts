import type { EndedActivity } from '@cllm/core'
import { originWords, waitWords } from '@cllm/core/words'

type Words = Readonly<Record<string, string>>
const hits: Words = originWords
const reasons: Words = waitWords

/** How cached tokens came into a slot. */
export const hitText = (from: string): string => hits[from] ?? from

/** How many tokens of a prompt were there already, and where they were: `46 of 52, copied from …`. */
export function cachedText({ cachedTokens, promptTokens, cache }: EndedActivity): string {
  const origin = cachedTokens > 0 ? `, ${hitText(cache?.from ?? 'slot')}` : ''
  return `${cachedTokens} of ${promptTokens}${origin}`
}

/** A reason to wait, in words. */
export const reasonText = (reason: string): string => reasons[reason] ?? reason

/** The reason that took the longest. */
export const mainReason = (all: Readonly<Record<string, number>>): string =>
  Object.entries(all).sort(([, a], [, b]) => b - a)[0]?.[0] ?? 'step'
