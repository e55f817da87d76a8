import { injectable } from 'tsyringe'
import type {
  AddressedEvent,
  GenerateEvent,
  LikelyToken,
  PromptLogprobs,
  TokenLogprobs,
} from '../../contracts/engine/generate-events.js'
import { CllmError } from '../../errors/cllm-error.js'
import type { Sequence } from './sequence.js'
import type { StopMatch } from './stop-matcher.js'
import type { OutputLogprobs } from '../../contracts/model/backend.js'
import type { TokenId, Tokenizer } from '../../contracts/model/tokenizer.js'

/** Events to publish, and the requests whose last event is among them. */
interface Published {
  readonly events: readonly AddressedEvent[]
  /** The ended requests, each with the error if its tokens could not be turned into text. */
  readonly ended: ReadonlyMap<Sequence, CllmError | undefined>
}

/** Turns sampled tokens into events, one batch a step. */
@injectable()
export class OutputProcessor {
  /** Sequences with unpublished tokens. */
  #fresh: Sequence[] = []
  readonly #events: AddressedEvent[] = []

  /** Whether the first token of some request is unpublished. */
  get hasFirst(): boolean {
    for (const { emittedTokens } of this.#fresh) if (emittedTokens === 0) return true
    return false
  }

  /** A token was sampled for the sequence. */
  onToken(sequence: Sequence): void {
    this.#fresh.push(sequence)
  }

  /** More of a prompt was computed. The first event reports the cached tokens. */
  onProgress(sequence: Sequence): void {
    const { id, promptTokens, cachedTokens } = sequence
    const done = Math.min(sequence.computedTokens, promptTokens)
    const due = sequence.reportedTokens === undefined ? [cachedTokens, done] : [done]
    for (const processedTokens of due) {
      // tokens computed again after a preemption are no progress
      if (processedTokens <= (sequence.reportedTokens ?? -1)) continue
      sequence.reportedTokens = processedTokens
      const counts = { processedTokens, cachedTokens, promptTokens }
      this.#events.push({ id, event: { type: 'progress', text: '', ...counts } })
    }
  }

  /** Publishes the error that ended a request. */
  fail(sequence: Sequence, error: CllmError, now: number): void {
    const { id, promptHeld: promptTokens } = sequence
    const { usage: all, timings } = sequence.account(now)
    const usage = { ...all, promptTokens }
    const { preemptions } = timings
    const event = { type: 'error', error: error.serialize(), usage, preemptions } as const
    this.#events.push({ id, event })
  }

  /** Whether events of this id are unpublished. */
  owes(id: string): boolean {
    return [...this.#fresh, ...this.#events].some((one) => one.id === id)
  }

  /** Takes all unpublished events. */
  take(now: number): Published {
    const ended = new Map<Sequence, CllmError | undefined>()
    const fresh = this.#fresh
    this.#fresh = []
    for (const sequence of fresh) {
      // A request that failed after this token was sampled already has its last event.
      if (!sequence.isActive && sequence.state !== 'done') continue
      try {
        this.#detokenize(sequence, now)
        if (sequence.hasEnded) ended.set(sequence, undefined)
      } catch (error) {
        sequence.hasEnded = true
        ended.set(sequence, CllmError.from(error))
        this.fail(sequence, CllmError.from(error), now)
      }
    }
    return { events: this.#events.splice(0), ended }
  }

  /**
   * Turns the tokens sampled since the last call into events; a request's first event has the probabilities of its
   * prompt. A stop text ends the sequence here: later tokens are dropped.
   */
  #detokenize(sequence: Sequence, now: number): void {
    const { id, request, tokens, promptTokens } = sequence
    const { decoder, stopMatcher } = request
    let first: { readonly promptLogprobs?: PromptLogprobs } = {}
    if (request.promptLogprobs !== undefined && sequence.emittedTokens === 0) {
      first = { promptLogprobs: describePrompt(sequence) }
    }
    while (sequence.emittedTokens < sequence.generatedTokens) {
      const token = tokens[promptTokens + sequence.emittedTokens++] ?? -1
      const piece = decoder.push(token)
      const { text, stop }: StopMatch = stopMatcher?.push(piece) ?? { text: piece }
      const drawn = sequence.logprobs.shift()
      const logprobs = drawn && { logprobs: request.describe(token, drawn) }
      this.#events.push({ id, event: { type: 'token', token, text, ...logprobs, ...first } })
      first = {}
      if (stop === undefined) continue
      this.#events.push({ id, event: end(sequence, '', now, stop) })
      return
    }
    if (sequence.finish === undefined) return
    const rest = decoder.end()
    const { text, stop }: StopMatch = stopMatcher?.push(rest) ?? { text: rest }
    const event = end(sequence, text + (stopMatcher?.end() ?? ''), now, stop)
    this.#events.push({ id, event: { ...event, ...first } })
  }
}

function end(sequence: Sequence, text: string, now: number, stop?: string): GenerateEvent {
  sequence.hasEnded = true
  sequence.finish ??= 'stop'
  return {
    type: 'end',
    reason: stop === undefined ? sequence.finish : 'stop',
    ...(stop !== undefined && { stop }),
    text,
    ...sequence.account(now),
  }
}

/** The log probabilities of a prompt's tokens as the client gets them. */
function describePrompt(sequence: Sequence): PromptLogprobs {
  const { request, tokens, promptTokens, promptLogprobs } = sequence
  const first = request.describe(tokens[0]!, { logprob: 0, top: [] })
  const known = promptLogprobs
    .slice(0, promptTokens - 1)
    .map((logprobs, index) => request.describe(tokens[index + 1]!, logprobs))
  return [{ ...first, logprob: null }, ...known]
}

/** Adds the texts of the tokens to log probabilities. */
export function describeLogprobs(
  tokenizer: Tokenizer,
  token: TokenId,
  { logprob, top }: OutputLogprobs,
): TokenLogprobs {
  const describe = (token: TokenId, logprob: number): LikelyToken => {
    const bytes = tokenizer.bytesOf?.(token) ?? new TextEncoder().encode(tokenizer.decode([token]))
    return { token, text: new TextDecoder().decode(bytes), bytes: [...bytes], logprob }
  }
  return {
    ...describe(token, logprob),
    top: top.map((other) => describe(other.token, other.logprob)),
  }
}
