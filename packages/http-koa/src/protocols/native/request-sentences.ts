import type { CacheOrigin, RequestReport, TimelineEntry, WaitReason } from '@cllm/core'

const reasons: Readonly<Record<WaitReason, string>> = {
  step: 'the running step had to end',
  slots: 'all slots were taken',
  cells: 'the KV cells of all slots were taken',
  budget: 'the prompts of others filled the steps',
  policy: 'the policy admitted nobody',
  order: 'a later request went first',
  deadline: 'a later request was due sooner',
  prefix: 'another request computed the prefix that both have',
}

const origins: Readonly<Record<Exclude<CacheOrigin['from'], 'none'>, string>> = {
  slot: 'which the slot had already',
  copy: 'copied from another slot',
  ram: 'restored from RAM',
  disk: 'restored from disk',
  checkpoint: 'of a slot that was cut back to a checkpoint',
}

const misses: Readonly<Record<NonNullable<CacheOrigin['why']>, string>> = {
  off: 'the request may use none',
  unknown: 'nothing begins like it',
  cannot_be_cut: 'no slot can be cut where they part',
  computing_is_faster: 'computing is faster',
  failed: 'they could not be restored',
}

/** A request's history in sentences: why it waited, what was computed for it, and how it ended. */
export function requestSentences({ usage, timeline }: RequestReport): string[] {
  const { promptTokens, generatedTokens } = usage
  const sentence = (entry: TimelineEntry): string | undefined => {
    switch (entry.type) {
      case 'queued':
        return undefined
      case 'waited': {
        const [first, ...others] = Object.entries(entry.reasons)
          .toSorted(([, a], [, b]) => b - a)
          .map(([reason, ms]) => `${reasons[reason as WaitReason]} (${duration(ms)})`)
        const more = others.length === 0 ? '' : `, then ${others.join(', ')}`
        const why = first === undefined ? '' : `: ${first}${more}`
        return `It waited ${duration(entry.untilMs - entry.atMs)}${why}.`
      }
      case 'admitted': {
        const { cachedTokens, cache, slot } = entry
        return `${at(entry)} it got slot ${slot}, with ${cached(cachedTokens, promptTokens, cache)}.`
      }
      case 'prefill': {
        const steps = count(entry.chunks, 'step')
        const ms = duration(entry.untilMs - entry.atMs)
        return `${count(entry.tokens, 'prompt token')} took ${ms} in ${steps}.`
      }
      case 'paused':
        return `${at(entry)} it stood still for ${duration(entry.untilMs - entry.atMs)}: ${count(entry.steps, 'step')} went by without it.`
      case 'preempted':
        return `${at(entry)} it lost its slot to another request, and waited again.`
      case 'first_token':
        return `Its first token came after ${duration(entry.atMs)}.`
      case 'end': {
        const { reason, message } = entry
        const end = message === undefined ? reason : `${reason}: ${message.replace(/\.$/, '')}`
        return `${at(entry)} it ended with ${count(generatedTokens, 'token')} (${end}).`
      }
    }
  }
  return timeline.flatMap((entry) => sentence(entry) ?? [])
}

function cached(tokens: number, promptTokens: number, cache?: CacheOrigin): string {
  const some = `${tokens} of ${promptTokens} prompt tokens computed before`
  if (cache === undefined) return some
  if (cache.from !== 'none') return `${some}, ${origins[cache.from]}`
  return cache.why === undefined ? some : `${some}, since ${misses[cache.why]}`
}

const at = ({ atMs }: TimelineEntry): string => `After ${duration(atMs)}`
const duration = (ms: number): string =>
  ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
const count = (many: number, what: string): string => `${many} ${what}${many === 1 ? '' : 's'}`
