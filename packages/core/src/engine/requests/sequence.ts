import type { OutputLogprobs, Sampler, SlotId } from '../../contracts/model/backend.js'
import type {
  FinishReason,
  Forecast,
  Timings,
  Usage,
  TokenLogprobs,
} from '../../contracts/engine/generate-events.js'
import { defaultMaxTokens } from '../../contracts/engine/generate-request.js'
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

/** Which tokens leave a full slot: `discard` tokens from index `keep` on. */
export interface ShiftPlan {
  readonly keep: number
  readonly discard: number
}

/** Defaults of a request's fields. */
export const requestDefaults = {
  maxTokens: defaultMaxTokens,
  priority: 0,
  tenant: 'default',
  cache: true,
  forecast: false,
  progress: false,
  pin: false,
  speculative: true,
} as const satisfies Partial<GenerateRequest>

type Filled = 'id' | keyof typeof requestDefaults

/** Optional fields that are kept as the client sent them. */
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
  /** The client's hint when its program's next request comes, see `RequestScheduling`. */
  readonly retainMs: number | undefined
  /** The number of candidates reported with each token; undefined: no log probabilities, or `drawLogprobs`. */
  readonly logprobs: number | undefined
  /** The same for each token of the prompt; undefined also where another engine has already sent the first token. */
  readonly promptLogprobs: number | undefined
  /** Which tokens leave its slot when that is full; undefined: the request ends. */
  readonly shift: ShiftPlan | undefined
  /** Adds the texts of tokens to probabilities. */
  readonly describe: (token: TokenId, logprobs: OutputLogprobs) => TokenLogprobs
  /** Tokens that its slot can hold. */
  readonly contextSize: number
  /** The backend's limit. */
  readonly replayTokens: number | undefined
  /** Only requests of the same scope share computed tokens. */
  readonly scope: string
  readonly decoder: TokenDecoder
  /** Undefined: no stop texts. */
  readonly stopMatcher: StopMatcher | undefined
}

/** An encoding in progress of images or sounds of a request in the queue. */
export interface Encoding {
  /** The index of the first token whose vector is still being computed. */
  readonly from: number
  /** The prompt's spans with all vectors. */
  readonly done: Promise<readonly MediaSpan[]>
  /** Ends it when the request ends. */
  readonly files: AbortController
}

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
  /** Whether an end-of-generation token ends it. With a constraint always, as that allows one only at its end. */
  readonly mayEnd: boolean
  state: RequestState = 'queued'
  /** Whether it has not ended. */
  isActive = true
  readonly promptTokens: number
  readonly chain: BlockChain
  computedTokens = 0
  /** The number of its tokens that were dropped from its slot, see {@link SequenceRequest.shift}. */
  discarded = 0
  /** Prompt tokens reported by `progress` events; undefined: none yet. */
  reportedTokens: number | undefined
  slot: SlotId | undefined
  /** The slot that it left with its whole answer; undefined: none keeps that. */
  keptIn: SlotId | undefined
  /** Whether its slot's content is unknown, as a step has failed on it. */
  isInDoubt = false
  sampler: Sampler | undefined
  /** Its program; undefined: none is known. */
  program: Program | undefined
  /** The messages of its prompt, until it is queued; undefined: the prompt is no conversation. */
  messages: readonly ChatMessage[] | undefined
  /** Where its prompt begins to differ from the call before; undefined: nowhere. */
  parting: PromptParting | undefined
  /** Where its cached tokens came from, if that is known. */
  origin: CacheOrigin | undefined
  /** Token counts after which a chunk must end, in rising order, as a checkpoint is saved there. */
  stops: number[] = []
  /** Its draft tokens; undefined: no speculative decoding. */
  drafts: SequenceDrafts | undefined
  preemptions = 0
  /** Steps that prefilled it; after a preemption also with generated tokens. */
  prefillChunks = 0
  /** Tokens of its prompt that a slot has held for it, before or after a preemption. */
  promptHeld = 0
  /** The lowest index of a token that was ever computed for it, before or after a preemption. */
  firstComputed: number | undefined
  /** The forecast at arrival, if it had to wait or its client asked for one. */
  forecast: Forecast | undefined
  /** The time by which the queue is sorted. */
  queuedAt: number
  /** The order among requests of the same time. */
  turn = 0
  /** Log probabilities of the generated tokens without events yet. */
  readonly logprobs: OutputLogprobs[] = []
  /** Log probabilities of the prompt's tokens from the second on, as far as they are computed. */
  readonly promptLogprobs: OutputLogprobs[] = []
  /** Generated tokens whose events were made. */
  emittedTokens = 0
  /** Whether its last event was made, as its answer ended or has no text; it may still have its slot. */
  hasEnded = false
  /** The spans of its prompt that have vectors in place of tokens; undefined: none. */
  media: readonly MediaSpan[] | undefined
  /** What it waits for once all tokens before are computed; undefined: nothing. */
  encoding: Encoding | undefined
  /** Whether it gave its slot back meanwhile: only policies count that as a preemption. */
  gaveWay = false
  /** Milliseconds that it waited for the encoder before it was queued, by reason; for its report. */
  encodeWait: Readonly<Record<'encode' | 'encoder', number>> | undefined
  /** Why generation ended; undefined until then. Its last events may still be unpublished. */
  finish: FinishReason | undefined
  admittedAt: number | undefined
  firstTokenAt: number | undefined
  lastTokenAt: number | undefined

  /**
   * @param tokens - the prompt; the sequence owns the list and appends generated tokens
   * @param kv - tells how many of its tokens are cached while it waits
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

  /** Prompt tokens that were cached and never computed for it. */
  get cachedTokens(): number {
    return Math.min(this.firstComputed ?? 0, this.promptTokens)
  }

  /** Tokens that its slot holds. */
  get slotTokens(): number {
    return this.computedTokens - this.discarded
  }

  /** Whether other requests may use its slot's content. */
  get isShared(): boolean {
    return this.request.cache && this.discarded === 0 && !this.isInDoubt
  }

  get remainingTokens(): number {
    return this.tokens.length - (this.isWaiting ? this.kv.lookUp(this) : this.computedTokens)
  }

  /**
   * The most tokens of its next chunk. Where the backend limits `replayTokens`, generated tokens that are computed again,
   * after a preemption or by another engine, are separate from the prompt and in chunks of at most so many.
   */
  get mostNow(): number {
    const { shift, contextSize, replayTokens, promptLogprobs } = this.request
    const left = this.promptTokens - this.computedTokens
    const end = Math.min(this.stops[0] ?? Infinity, this.encoding?.from ?? Infinity)
    let most = end - this.computedTokens
    if (shift !== undefined) most = Math.min(most, contextSize - this.slotTokens)
    if (promptLogprobs !== undefined && left > 0) most = Math.min(most, scoredChunk)
    if (replayTokens === undefined || this.state === 'decoding') return most
    return Math.min(most, left > 0 ? left : replayTokens)
  }

  /** Its draft, limited to the tokens for which its answer and its slot have room. */
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

  /** Whether all is computed before what is being encoded. */
  get isAtEncoding(): boolean {
    return this.isRunning && this.computedTokens >= (this.encoding?.from ?? Infinity)
  }

  /** Whether it has no slot until its file is encoded. */
  get givesWay(): boolean {
    return this.gaveWay && this.encoding !== undefined
  }

  /** Token counts and timings so far, as its `end` event has them. */
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
      preemptions: this.preemptions - Number(this.gaveWay),
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
    // The admission time on the first engine is unknown: the time up to the first token counts as waiting.
    this.firstTokenAt = this.admittedAt = this.arrival + firstTokenMs
  }
}
