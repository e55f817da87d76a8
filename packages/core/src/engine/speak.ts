import type { GenerateEvent } from '../contracts/engine-client.js'
import type { Sequence } from './sequence.js'

/**
 * Turns the tokens that a sequence drew since the last time into events. Meeting a stop text ends
 * the sequence here: later tokens are never seen.
 */
export function* speak(sequence: Sequence, now: number): Generator<GenerateEvent> {
  const { decoder, stopMatcher } = sequence.request
  while (sequence.emittedTokens < sequence.generatedTokens) {
    const token = sequence.tokens[sequence.promptTokens + sequence.emittedTokens++] ?? -1
    const { text, stop } = stopMatcher.push(decoder.push(token))
    const logprobs = sequence.logprobs.shift()
    yield logprobs === undefined
      ? { type: 'token', token, text }
      : { type: 'token', token, text, logprobs: sequence.request.describe(token, logprobs) }
    if (stop === undefined) continue
    yield end(sequence, '', now, stop)
    return
  }
  if (sequence.finish === undefined) return
  const rest = stopMatcher.push(decoder.end())
  yield end(sequence, rest.text + stopMatcher.end(), now, rest.stop)
}

function end(sequence: Sequence, text: string, now: number, stop?: string): GenerateEvent {
  sequence.hasEnded = true
  return {
    type: 'end',
    reason: stop === undefined ? (sequence.finish ?? 'stop') : 'stop',
    ...(stop === undefined ? {} : { stop }),
    text,
    usage: sequence.usage(),
    timings: sequence.timings(now),
  }
}
