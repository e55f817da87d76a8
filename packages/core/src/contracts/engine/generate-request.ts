import type { AdapterChoice } from '../model/model-info.js'
import type { SamplingParams } from '../model/sampling.js'
import type { ChatMessage, ChatRenderOptions, PromptMedia, TokenId } from '../model/tokenizer.js'

/** The prompt: a text, a conversation, or tokens. */
export type Prompt =
  | { readonly text: string; readonly media?: readonly PromptMedia[] }
  | { readonly messages: readonly ChatMessage[]; readonly template?: ChatRenderOptions }
  /**
   * In `media`, `at` is the index of the token before which a file is shown. Where `messages` are there, too, they only
   * describe what the tokens say.
   */
  | { readonly tokens: readonly TokenId[]; readonly media?: readonly PromptMedia[] }

/** The most tokens of an answer to a request that sets no limit. */
export const defaultMaxTokens = 100

/** What to generate: the prompt, and how tokens are sampled. */
export interface GenerationTask {
  readonly prompt: Prompt
  /** Default: {@link defaultMaxTokens}. An answer that fills its slot ends with `length` before that. */
  readonly maxTokens?: number
  readonly sampling?: Partial<SamplingParams>
  /**
   * Values that apply where neither `sampling` nor the model has one, such as a protocol's documented defaults. Default:
   * `defaultSampling`.
   */
  readonly fallbackSampling?: Partial<SamplingParams>
  /** Generation ends before the first of these texts. */
  readonly stop?: readonly string[]
  /**
   * LoRA adapters, each once, at most 8. Requests with different adapters share neither steps nor cached tokens. Needs
   * a backend with `adapters`. Default: none.
   */
  readonly adapters?: readonly AdapterChoice[]
  /**
   * Continues when the slot is full: older tokens are dropped, so the model no longer sees them, and the slot's content
   * is not reused by other requests. An engine that takes over the request drops the same tokens. Excludes speculative
   * decoding. Needs the capability `contextShift`. Default: the engine's option; with false the answer ends with
   * `length`.
   */
  readonly contextShift?: ContextShift | false
}

/** How a request is scheduled and how it uses the KV cache. None of these fields changes the text. */
export interface RequestScheduling {
  /** Higher is more urgent; default 0; {@link batchPriority} and below are the batch lane. */
  readonly priority?: number
  /** Milliseconds from arrival until the first token is due. */
  readonly deadlineMs?: number
  /** Milliseconds from arrival until the request fails as timed out; default: the engine's `requestTimeoutMs`. */
  readonly timeoutMs?: number
  /**
   * Milliseconds that it waited before it was submitted, such as for its model to be loaded; all its times count from
   * that first arrival. The limits of the queue hold for it as for any other request. Default 0.
   */
  readonly arrivedMsAgo?: number
  /** Milliseconds that the request or its client's call waited for the model, by reason; shown in its report. */
  readonly modelWait?: Readonly<Partial<Record<'turn' | 'load', number>>>
  readonly tenant?: string
  readonly session?: string
  /** Only requests of the same group share a step. */
  readonly stepGroup?: string
  /**
   * The index of this sample where one call asks for several (`n`), from 0. Samples after the first yield: while other
   * requests wait, they have all slots but one at most. Default: the only sample.
   */
  readonly sample?: number
  /**
   * The preferred slot; another one is used if it is busy when the request's turn comes. Default: the engine chooses by
   * the slots' content.
   */
  readonly slot?: number
  /** Whether it uses tokens that earlier requests computed, and leaves its own for later ones; default true. */
  readonly cache?: boolean
  /**
   * Whether the slot's content at the end is saved in RAM and never evicted; default false. Has no effect without a
   * tier behind the slots.
   */
  readonly pin?: boolean
  /**
   * As `pin`, but only for this many milliseconds after the end. Such states of one tenant take at most a quarter of
   * the tier: beyond that the oldest can be evicted. Default: not kept.
   */
  readonly keepMs?: number
  /**
   * A hint when the program's next request will come, in milliseconds after the end; 0: no request will come. It is one
   * prior among the learned pauses, not a time to live. Default: `keepMs`, if that is set.
   */
  readonly retainMs?: number
  /**
   * Whether speculative decoding may be used, which makes repetitive text faster; default true. The tokens are the same
   * either way, but for rounding.
   */
  readonly speculative?: boolean
}

/** What a request reports besides its text; by default nothing, which is fastest. */
export interface RequestReports {
  /**
   * Asks for the log probability of each token and of this many likeliest candidates, 0 to 20. Needs the capability
   * `logprobs`. Default: none.
   */
  readonly logprobs?: number
  /**
   * As `logprobs`, in its place, but by the distribution from which the token was drawn: after temperature, penalties,
   * bias, top-k and the like, and constraints. Lists only tokens that could be drawn. Needs the capability
   * `drawLogprobs`.
   */
  readonly drawLogprobs?: number
  /**
   * Asks for the log probabilities of the prompt's tokens, with this many candidates each, 0 to 20. The whole prompt is
   * computed, in small chunks, and not cached for other requests. Needs the capability `promptLogprobs`.
   */
  readonly promptLogprobs?: number
  /**
   * Marks of the model's chat format, such as `[TOOL_CALLS]`: control tokens that are a part of one of these texts are
   * shown as text. Default: control tokens are never shown.
   */
  readonly marks?: readonly string[]
  /** Whether `progress` events tell how much of the prompt is computed; default false. */
  readonly progress?: boolean
  /** Whether the `start` event has a forecast; default false. */
  readonly forecast?: boolean
}

/** A request for text. Everything but the prompt is optional. */
export interface GenerateRequest extends GenerationTask, RequestScheduling, RequestReports {
  /** Unique among the requests in flight; default: 32 random hexadecimal digits. */
  readonly id?: string
  /** Set by a supervisor that moves a request to another engine after the first one has exited. */
  readonly continued?: Continuation
}

/** What happens when a request's slot is full. */
export interface ContextShift {
  /**
   * How many of the prompt's first tokens are kept, besides the BOS token; −1: the whole prompt. The older half of the
   * other tokens is dropped. Default 0.
   */
  readonly keep?: number
}

/**
 * The progress of a request on an engine that has exited. The next engine continues from there: with
 * the same prompt, parameters and seed it samples the same tokens. It is not refused for a full queue,
 * and its time limits count from its first arrival.
 */
export interface Continuation {
  /** The tokens sampled so far; their events are not sent again. */
  readonly tokens: readonly TokenId[]
  /** Milliseconds since it arrived at the first engine. */
  readonly elapsedMs: number
  /** Milliseconds from that arrival to the first token. */
  readonly firstTokenMs?: number
}

/**
 * The priority of the batch lane, below every priority that a client is likely to use. A cluster runs such requests on
 * workers without other work.
 */
export const batchPriority = -1_000_000

/** Whether a request belongs to the batch lane: no client waits for it. */
export function isOfBatch({ priority = 0 }: Pick<RequestScheduling, 'priority'>): boolean {
  return priority <= batchPriority
}

/** A model under another name, with values for fields that requests leave out. */
export interface ModelPreset {
  /** The name by which clients ask for it. */
  readonly name: string
  /** The served model that answers. The preset may have the same name. */
  readonly from: string
  /** The system message for conversations without one. Default: none. */
  readonly system?: string | undefined
  /** Messages put before every conversation. Default: none. */
  readonly messages?: readonly ChatMessage[]
  /** The most tokens of an answer. Default: the protocol's. */
  readonly maxTokens?: number | undefined
  /** Default: the protocol's and the model's. */
  readonly sampling?: Partial<SamplingParams> | undefined
  /** Stop texts. Default: none. */
  readonly stop?: readonly string[] | undefined
}

/** The presets of a server's models. Names match with and without Ollama's `:latest`. */
export interface ModelPresets {
  /** The presets whose model is served, without those that share their name with another model. */
  list(): readonly ModelPreset[]
  /** The preset of this name; undefined also while another model has the name. */
  find(name: string): ModelPreset | undefined
  /**
   * Whether a preset can be added.
   *
   * @throws `invalid_request` for an empty name or the name of a served model, and beyond 1,000 presets or 16 MiB
   */
  check(preset: ModelPreset): void
  /**
   * Adds a preset, or replaces the one of the same name, until the server ends.
   *
   * @throws `invalid_request` beyond the limits of {@link ModelPresets.check}
   */
  add(preset: ModelPreset): void
  /** Removes a preset, if there is one of this name. */
  remove(name: string): void
}
