import type { OutputLogprobs, Sampler, SlotId } from '../contracts/backend.js'
import type {
  Continuation,
  FinishReason,
  Forecast,
  Timings,
  TokenLogprobs,
  Usage,
} from '../contracts/engine-client.js'
import type { SamplingParams } from '../contracts/sampling.js'
import type { RequestState, SequenceView } from '../contracts/scheduler-policy.js'
import type { TokenDecoder, TokenId } from '../contracts/tokenizer.js'
import { BlockChain } from './block-chain.js'
import type { StopMatcher } from './stop-matcher.js'

/** A valid request with its defaults filled in; its prompt is the {@link Sequence}'s. */
export interface SequenceRequest {
  readonly id: string
  readonly maxTokens: number
  readonly sampling: SamplingParams
  readonly priority: number
  readonly deadline: number | undefined
  readonly expires: number | undefined
  readonly tenant: string
  readonly session: string | undefined
  readonly stepGroup: string | undefined
  readonly cache: boolean
  /** Whether its client wants to know what to expect. */
  readonly forecast: boolean
  /** How many of the likeliest tokens are told with each one; undefined: no probabilities at all. */
  readonly logprobs: number | undefined
  /** Puts probabilities into words for the client. */
  readonly describe: (token: TokenId, logprobs: OutputLogprobs) => TokenLogprobs
  readonly continued: Continuation | undefined
  /** Only requests of one scope share computed tokens. */
  readonly scope: string
  readonly decoder: TokenDecoder
  readonly stopMatcher: StopMatcher
}

/** Of what another engine drew, so many tokens are computed at a time. */
const replayChunk = 32

/** One request on its way through the engine: its tokens, its place and its times. */
export class Sequence implements SequenceView {
  state: RequestState = 'queued'
  readonly promptTokens: number
  readonly chain: BlockChain
  computedTokens = 0
  slot: SlotId | undefined
  sampler: Sampler | undefined
  preemptions = 0
  /** Steps that computed prompt tokens of it, after a preemption generated ones too. */
  prefillChunks = 0
  /** The index of the first token that was ever computed for it, before or after a preemption. */
  firstComputed: number | undefined
  /** What the last look-up found, and of which version of the index that is. */
  found: { readonly version: number; readonly tokens: number } | undefined
  /** How often it has waited for a prefix that another request computed. */
  prefixWaits = 0
  /** What was to be expected when it came. */
  forecast: Forecast | undefined
  /** Its place among the waiting ones. */
  turn = 0
  /** Probabilities of the output tokens whose events are still due. */
  readonly logprobs: OutputLogprobs[] = []
  /** Output tokens whose events were made. */
  emittedTokens = 0
  /** Whether its `end` event was made, though it may have its slot yet. */
  hasEnded = false
  /** Why generation ended, once it has; its last events may still be due. */
  finish: FinishReason | undefined
  admittedAt: number | undefined
  firstTokenAt: number | undefined
  lastTokenAt: number | undefined

  /** @param tokens the prompt, from now on the sequence's own: prompt and output so far */
  constructor(
    readonly request: SequenceRequest,
    readonly tokens: TokenId[],
    readonly arrival: number,
    private readonly lookUpCached: (sequence: Sequence) => number,
  ) {
    this.promptTokens = tokens.length
    for (const token of request.continued?.tokens ?? []) tokens.push(token)
    this.chain = new BlockChain(tokens, request.scope)
    if (request.continued !== undefined) this.#takeUp(request.continued)
  }

  get id(): string {
    return this.request.id
  }

  get priority(): number {
    return this.request.priority
  }

  get deadline(): number | undefined {
    return this.request.deadline
  }

  get tenant(): string {
    return this.request.tenant
  }

  get session(): string | undefined {
    return this.request.session
  }

  get stepGroup(): string | undefined {
    return this.request.stepGroup
  }

  get generatedTokens(): number {
    return this.tokens.length - this.promptTokens
  }

  /** Prompt tokens that were found in slots and never computed for it. */
  get cachedTokens(): number {
    return Math.min(this.firstComputed ?? 0, this.promptTokens)
  }

  get maxTokens(): number {
    return this.request.maxTokens
  }

  get remainingTokens(): number {
    const done = this.isWaiting ? this.lookUpCached(this) : this.computedTokens
    return this.tokens.length - done
  }

  /**
   * Tokens that its next part may have. What another engine drew one by one is computed apart from
   * the prompt and in small parts: llama.cpp adds up in another order in large ones (of stories15m's
   * greedy streams, 110 of 120 went on as they would have, now 120 of 120).
   */
  get mostNow(): number {
    if (this.request.continued === undefined || this.state === 'decoding') return Infinity
    const left = this.promptTokens - this.computedTokens
    return left > 0 ? left : replayChunk
  }

  /** Whether an end-of-generation token is one; under a constraint it comes only where it must. */
  get mayEnd(): boolean {
    const { ignoreEos, constraint } = this.request.sampling
    return !ignoreEos || constraint !== undefined
  }

  get isWaiting(): boolean {
    return this.state === 'queued' || this.state === 'preempted'
  }

  get isRunning(): boolean {
    return this.state === 'prefilling' || this.state === 'decoding'
  }

  get isActive(): boolean {
    return this.isWaiting || this.isRunning
  }

  /** Takes a drawn token, with its probabilities where they were asked for. */
  append(token: TokenId, logprobs: OutputLogprobs | undefined): void {
    this.tokens.push(token)
    if (logprobs !== undefined) this.logprobs.push(logprobs)
  }

  usage(): Usage {
    return {
      promptTokens: this.promptTokens,
      cachedTokens: this.cachedTokens,
      generatedTokens: this.emittedTokens,
    }
  }

  timings(now: number): Timings {
    const admitted = this.admittedAt ?? now
    const first = this.firstTokenAt ?? now
    return {
      queueMs: admitted - this.arrival,
      prefillMs: first - admitted,
      firstTokenMs: first - this.arrival,
      decodeMs: (this.lastTokenAt ?? first) - first,
      totalMs: now - this.arrival,
      preemptions: this.preemptions,
      prefillChunks: this.prefillChunks,
    }
  }

  /** What the first engine's decoder and stop matcher knew is known again when they see its tokens. */
  #takeUp({ tokens, firstTokenMs }: Continuation): void {
    const { decoder, stopMatcher } = this.request
    for (const token of tokens) stopMatcher.push(decoder.push(token))
    this.emittedTokens = tokens.length
    if (tokens.length === 0 || firstTokenMs === undefined) return
    // When the first engine admitted it is not known; all up to the first token counts as waiting.
    this.firstTokenAt = this.admittedAt = this.arrival + firstTokenMs
  }
}
