import type { EndedActivity } from '@cllm/core'

/** Where the first tokens of a request were, or why nowhere. */
export interface Origin {
  readonly from: string
  readonly why?: string
}

const hits: Readonly<Record<string, string>> = {
  slot: 'in the slot already',
  copy: 'copied from another slot',
  ram: 'restored from RAM',
  disk: 'restored from disk',
  checkpoint: 'cut back to a checkpoint',
}

const misses: Readonly<Record<string, string>> = {
  off: 'it may use none',
  unknown: 'nothing begins like it',
  cannot_be_cut: 'no slot can be cut where they part',
  computing_is_faster: 'computing them is faster',
  failed: 'they could not be restored',
}

/** How cached tokens came into a slot. */
export const hitText = (from: string): string => hits[from] ?? from

/** The same as the end of a sentence; nothing is known: empty. */
export function cacheText(origin: Origin | undefined): string {
  if (origin === undefined) return ''
  const { from, why } = origin
  if (from !== 'none') return `, ${hitText(from)}`
  return why === undefined ? '' : `: ${misses[why] ?? why}`
}

/** How many tokens of a prompt were there already, and where they were: `46 of 52, copied from …`. */
export function cachedText({ cachedTokens, promptTokens, cache }: EndedActivity): string {
  const origin = cachedTokens > 0 ? cacheText(cache ?? { from: 'slot' }) : ''
  return `${cachedTokens} of ${promptTokens}${origin}`
}

const reasons: Readonly<Record<string, string>> = {
  step: 'the running step had to end',
  slots: 'all slots were taken',
  cells: 'the KV cells of all slots were taken',
  budget: 'other prompts filled the steps',
  policy: 'the policy admitted nobody',
  order: 'a later one went first',
  deadline: 'a later one was due sooner',
  prefix: 'another one computes the same prefix',
}

/** A reason to wait, in words. */
export const reasonText = (reason: string): string => reasons[reason] ?? reason

/** The reason that took the longest. */
export const mainReason = (all: Readonly<Record<string, number>>): string =>
  Object.entries(all).sort(([, a], [, b]) => b - a)[0]?.[0] ?? 'step'
