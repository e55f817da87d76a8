import type { OutputLogprobs, Sampler, SlotId } from '../../contracts/model/backend.js'
import type {
  FinishReason,
  Forecast,
  Timings,
  Usage,
  TokenLogprobs,
} from '../../contracts/engine/generate-events.js'
import type { Continuation, GenerateRequest } from '../../contracts/engine/generate-request.js'
import type { CacheOrigin, PromptParting } from '../../contracts/engine/request-report.js'
import type { MediaSpan, RequestAdapters } from '../../contracts/model/model-info.js'
import type { ChatMessage, TokenDecoder, TokenId } from '../../contracts/model/tokenizer.js'
import type { LogitProcessor } from '../../contracts/model/drawing.js'
import type { SamplingParams } from '../../contracts/model/sampling.js'
import type {
  DraftView,
  RequestState,
  SequenceView,
} from '../../contracts/scheduling/scheduler-policy.js'
import { BlockChain } from '../kv/block-chain.js'
import type { Program } from '../programs/program.js'
import type { SequenceDrafts } from '../speculation/sequence-drafts.js'
import type { StopMatcher } from './stop-matcher.js'

/** What leaves a full slot: the tokens from `keep` on, `discard` of them. */
export interface ShiftPlan {
  readonly keep: number
  readonly discard: number
}

/** What a request has where it says nothing. */
export const requestDefaults = {
  maxTokens: 100,
  priority: 0,
  tenant: 'default',
  cache: true,
  forecast: false,
  progress: false,
  pin: false,
  speculative: true,
} as const satisfies Partial<GenerateRequest>

type Filled = 'id' | keyof typeof requestDefaults

/** What it may have as its client wrote it. */
type Kept = 'session' | 'sample' | 'slot' | 'keepMs' | 'modelWait' | 'drawLogprobs' | 'continued'

/** A valid request with its defaults filled in; its prompt is the {@link Sequence}'s. */
export interface SequenceRequest
  extends Required<Pick<GenerateRequest, Filled>>, Pick<GenerateRequest, Kept> {
  readonly sampling: SamplingParams
  /** The samplers of plug-ins that it names. */
  readonly processors: readonly LogitProcessor[]
  readonly deadline: number | undefined
  readonly expires: number | undefined
  readonly adapters: RequestAdapters
  /** Only requests of one group share a step: those with the same adapters. */
  readonly stepGroup: string | undefined
  /** When its program's next request is to be expected. */
  readonly retainMs: number | undefined
  /** Number of likeliest tokens reported with each token; undefined: no probabilities, or those of the draw. */
  readonly logprobs: number | undefined
  /** The same for each token of the prompt, where its first token is yet to come. */
  readonly promptLogprobs: number | undefined
  /** What leaves its slot when that is full; undefined: the request ends. */
  readonly shift: ShiftPlan | undefined
  /** Adds the texts of tokens to probabilities. */
  readonly describe: (token: TokenId, logprobs: OutputLogprobs) => TokenLogprobs
  /** Tokens that its slot can hold. */
  readonly contextSize: number
  /** Only requests of one scope share computed tokens. */
  readonly scope: string
  readonly decoder: TokenDecoder
  /** None: no stop texts. */
  readonly stopMatcher: StopMatcher | undefined
}

/** Tokens per chunk when replaying output from a previous engine. */
const replayChunk = 32

/** Tokens per chunk while a prompt is scored: each takes the logits of a whole vocabulary. */
const scoredChunk = 32

/** One request in the engine: its tokens, state and times. */
export class Sequence implements SequenceView {
  readonly id: string
  readonly priority: number
  readonly deadline: number | undefined
  readonly tenant: string
  readonly session: string | undefined
  readonly stepGroup: string | undefined
  readonly maxTokens: number
  /** Whether an end-of-generation token ends it; a constraint allows one only where it must end. */
  readonly mayEnd: boolean
  state: RequestState = 'queued'
  /** Whether it has not ended. */
  isActive = true
  readonly promptTokens: number
  readonly chain: BlockChain
  computedTokens = 0
  /** How many of its tokens were dropped from its slot: {@link SequenceRequest.shift}. */
  discarded = 0
  /** Tokens of its prompt that were reported; undefined: nothing yet. */
  reportedTokens: number | undefined
  slot: SlotId | undefined
  /** Whether its slot may hold something else: a step failed on it. */
  isInDoubt = false
  sampler: Sampler | undefined
  /** What it belongs to; undefined: it stands alone, as far as is known. */
  program: Program | undefined
  /** The conversation of its prompt, until it is queued; undefined: it is no conversation. */
  messages: readonly ChatMessage[] | undefined
  /** Where its prompt parts from that of the call before; undefined: nowhere. */
  parting: PromptParting | undefined
  /** Where its first tokens were, as far as that is known. */
  origin: CacheOrigin | undefined
  /** After how many of its tokens a chunk ends, rising: there a checkpoint is saved. */
  stops: number[] = []
  /** Guesses of its next tokens, where there are to be any. */
  drafts: SequenceDrafts | undefined
  preemptions = 0
  /** Steps that prefilled it, including generated tokens after a preemption. */
  prefillChunks = 0
  /** The index of the first token that was ever computed for it, before or after a preemption. */
  firstComputed: number | undefined
  /** The forecast at arrival, where it had to wait or its client asked. */
  forecast: Forecast | undefined
  /** The time by which it has its place in the queue, and its turn among those of one time. */
  queuedAt: number
  turn = 0
  /** Probabilities of the output tokens whose events are still due. */
  readonly logprobs: OutputLogprobs[] = []
  /** Probabilities of the prompt's tokens from the second on, as far as it is computed. */
  readonly promptLogprobs: OutputLogprobs[] = []
  /** Output tokens whose events were made. */
  emittedTokens = 0
  /** Whether its `end` event was made, though it may have its slot yet. */
  hasEnded = false
  /** Where its prompt has vectors in place of tokens; undefined: nowhere. */
  media: readonly MediaSpan[] | undefined
  /** Milliseconds for which it waited for the encoder before it was queued, by reason: for its report. */
  encodeWait: Readonly<Record<'encode' | 'encoder', number>> | undefined
  /** Why generation ended, once it has; its last events may still be due. */
  finish: FinishReason | undefined
  admittedAt: number | undefined
  firstTokenAt: number | undefined
  lastTokenAt: number | undefined

  /**
   * @param tokens - the prompt, from now on the sequence's own: prompt and output so far
   * @param kv - knows how many of its tokens need not be computed while it waits
   */
  constructor(
    readonly request: SequenceRequest,
    readonly tokens: TokenId[],
    readonly arrival: number,
    private readonly kv: { lookUp(sequence: Sequence): number },
  ) {
    const { sampling, continued } = request
    this.id = request.id
    this.priority = request.priority
    this.deadline = request.deadline
    this.tenant = request.tenant
    this.session = request.session
    this.stepGroup = request.stepGroup
    this.maxTokens = request.maxTokens
    this.mayEnd = !sampling.ignoreEos || sampling.constraint !== undefined
    this.queuedAt = arrival
    this.promptTokens = tokens.length
    for (const token of continued?.tokens ?? []) tokens.push(token)
    this.chain = new BlockChain(tokens, request.scope)
    if (continued !== undefined) this.#takeUp(continued)
  }

  get generatedTokens(): number {
    return this.tokens.length - this.promptTokens
  }

  /** Prompt tokens that were found in slots and never computed for it. */
  get cachedTokens(): number {
    return Math.min(this.firstComputed ?? 0, this.promptTokens)
  }

  /** Tokens that its slot holds. */
  get slotTokens(): number {
    return this.computedTokens - this.discarded
  }

  /** Whether another request may use what its slot holds. */
  get isShared(): boolean {
    return this.request.cache && this.discarded === 0 && !this.isInDoubt
  }

  get remainingTokens(): number {
    return this.tokens.length - (this.isWaiting ? this.kv.lookUp(this) : this.computedTokens)
  }

  /**
   * Maximum tokens of its next chunk. Tokens that another engine sampled are computed apart from the
   * prompt and in small chunks: llama.cpp sums in another order in large ones (of 120 greedy streams of
   * stories15m, 110 continued identically with large chunks, 120 with small ones).
   */
  get mostNow(): number {
    const { shift, contextSize, continued, promptLogprobs } = this.request
    const left = this.promptTokens - this.computedTokens
    let most = (this.stops[0] ?? Infinity) - this.computedTokens
    if (shift !== undefined) most = Math.min(most, contextSize - this.slotTokens)
    if (promptLogprobs !== undefined && left > 0) return Math.min(most, scoredChunk)
    if (continued === undefined || this.state === 'decoding') return most
    return Math.min(most, left > 0 ? left : replayChunk)
  }

  /** What may come next, as far as its answer and its slot have room for more than the next token. */
  get draft(): DraftView | undefined {
    if (this.drafts === undefined || this.state !== 'decoding') return undefined
    if (this.tokens.length - this.computedTokens !== 1) return undefined
    const left = this.maxTokens - this.generatedTokens - 1
    const room = Math.min(left, this.request.contextSize - this.tokens.length)
    return this.drafts.view(this.tokens, room)
  }

  get isWaiting(): boolean {
    return this.state === 'queued' || this.state === 'preempted'
  }

  get isRunning(): boolean {
    return this.state === 'prefilling' || this.state === 'decoding'
  }

  /** Token counts so far and where its time went, as its `end` event has them. */
  account(now: number): { readonly usage: Usage; readonly timings: Timings } {
    const { promptTokens, cachedTokens, emittedTokens: generatedTokens } = this
    const admitted = this.admittedAt ?? now
    const first = this.firstTokenAt ?? now
    const { draftTokens = 0, acceptedTokens = 0 } = this.drafts ?? {}
    const timings = {
      queueMs: admitted - this.arrival,
      prefillMs: first - admitted,
      firstTokenMs: first - this.arrival,
      decodeMs: (this.lastTokenAt ?? first) - first,
      totalMs: now - this.arrival,
      preemptions: this.preemptions,
      prefillChunks: this.prefillChunks,
      ...(draftTokens > 0 && { draftTokens, acceptedTokens }),
    }
    return { usage: { promptTokens, cachedTokens, generatedTokens }, timings }
  }

  /** Restores the state of the decoder and the stop matcher by replaying the tokens. */
  #takeUp({ tokens, firstTokenMs }: Continuation): void {
    const { decoder, stopMatcher } = this.request
    for (const token of tokens) {
      const text = decoder.push(token)
      stopMatcher?.push(text)
    }
    this.emittedTokens = tokens.length
    if (tokens.length === 0 || firstTokenMs === undefined) return
    // The admission time on the first engine is unknown; all up to the first token counts as waiting.
    this.firstTokenAt = this.admittedAt = this.arrival + firstTokenMs
  }
}
