import type { AdapterChoice } from '../model/model-info.js'
import type { SamplingParams } from '../model/sampling.js'
import type { ChatMessage, ChatRenderOptions, PromptMedia, TokenId } from '../model/tokenizer.js'

/** What is to be continued: text, a conversation, or tokens. */
export type Prompt =
  | { readonly text: string; readonly media?: readonly PromptMedia[] }
  | { readonly messages: readonly ChatMessage[]; readonly template?: ChatRenderOptions }
  /** Here `at` is the index of the token before which a file is shown. Beside tokens, messages say what these are. */
  | { readonly tokens: readonly TokenId[]; readonly media?: readonly PromptMedia[] }

/** What a request asks to be written: its prompt, and how each token is chosen. */
export interface GenerationTask {
  readonly prompt: Prompt
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
  /**
   * The adapters that it is computed with, each once, at most 8. Requests with other ones share neither
   * a step nor computed tokens with it. Needs a backend with `adapters`. Default: none.
   */
  readonly adapters?: readonly AdapterChoice[]
  /**
   * Goes on when the slot is full: older tokens are dropped, and what it holds then is shared with no
   * other request. The text is no longer what the model says to all of the tokens. An engine that
   * continues the request drops the same ones. It takes no drafts. Needs the capability
   * `contextShift`. Default: the engine's option; false ends it with `length`.
   */
  readonly contextShift?: ContextShift | false
}

/** How a request is scheduled and what of the KV cache it uses. Nothing of it changes the text. */
export interface RequestScheduling {
  /** Higher is more urgent; default 0; {@link batchPriority} and below: of a batch. */
  readonly priority?: number
  /** Milliseconds from arrival to the first token that the client can use. */
  readonly deadlineMs?: number
  /** Milliseconds from arrival to the end; by default the engine's `requestTimeoutMs`. */
  readonly timeoutMs?: number
  /**
   * Milliseconds that it waited elsewhere before it was submitted, such as for its model to be loaded:
   * its times count from its first arrival. Default 0. Its wait gives it no rights: the limits of the
   * queue hold for it as for any other request.
   */
  readonly arrivedMsAgo?: number
  /** Milliseconds for which it, or its client's call, waited for its model, by reason: for its report. */
  readonly modelWait?: Readonly<Partial<Record<'turn' | 'load', number>>>
  readonly tenant?: string
  readonly session?: string
  /** Only requests of one group share a step. */
  readonly stepGroup?: string
  /**
   * Which of several samples for one client it is, from 0. Samples after the first yield to requests of
   * others: they have all slots but one while others want any. Default: there is one.
   */
  readonly sample?: number
  /**
   * The slot that it should have: it gets this one if that is idle when its turn comes, else another.
   * Default: the engine chooses by what the slots hold.
   */
  readonly slot?: number
  /** Whether its prompt may use what others computed and stays for others; default true. */
  readonly cache?: boolean
  /**
   * Whether what its slot holds at its end is saved in RAM and dropped for nothing else; default false.
   * Nothing is saved where there is no tier behind the slots.
   */
  readonly pin?: boolean
  /**
   * The same for this many milliseconds after its end, in place of `pin`. All such states of a tenant take a
   * quarter of the tier at most: the oldest are kept no longer then. Default: not.
   */
  readonly keepMs?: number
  /**
   * How soon its program's next request is to be expected, in milliseconds after its end; 0: none is. One prior
   * beside what was learnt, and no time to live. Default: `keepMs`; without it nothing is told.
   */
  readonly retainMs?: number
  /**
   * Whether guesses of its next tokens may be verified with each one, which makes repeating text
   * faster; default true. The tokens are the same either way, but for rounding.
   */
  readonly speculative?: boolean
}

/** What a request wants to be told besides its text. Nothing by default, which is fastest. */
export interface RequestReports {
  /**
   * Asks for log probabilities: of each token, and of this many of the likeliest ones in its place, 0
   * to 20. Needs the capability `logprobs`. Default: none are made, which is faster.
   */
  readonly logprobs?: number
  /**
   * Asks in place of `logprobs` how likely tokens were in the draw itself: after temperature, penalties,
   * bias, cuts and constraints. Listed are only tokens that could be drawn. Needs the capability
   * `drawLogprobs`.
   */
  readonly drawLogprobs?: number
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
}

/** A request for text. Everything but the prompt is optional. */
export interface GenerateRequest extends GenerationTask, RequestScheduling, RequestReports {
  /** Unique among the requests under way; by default 32 random hex digits. */
  readonly id?: string
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
 * The priority of batches, below every one that a client is likely to give. A cluster runs such requests on
 * workers that have nothing else to do.
 */
export const batchPriority = -1_000_000

/** Whether a request is of a batch, so that no client waits for it. */
export function isOfBatch({ priority = 0 }: Pick<RequestScheduling, 'priority'>): boolean {
  return priority <= batchPriority
}

/** A model under a name of its own, with values for the fields that requests leave out. */
export interface ModelPreset {
  /** What clients call it. */
  readonly name: string
  /** The model that answers: a name that the server serves. A preset may have that name itself. */
  readonly from: string
  /** The system message of conversations that have none. Default: none. */
  readonly system?: string | undefined
  /** Messages before every conversation. Default: none. */
  readonly messages?: readonly ChatMessage[]
  /** Most tokens of an answer. Default: as the protocol has it. */
  readonly maxTokens?: number | undefined
  /** Default: as the protocol and the model have it. */
  readonly sampling?: Partial<SamplingParams> | undefined
  /** Texts before which an answer ends. Default: none. */
  readonly stop?: readonly string[] | undefined
}

/** The presets of a server's models. Names match with and without Ollama's `:latest`. */
export interface ModelPresets {
  /** Presets whose model is there, without those that have the name of another model. */
  list(): readonly ModelPreset[]
  /** The preset of a name; undefined also while another model has this name. */
  find(name: string): ModelPreset | undefined
  /**
   * Whether a preset can be added.
   *
   * @throws `invalid_request` for a name that a model of the server has, or none, and beyond 1,000 presets or
   *   16 MiB of them
   */
  check(preset: ModelPreset): void
  /**
   * Adds a preset, in place of one of the same name; it lives as long as the server.
   *
   * @throws `invalid_request` beyond the limits of {@link ModelPresets.check}
   */
  add(preset: ModelPreset): void
  /** Removes a preset, if there is one of this name. */
  remove(name: string): void
}
