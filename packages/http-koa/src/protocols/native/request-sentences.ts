import type {
  CacheOrigin,
  PromptParting,
  RequestReport,
  TimelineEntry,
  WaitReason,
} from '@cllm/core'
import { missWords, originWords, waitWords } from '@cllm/core/words'

/** A request's history in sentences: why it waited, what was computed for it, and how it ended. */
export function requestSentences({ usage, timeline, parting }: RequestReport): string[] {
  const { promptTokens, generatedTokens } = usage
  const sentence = (entry: TimelineEntry): string | undefined => {
    switch (entry.type) {
      case 'queued':
        return undefined
      case 'waited': {
        const [first, ...others] = Object.entries(entry.reasons)
          .toSorted(([, a], [, b]) => b - a)
          .map(([reason, ms]) => `${waitWords[reason as WaitReason]} (${duration(ms)})`)
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
  return [...parted(parting), ...timeline.flatMap((entry) => sentence(entry) ?? [])]
}

const callsBefore: Readonly<Record<PromptParting['by'], string>> = {
  messages: 'the call before in its conversation',
  session: "its session's call before",
  prompt: "its program's call before",
}

/** Where its prompt is no longer that of the call before, and what that cost. */
function parted(parting: PromptParting | undefined): string[] {
  if (parting === undefined) return []
  const { before, by, token, message, role, isInContent, text, was, is, tokens, costMs } = parting
  const where = isInContent === true ? 'in' : 'before the content of'
  const place =
    message === undefined ? 'behind all messages' : `${where} message ${message} (${role})`
  const quoted = (said: string): string => JSON.stringify(said)
  const change = `: after ${quoted(text)} came ${quoted(was)}, and now ${quoted(is)}`
  const cost =
    tokens === 0
      ? 'It cost nothing: they were elsewhere.'
      : `${count(tokens, 'token')} had to be computed again, about ${duration(costMs)}.`
  return [
    `It parted from ${callsBefore[by]}, ${before}, at token ${token}, ${place}${change}.`,
    cost,
  ]
}

function cached(tokens: number, promptTokens: number, cache?: CacheOrigin): string {
  const some = `${tokens} of ${promptTokens} prompt tokens computed before`
  if (cache === undefined) return some
  if (cache.from !== 'none') return `${some}, ${originWords[cache.from]}`
  return cache.why === undefined ? some : `${some}, since ${missWords[cache.why]}`
}

const at = ({ atMs }: TimelineEntry): string => `After ${duration(atMs)}`
const duration = (ms: number): string =>
  ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`
const count = (many: number, what: string): string => `${many} ${what}${many === 1 ? '' : 's'}`
