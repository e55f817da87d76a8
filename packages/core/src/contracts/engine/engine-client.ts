import type { BackendCapabilities, BackendLimits, ModelInfo, SlotId } from '../model/backend.js'
import type { AdapterChoice, AdapterInfo, AdapterSource } from '../model/model-info.js'
import type { CachedState, EngineStatistics, EngineActivity } from './engine-statistics.js'
import type { SlotAction, SlotActionResult } from '../model/states.js'
import type { GenerateRequest, Prompt, ModelPreset } from './generate-request.js'
import type { Recording } from './recording.js'
import type { RequestReport } from './request-report.js'
import type {
  PolicySetting,
  SchedulerInfo,
  TenantService,
  ProgramReport,
} from '../scheduling/scheduler-policy.js'
import type {
  ChatMessage,
  ChatRenderOptions,
  EncodeOptions,
  InfillTokens,
  RenderedChat,
  TokenId,
} from '../model/tokenizer.js'
import type { GenerateEvents } from './generate-events.js'

/** The embedding of an input. */
export interface Embedding {
  /**
   * Pooled as the model requires, of length 1; where the model's detail `pooling` is `none`, the vectors of
   * its tokens one after the other, of any length.
   */
  readonly vector: readonly number[]
  readonly promptTokens: number
}

/** How an input is embedded. */
export interface EmbedOptions {
  readonly signal?: AbortSignal
  /** The adapters that it is computed with; default: none. */
  readonly adapters?: readonly AdapterChoice[]
}

/** How a request is submitted. */
export interface SubmitOptions {
  /** Cancels it when it aborts. */
  readonly signal?: AbortSignal
}

/** How a text is tokenized. */
export interface TokenizeOptions extends EncodeOptions {
  /** When it aborts, the call rejects with `cancelled`, and what is left of a long text is not read. */
  readonly signal?: AbortSignal
}

/** What the engine's backend can do, its methods included. */
export interface EngineCapabilities extends BackendCapabilities {
  /** Whether answers can be held to a grammar or a schema. */
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
   * Engines with the same one compute the same numbers: the model's file, the library, the device, the CPU's
   * instructions, and the type of the KV cache. Absent where nobody has worked it out.
   */
  readonly fingerprint?: string
  /** Where the model can fill gaps: the tokens that mark them. */
  readonly infill?: InfillTokens
  /** The adapters that it had when it was asked; absent: none. */
  readonly adapters?: readonly AdapterInfo[]
  /** The smaller model that guesses next tokens; absent: none. */
  readonly draftModel?: ModelInfo
}

/** Calls on an engine besides generation. Failures are {@link CllmError}s. */
export interface EngineCalls {
  /** The tokens of a text. */
  tokenize(text: string, options?: TokenizeOptions): Promise<TokenId[]>
  /** The text of tokens. Throws `invalid_token`. */
  detokenize(tokens: readonly TokenId[]): Promise<string>
  /**
   * The text of each token, with its leading space; of one that is no whole text, as a part of a character,
   * its bytes. A control token's is how a prompt writes it. Throws `invalid_token`.
   */
  pieces(tokens: readonly TokenId[]): Promise<(string | number[])[]>
  /**
   * The embedding of an input. It is computed between two steps of generation. Throws `unsupported`
   * where the backend has none, and what a request with such adapters throws. When the signal aborts it rejects with `cancelled`, and an input that
   * still waits is not computed.
   */
  embed(input: Prompt, options?: EmbedOptions): Promise<Embedding>
  /**
   * A conversation as the model's template writes it. What is encoded for it is the `tenant`'s, where tenants share
   * nothing.
   */
  applyTemplate(
    messages: readonly ChatMessage[],
    options?: ChatRenderOptions & { readonly tenant?: string },
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
  /** The programs whose requests came lately, at most 1,000, the one that went on last first. */
  programs(): Promise<readonly ProgramReport[]>
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
  setScheduler(policy: string, options?: Readonly<Record<string, unknown>>): Promise<PolicySetting>
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
  /** The preset by whose name the model was opened. Default: none. */
  readonly preset?: ModelPreset
  /**
   * Generates. A failure, also of validation, is thrown by the iterator. Leaving the iteration early
   * or aborting the signal cancels the request and frees its slot within one step; the message of a
   * {@link CllmError} that it is aborted with is the reason. Events that are not read are kept.
   */
  submit(request: GenerateRequest, options?: SubmitOptions): GenerateEvents
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
