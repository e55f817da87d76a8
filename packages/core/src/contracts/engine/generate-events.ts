import type { TokenId } from '../model/tokenizer.js'
import type { SerializedError } from '../../errors/cllm-error.js'

/** Why generation ended. */
export type FinishReason = 'stop' | 'length'

/** Token counts of a request. */
export interface Usage {
  readonly promptTokens: number
  /**
   * Prompt tokens that were never computed for this request, as its slot had them; after a preemption only those that
   * were not computed then either.
   */
  readonly cachedTokens: number
  readonly generatedTokens: number
}

/**
 * Predicted times of a request, made at its arrival and as if requests were served in order of arrival.
 */
export interface Forecast {
  /** Its place in the queue from 1; 0 when a slot is free for it. */
  readonly position: number
  /** Milliseconds until it has a slot. */
  readonly queueMs: number
  /** Milliseconds until its first token. */
  readonly firstTokenMs: number
}

/** Durations and counts of a request; milliseconds of the engine's clock. */
export interface Timings {
  /** From arrival to admission. */
  readonly queueMs: number
  /** From admission to the first token. */
  readonly prefillMs: number
  /** From arrival to the first token (TTFT). */
  readonly firstTokenMs: number
  /** From the first token to the last. */
  readonly decodeMs: number
  /** From arrival to the end. */
  readonly totalMs: number
  /** How often it was preempted: it lost its slot and waited again. */
  readonly preemptions: number
  /** Steps that computed a part of its prompt, repeated ones after a preemption included. */
  readonly prefillChunks: number
  /** Draft tokens that were verified; absent: none. */
  readonly draftTokens?: number
  /** Draft tokens that were accepted; absent with `draftTokens`. */
  readonly acceptedTokens?: number
}

/** More of a request's prompt is computed. The first such event tells how much was cached. */
export interface PromptProgress {
  readonly type: 'progress'
  /** Always empty. */
  readonly text: ''
  /** Prompt tokens in the slot, computed or cached. */
  readonly processedTokens: number
  /** Prompt tokens that did not have to be computed. */
  readonly cachedTokens: number
  readonly promptTokens: number
}

/** A candidate for a token, with the natural logarithm of its probability. */
export interface LikelyToken {
  readonly token: TokenId
  /** Its text; an incomplete character is shown as U+FFFD. */
  readonly text: string
  /** The bytes of the text. */
  readonly bytes: readonly number[]
  /**
   * By the model's own distribution: before temperature, penalties, bias, top-k and the like, and constraints; after
   * them where `drawLogprobs` was asked for.
   */
  readonly logprob: number
}

/** The log probability of a token, and the likeliest candidates for its place. */
export interface TokenLogprobs extends LikelyToken {
  /** The likeliest candidates, in falling order. */
  readonly top: readonly LikelyToken[]
}

/** The log probability of a prompt token; null for the first one, as nothing comes before it. */
export interface PromptTokenLogprobs extends Omit<TokenLogprobs, 'logprob'> {
  readonly logprob: number | null
}

/** One entry for each token of a prompt. */
export type PromptLogprobs = readonly PromptTokenLogprobs[]

/** An event of a request's stream: one `start`, any number of `progress`, then tokens, then one `end`. */
export type GenerateEvent =
  /** The request is valid and waits for its turn. */
  | {
      readonly type: 'start'
      readonly id: string
      readonly promptTokens: number
      /** Only if the request asked for it. */
      readonly forecast?: Forecast
      /** The fingerprint of the engine that computes it, see `EngineInfo`. */
      readonly fingerprint?: string
    }
  | PromptProgress
  | {
      readonly type: 'token'
      readonly token: TokenId
      /** The text that can be shown now; empty while a character is incomplete or a stop text may follow. */
      readonly text: string
      /** Only if the request asked for them. */
      readonly logprobs?: TokenLogprobs
      /** Only if the request asked for them: with the first token, or with `end` where there is no token. */
      readonly promptLogprobs?: PromptLogprobs
    }
  | {
      readonly type: 'end'
      readonly reason: FinishReason
      /** The stop text that was matched. */
      readonly stop?: string
      /** Text that was held back, as a stop text could have followed. */
      readonly text: string
      readonly usage: Usage
      readonly timings: Timings
      /** See the `token` event. */
      readonly promptLogprobs?: PromptLogprobs
    }

/** The stream of a request. */
export type GenerateEvents = AsyncIterableIterator<GenerateEvent>

/** An event as it is sent between processes, where the error that a stream throws is an event, too. */
export type RequestEvent =
  | GenerateEvent
  | {
      readonly type: 'error'
      readonly error: SerializedError
      /** What was computed for it until then; absent where nothing was. */
      readonly usage?: Usage
      readonly preemptions?: number
    }

/** An event with its request. */
export interface AddressedEvent {
  readonly id: string
  readonly event: RequestEvent
}
