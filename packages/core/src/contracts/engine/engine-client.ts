import type { BackendCapabilities, BackendLimits, ModelInfo, SlotId } from '../model/backend.js'
import type { AdapterChoice, AdapterInfo, AdapterSource } from '../model/model-info.js'
import type {
  CachedState,
  EngineActivity,
  EngineStatistics,
  ProgramReport,
} from './engine-statistics.js'
import type { SlotAction, SlotActionResult } from '../model/states.js'
import type { GenerateRequest, Prompt, ModelPreset } from './generate-request.js'
import type { Recording } from './recording.js'
import type { RequestReport } from './request-report.js'
import type { PolicySetting, SchedulerInfo, TenantService } from '../scheduling/scheduler-policy.js'
import type {
  ChatMessage,
  ChatRenderOptions,
  EncodeOptions,
  InfillTokens,
  RenderedChat,
  TokenId,
} from '../model/tokenizer.js'
import type { GenerateEvents } from './generate-events.js'

/** An embedding, as `EngineClient.embed` returns it. */
export interface Embedding {
  /**
   * Pooled as the model requires and normalized to length 1. Where the model's detail `pooling` is `none`: the vectors
   * of all tokens, one after the other and not normalized.
   */
  readonly vector: readonly number[]
  readonly promptTokens: number
}

/** How an input is embedded. */
export interface EmbedOptions {
  readonly signal?: AbortSignal
  /** The LoRA adapters to compute it with; default: none. */
  readonly adapters?: readonly AdapterChoice[]
}

/** How a request is submitted. */
export interface SubmitOptions {
  /** Cancels the request when it aborts. */
  readonly signal?: AbortSignal
}

/** How a text is tokenized. */
export interface TokenizeOptions extends EncodeOptions {
  /** When it aborts, the call rejects with `cancelled`, and the rest of a long text is not tokenized. */
  readonly signal?: AbortSignal
}

/** What the engine's backend can do, including the features for which it has optional methods. */
export interface EngineCapabilities extends BackendCapabilities {
  /** Whether answers can be constrained by a grammar or a JSON schema. */
  readonly grammar: boolean
  readonly embeddings: boolean
  /** Whether requests can have adapters. */
  readonly lora: boolean
  /** Default: false. */
  readonly contextShift?: boolean
}

/** What the engine serves. */
export interface EngineInfo {
  readonly model: ModelInfo
  readonly limits: BackendLimits
  readonly capabilities: EngineCapabilities
  /**
   * Engines with the same fingerprint compute the same numbers, but for rounding. It covers the model's file, the
   * library, the device, the CPU's instructions and the type of the KV cache. Absent where it is unknown.
   */
  readonly fingerprint?: string
  /** The special tokens for fill-in-the-middle; absent where the model cannot do that. */
  readonly infill?: InfillTokens
  /** The adapters loaded at the time of the call; absent: none. */
  readonly adapters?: readonly AdapterInfo[]
  /** The draft model of speculative decoding; absent: none. */
  readonly draftModel?: ModelInfo
}

/** The calls of an engine besides generation. Failures are {@link CllmError}s. */
export interface EngineCalls {
  /** The tokens of a text. */
  tokenize(text: string, options?: TokenizeOptions): Promise<TokenId[]>
  /** The text of tokens. Throws `invalid_token`. */
  detokenize(tokens: readonly TokenId[]): Promise<string>
  /**
   * The text of each token, with its leading space; the bytes of a token that is only a part of a character. A control
   * token is shown as a prompt writes it. Throws `invalid_token`.
   */
  pieces(tokens: readonly TokenId[]): Promise<(string | number[])[]>
  /**
   * The embedding of an input, computed between two steps of generation. Throws `unsupported` where the backend has no
   * embeddings, and for adapters the errors that `submit` throws. When the signal aborts, the call rejects with
   * `cancelled`, and an input that still waits is not computed.
   */
  embed(input: Prompt, options?: EmbedOptions): Promise<Embedding>
  /**
   * A conversation as the model's chat template renders it. Images are encoded for it; with isolated tenants they are
   * cached for this `tenant` alone.
   */
  applyTemplate(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions & { readonly tenant?: string },
  ): Promise<RenderedChat>
  /** What the engine serves. */
  info(): Promise<EngineInfo>
  /** Counters since the start, and the current load. */
  statistics(): Promise<EngineStatistics>
  /**
   * The live view: what each request did since the frame `cursor`, and the current state. Meant to be polled a few
   * times a second: the first call starts the recording of frames, five seconds without a call end it, so that it
   * costs nothing while nobody looks. Without `cursor` it begins after the last frame.
   */
  activity(cursor?: number): Promise<EngineActivity>
  /**
   * The history of a request that is in flight or among the last 1,000 that ended. Throws `request_not_found`.
   */
  explain(id: string): Promise<RequestReport>
  /** Saves, restores or erases a slot once it is idle. Throws `invalid_request`, `unsupported`. */
  slotAction(slot: SlotId, action: SlotAction): Promise<SlotActionResult>
  /** Lists the saved slot states, the most recently used last; `drop` then drops all. */
  cache(action: 'list' | 'drop'): Promise<readonly CachedState[]>
  /** The programs with recent requests, at most 1,000, the most recent first. */
  programs(): Promise<readonly ProgramReport[]>
  /** The loaded adapters, ordered by their numbers. */
  adapters(): Promise<readonly AdapterInfo[]>
  /**
   * Loads an adapter, between two steps. Throws `invalid_request` for a name that is in use or invalid, `unsupported`
   * where the backend has no adapters, and the backend's error where the file cannot be loaded.
   */
  loadAdapter(source: AdapterSource): Promise<AdapterInfo>
  /**
   * Unloads an adapter: new requests can no longer name it; its memory is freed when the requests that use it have
   * ended. Throws `model_not_found`.
   */
  unloadAdapter(name: string): Promise<void>
  /** The active policy and the available ones. */
  getScheduler(): Promise<SchedulerInfo>
  /** Swaps the policy, losing no request. Throws `invalid_policy` with the list of valid names. */
  setScheduler(policy: string, options?: Readonly<Record<string, unknown>>): Promise<PolicySetting>
  /** Tells the policy how much other engines of the model served each tenant, so that it is fair over all of them. */
  noteService(services: readonly TenantService[]): Promise<void>
  /** Takes no new requests, and resolves when the last request has ended. */
  drain(): Promise<void>
  /** Ends at once: requests in flight fail with `shutting_down`. Can be called again. */
  close(): Promise<void>
}

/**
 * An engine as a transport sees it: in this process, in a child process or on another machine. Failures are
 * {@link CllmError}s. `testEngineClient` of `@cllm/core/testing` is the conformance suite.
 */
export interface EngineClient extends EngineCalls {
  /** The preset, if the client named one instead of the model. */
  readonly preset?: ModelPreset
  /**
   * Generates. The iterator throws all failures, those of validation too. Leaving the iteration early or aborting the
   * signal cancels the request and frees its slot within one step; the reason is the message of the
   * {@link CllmError} that the signal is aborted with. Unread events are kept.
   */
  submit(request: GenerateRequest, options?: SubmitOptions): GenerateEvents
  /**
   * Cancels by id; unknown ids are ignored. The request's stream throws `cancelled`, with the reason
   * if one is given.
   */
  cancel(id: string, reason?: string): void
  /**
   * The flight recorder's record of the last minutes; the method is absent where there is no recorder. Throws
   * `engine_unavailable` before the first engine is ready.
   */
  recording?(): Promise<Recording>
}
