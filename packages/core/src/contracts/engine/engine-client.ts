import type { SerializedError } from '../../errors/cllm-error.js'
import type { BackendCapabilities, BackendLimits, ModelInfo, SlotId } from '../model/backend.js'
import type { AdapterChoice, AdapterInfo, AdapterSource } from '../model/adapter.js'
import type { CachedState } from './cache-statistics.js'
import type { EngineActivity } from './engine-activity.js'
import type { EngineStatistics } from './engine-statistics.js'
import type { SlotAction, SlotActionResult } from './slot-files.js'
import type { PromptLogprobs, TokenLogprobs } from './logprobs.js'
import type { PromptProgress } from './prompt-progress.js'
import type { Recording } from './recording.js'
import type { RequestReport } from './request-report.js'
import type { SamplingParams } from '../model/sampling.js'
import type { FinishReason, Timings, Usage } from './usage.js'
import type { SchedulerInfo } from '../scheduling/scheduler-info.js'
import type { TenantService } from '../scheduling/scheduler-policy.js'
import type {
  ChatMessage,
  ChatRenderOptions,
  EncodeOptions,
  InfillTokens,
  RenderedChat,
  TokenId,
} from '../model/tokenizer.js'

export type { FinishReason, Timings, Usage } from './usage.js'

/** What is to be continued: text, a conversation, or tokens. */
export type Prompt =
  | { readonly text: string }
  | { readonly messages: readonly ChatMessage[]; readonly template?: ChatRenderOptions }
  | { readonly tokens: readonly TokenId[] }

/** A request for text. Everything but the prompt is optional. */
export interface GenerateRequest {
  readonly prompt: Prompt
  /** Unique among the requests under way; by default 32 random hex digits. */
  readonly id?: string
  /** Default 100; what does not fit the slot ends with `length`. */
  readonly maxTokens?: number
  readonly sampling?: Partial<SamplingParams>
  /**
   * For what neither `sampling` nor the model says, such as a protocol's documented defaults. Default:
   * `defaultSampling`.
   */
  readonly fallbackSampling?: Partial<SamplingParams>
  /** Generation ends before the first of these texts. */
  readonly stop?: readonly string[]
  /** Higher is more urgent; default 0. */
  readonly priority?: number
  /** Milliseconds from arrival to the first token that the client can use. */
  readonly deadlineMs?: number
  /** Milliseconds from arrival to the end; by default the engine's `requestTimeoutMs`. */
  readonly timeoutMs?: number
  readonly tenant?: string
  readonly session?: string
  /** Only requests of one group share a step. */
  readonly stepGroup?: string
  /**
   * The adapters that it is computed with, each once, at most 8. Requests with other ones share neither
   * a step nor computed tokens with it. Needs the capability `lora`. Default: none.
   */
  readonly adapters?: readonly AdapterChoice[]
  /** Whether its prompt may use what others computed and stays for others; default true. */
  readonly cache?: boolean
  /**
   * Whether what its slot holds at its end is saved in RAM and dropped for nothing else; default false.
   * Nothing is saved where there is no tier behind the slots.
   */
  readonly pin?: boolean
  /**
   * The slot that it should have: it gets this one if that is idle when its turn comes, else another.
   * Default: the engine chooses by what the slots hold.
   */
  readonly slot?: number
  /**
   * Asks for log probabilities: of each token, and of this many of the likeliest ones in its place, 0
   * to 20. Needs the capability `logprobs`. Default: none are made, which is faster.
   */
  readonly logprobs?: number
  /**
   * Asks for the same of the prompt's tokens, 0 to 20 likeliest ones. Needs the capability
   * `promptLogprobs`. The whole prompt is computed, in small chunks, and stays for no other request.
   */
  readonly promptLogprobs?: number
  /**
   * Marks of the model's chat format, such as `[TOOL_CALLS]`: control tokens that are a part of any of
   * these show as text. Default: control tokens never do.
   */
  readonly marks?: readonly string[]
  /** Whether its prompt is reported while it is computed; default false. */
  readonly progress?: boolean
  /** Whether its `start` event has a forecast; default false. */
  readonly forecast?: boolean
  /**
   * Milliseconds that it waited elsewhere before it was submitted, such as for its model to be loaded:
   * its times count from its first arrival. Default 0. Its wait gives it no rights: the limits of the
   * queue hold for it as for any other request.
   */
  readonly arrivedMsAgo?: number
  /**
   * Whether guesses of its next tokens may be verified with each one, which makes repeating text
   * faster; default true. The tokens are the same either way, but for rounding.
   */
  readonly speculative?: boolean
  /**
   * Goes on when the slot is full: older tokens are dropped, and what it holds then is shared with no
   * other request. The text is no longer what the model says to all of the tokens. An engine that
   * continues the request drops the same ones. It takes no drafts. Needs the capability
   * `contextShift`. Default: the engine's option; false ends it with `length`.
   */
  readonly contextShift?: ContextShift | false
  /** Set by a supervisor that moves a request to another engine because the first one has exited. */
  readonly continued?: Continuation
}

/** What a request wants when its slot is full. */
export interface ContextShift {
  /**
   * How many of the prompt's first tokens stay, besides the token that begins every text; −1: the whole
   * prompt. Of the others the older half is dropped. Default 0.
   */
  readonly keep?: number
}

/**
 * The progress of a request on an engine that has exited. The next engine continues from there: with
 * the same prompt, parameters and seed it samples the same tokens. It is not refused for a full queue,
 * and its time limits count from its first arrival.
 */
export interface Continuation {
  /** Tokens sampled so far; their events are not sent again. */
  readonly tokens: readonly TokenId[]
  /** Milliseconds since it arrived at the first engine. */
  readonly elapsedMs: number
  /** Milliseconds from that arrival to the first of the tokens. */
  readonly firstTokenMs?: number
}

/**
 * Predicted service times of a request, made at its arrival: as if requests were served in order of
 * arrival.
 */
export interface Forecast {
  /** Its place in the queue from 1; 0 when a slot is free for it. */
  readonly position: number
  /** Milliseconds until it has a slot. */
  readonly queueMs: number
  /** Milliseconds until its first token. */
  readonly firstTokenMs: number
}

/** The embedding of an input. */
export interface Embedding {
  /** Pooled as the model requires, of length 1. */
  readonly vector: readonly number[]
  readonly promptTokens: number
}

/** What a request's stream carries, in this order: one `start`, any `progress`, tokens, one `end`. */
export type GenerateEvent =
  /** The request is valid and waits for its turn. */
  | {
      readonly type: 'start'
      readonly id: string
      readonly promptTokens: number
      /** When it was asked for. */
      readonly forecast?: Forecast
      /** What computes it, as {@link EngineInfo} has it. */
      readonly fingerprint?: string
    }
  | PromptProgress
  | {
      readonly type: 'token'
      readonly token: TokenId
      /** The text that became certain with it; empty while a character or a stop text may go on. */
      readonly text: string
      /** When they were asked for. */
      readonly logprobs?: TokenLogprobs
      /** When they were asked for: with the first token, or with the `end` where there is none. */
      readonly promptLogprobs?: PromptLogprobs
    }
  | {
      readonly type: 'end'
      readonly reason: FinishReason
      /** The stop text that was matched. */
      readonly stop?: string
      /** Text that was held back until it was certain. */
      readonly text: string
      readonly usage: Usage
      readonly timings: Timings
      /** See the `token` event. */
      readonly promptLogprobs?: PromptLogprobs
    }

/** The same with the failure that a stream throws, as it travels between processes. */
export type RequestEvent =
  | GenerateEvent
  | {
      readonly type: 'error'
      readonly error: SerializedError
      /** What was done for it until then; absent where nothing was. */
      readonly usage?: Usage
      readonly preemptions?: number
    }

/** An event with its request. */
export interface AddressedEvent {
  readonly id: string
  readonly event: RequestEvent
}

/** What the engine serves. */
export interface EngineInfo {
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: BackendCapabilities
  /**
   * Engines with the same one compute the same numbers: the model's file, the library, the device, the CPU's
   * instructions, and the type of the KV cache. Absent where nobody has worked it out.
   */
  readonly fingerprint?: string
  /** Where the model can fill gaps: the tokens that mark them. */
  readonly infill?: InfillTokens
  /** The adapters that it had when it was asked; absent: none. */
  readonly adapters?: readonly AdapterInfo[]
}

/** Calls on an engine besides generation. Failures are {@link CllmError}s. */
export interface EngineCalls {
  /** The tokens of a text. */
  tokenize(text: string, options?: EncodeOptions): Promise<TokenId[]>
  /** The text of tokens. Throws `invalid_token`. */
  detokenize(tokens: readonly TokenId[]): Promise<string>
  /**
   * The embedding of an input. It is computed between two steps of generation. Throws `unsupported`
   * where the backend has none. When the signal aborts it rejects with `cancelled`, and an input that
   * still waits is not computed.
   */
  embed(input: Prompt, options?: { readonly signal?: AbortSignal }): Promise<Embedding>
  /** A conversation as the model's template writes it. */
  applyTemplate(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions,
  ): Promise<RenderedChat>
  /** What the engine serves. */
  info(): Promise<EngineInfo>
  /** Counters and what is going on now. */
  statistics(): Promise<EngineStatistics>
  /**
   * What every request did since the frame with the number `cursor`, and what goes on now. The first
   * question begins the watch, and five seconds without one end it: asked some times a second, it is a
   * live view that costs nothing while nobody looks. Left out, `cursor` is that of the last frame.
   */
  activity(cursor?: number): Promise<EngineActivity>
  /**
   * What happened to a request that is under way or was one of the last 1,000 that ended. Throws
   * `request_not_found`.
   */
  explain(id: string): Promise<RequestReport>
  /** Saves, restores or erases a slot once it is idle. Throws `invalid_request`, `unsupported`. */
  slotAction(slot: SlotId, action: SlotAction): Promise<SlotActionResult>
  /** The saved states, the latest used last; `drop` drops them all. */
  cache(action: 'list' | 'drop'): Promise<readonly CachedState[]>
  /** The adapters that requests can name, by their numbers. */
  adapters(): Promise<readonly AdapterInfo[]>
  /**
   * Loads an adapter, between two steps. Throws `invalid_request` for a name that is taken or no name,
   * `unsupported` where the backend has no adapters, and what the backend throws for the file.
   */
  loadAdapter(source: AdapterSource): Promise<AdapterInfo>
  /**
   * Takes an adapter away: no new request can name it; those that do go on, and then its memory is free.
   * Throws `model_not_found`.
   */
  unloadAdapter(name: string): Promise<void>
  /** The active policy and the available ones. */
  getScheduler(): Promise<SchedulerInfo>
  /** Swaps the policy, losing no request. Throws `invalid_policy` with the list of valid names. */
  setScheduler(policy: string, options?: Readonly<Record<string, unknown>>): Promise<SchedulerInfo>
  /** Tells the policy what other engines of the model did for tenants, so that it can be fair over all. */
  noteService(services: readonly TenantService[]): Promise<void>
  /** Takes no new requests and resolves when the last is done. */
  drain(): Promise<void>
  /** Ends at once: what is under way fails with `shutting_down`. Further calls resolve, too. */
  close(): Promise<void>
}

/**
 * An engine as a transport sees it, in this process, in a child process or on another
 * machine. Failures are {@link CllmError}s. `testEngineClient` of `@cllm/core/testing` holds an
 * implementation to all of this.
 */
export interface EngineClient extends EngineCalls {
  /**
   * Generates. A failure, also of validation, is thrown by the iterator. Leaving the iteration early
   * or aborting the signal cancels the request and frees its slot within one step; the message of a
   * {@link CllmError} that it is aborted with is the reason. Events that are not read are kept.
   */
  submit(
    request: GenerateRequest,
    options?: { readonly signal?: AbortSignal },
  ): AsyncIterableIterator<GenerateEvent>
  /**
   * Cancels by id; unknown ids are ignored. The request's stream throws `cancelled`, with the reason
   * if one is given.
   */
  cancel(id: string, reason?: string): void
  /**
   * What the flight recorder has of the last minutes; absent where there is none. Throws
   * `engine_unavailable` before the first engine is ready.
   */
  recording?(): Promise<Recording>
}
