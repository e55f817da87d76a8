import { CllmError, defined } from '@cllm/core'
import type {
  EngineDirectory,
  RequestReport,
  Timings,
  Usage,
  CacheOrigin,
  PromptParting,
  TimelineEntry,
  WaitReason,
} from '@cllm/core'
import type { Answer, Call } from '../../routes/route.js'
import { inSnakeCase } from '../../fields/fields.js'
import { loadedModels } from '../../engines/model-queries.js'
import { missWords, originWords, waitWords } from '@cllm/core/words'

/** `GET /requests/{id}`: the history of a request of any engine. */
export async function requestReport(call: Call): Promise<Answer> {
  const { id = '' } = call.params
  const report = await find(call.engines, id)
  const { usage, timings, timeline, forecast, parting, queuePosition, ...rest } = report
  const told = timeline.map((entry) => sentenceOf(entry, usage))
  return {
    success: true,
    data: {
      ...rest,
      ...defined({
        queue_position: queuePosition,
        forecast: forecast && inSnakeCase(forecast),
        parting: parting && inSnakeCase(parting),
      }),
      timings: describeTimings(timings, usage),
      timeline: timeline.map((entry, index) => {
        return { ...inSnakeCase(entry), ...defined({ sentence: told[index] }) }
      }),
      sentences: [...parted(parting), ...told.filter((sentence) => sentence !== undefined)],
    },
  }
}

async function find(directory: EngineDirectory, id: string): Promise<RequestReport> {
  const message = `No running or recently finished request has the id "${id}": expected the X-Request-Id or the id of an answer`
  let failure: unknown = new CllmError('request_not_found', message, { details: { id } })
  // An answer's id is its request's with a prefix for its kind.
  for (const name of new Set([id, id.replace(/^(?:chatcmpl-|cmpl-|msg_)/, '')])) {
    for (const model of loadedModels(directory)) {
      try {
        return await directory.open(model, { peek: true }).explain(name)
      } catch (error) {
        // An engine that does not answer must not hide the report of another one.
        if (!CllmError.isInstance(error) || error.code !== 'request_not_found') failure = error
      }
    }
  }
  throw failure
}

/** A request's timings, for `"timings": true` and `GET /requests/{id}`. */
export function describeTimings(timings: Timings, usage: Usage) {
  return {
    queue_ms: timings.queueMs,
    prefill_ms: timings.prefillMs,
    decode_ms: timings.decodeMs,
    ttft_ms: timings.firstTokenMs,
    total_ms: timings.totalMs,
    prompt_tokens: usage.promptTokens,
    cached_tokens: usage.cachedTokens,
    generated_tokens: usage.generatedTokens,
    prefill_chunks: timings.prefillChunks,
    preemptions: timings.preemptions,
    ...(timings.draftTokens !== undefined && {
      draft_tokens: timings.draftTokens,
      accepted_tokens: timings.acceptedTokens ?? 0,
    }),
  }
}

/** An event of a request's history as a sentence: why it waited, what was computed for it, or how it ended. */
function sentenceOf(
  entry: TimelineEntry,
  { promptTokens, generatedTokens }: Usage,
): string | undefined {
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

const callsBefore: Readonly<Record<PromptParting['by'], string>> = {
  messages: 'the previous call of its conversation',
  session: 'the previous call of its session',
  prompt: 'the previous call of its program',
}

/** Where the prompt begins to differ from the previous call's, and the cost of that. */
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
      ? 'It cost nothing: another slot or saved state had these tokens.'
      : `${count(tokens, 'token')} had to be computed again, about ${duration(costMs)}.`
  return [
    `It differs from ${callsBefore[by]}, ${before}, from token ${token} on, ${place}${change}.`,
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
