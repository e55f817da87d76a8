import { injectable } from 'tsyringe'
import type { AddressedEvent, GenerateEvent } from '../../contracts/engine/engine-client.js'
import type { PromptLogprobs } from '../../contracts/engine/logprobs.js'
import { CllmError } from '../../errors/cllm-error.js'
import type { Sequence } from '../requests/sequence.js'
import { defined } from '../../defined.js'
import { describePrompt } from './token-logprobs.js'

/** Events to publish, and the requests that end with them. */
export interface Published {
  readonly events: readonly AddressedEvent[]
  /** With the error of each request that could not be detokenized. */
  readonly ended: ReadonlyMap<Sequence, CllmError | undefined>
}

/** Turns sampled tokens into events, one batch a step. */
@injectable()
export class OutputProcessor {
  /** Sequences with tokens that are not published yet. */
  #fresh: Sequence[] = []
  #events: AddressedEvent[] = []

  /** A token was sampled for the sequence. */
  onToken(sequence: Sequence): void {
    this.#fresh.push(sequence)
  }

  /** More of a prompt was computed. The first report is of what was there before. */
  onProgress(sequence: Sequence): void {
    const { id, promptTokens, cachedTokens } = sequence
    const done = Math.min(sequence.computedTokens, promptTokens)
    const due = sequence.reportedTokens === undefined ? [cachedTokens, done] : [done]
    for (const processedTokens of due) {
      // what a preempted request computes again is no progress
      if (processedTokens <= (sequence.reportedTokens ?? -1)) continue
      sequence.reportedTokens = processedTokens
      const counts = { processedTokens, cachedTokens, promptTokens }
      this.#events.push({ id, event: { type: 'progress', text: '', ...counts } })
    }
  }

  /** Publishes the error that ended a request. */
  fail(sequence: Sequence, error: CllmError): void {
    const { id, preemptions } = sequence
    const done = { usage: sequence.usage(), preemptions }
    this.#events.push({ id, event: { type: 'error', error: error.serialize(), ...done } })
  }

  /** Whether events of this id are still to be published. */
  owes(id: string): boolean {
    return (
      this.#fresh.some((sequence) => sequence.id === id) || this.#events.some((e) => e.id === id)
    )
  }

  /** Takes everything to publish now. */
  take(now: number): Published {
    const ended = new Map<Sequence, CllmError | undefined>()
    const fresh = this.#fresh
    this.#fresh = []
    for (const sequence of fresh) {
      // A request that failed after this token was sampled already has its last event.
      if (!sequence.isActive && sequence.state !== 'done') continue
      try {
        for (const event of eventsOf(sequence, now)) {
          this.#events.push({ id: sequence.id, event })
          if (event.type === 'end') ended.set(sequence, undefined)
        }
      } catch (error) {
        ended.set(sequence, CllmError.from(error))
        this.fail(sequence, CllmError.from(error))
      }
    }
    const events = this.#events
    this.#events = []
    return { events, ended }
  }
}

/** The events that are due; the first of a request has the probabilities of its prompt. */
function eventsOf(sequence: Sequence, now: number): Iterable<GenerateEvent> {
  const promptLogprobs = describePrompt(sequence)
  const events = detokenize(sequence, now)
  return promptLogprobs === undefined ? events : withPrompt(events, promptLogprobs)
}

function* withPrompt(
  events: Generator<GenerateEvent>,
  promptLogprobs: PromptLogprobs,
): Generator<GenerateEvent> {
  const { value: first } = events.next()
  if (first !== undefined) yield { ...first, promptLogprobs }
  yield* events
}

/**
 * Turns the tokens that were sampled since the last call into events. Meeting a stop text ends the
 * sequence here: later tokens are never seen.
 */
function* detokenize(sequence: Sequence, now: number): Generator<GenerateEvent> {
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
  sequence.finish ??= 'stop'
  return {
    type: 'end',
    reason: stop === undefined ? sequence.finish : 'stop',
    ...defined({ stop }),
    text,
    usage: sequence.usage(),
    timings: sequence.timings(now),
  }
}
