import type { TokenId } from '../model/tokenizer.js'
import type { SerializedError } from '../../errors/cllm-error.js'

/** Why generation ended. */
export type FinishReason = 'stop' | 'length'

/** Tokens of a request. */
export interface Usage {
  readonly promptTokens: number
  /**
   * Prompt tokens reused from a slot and never computed for this request, not even after a
   * preemption.
   */
  readonly cachedTokens: number
  readonly generatedTokens: number
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

/** How a request went; times are milliseconds by the engine's clock. */
export interface Timings {
  /** Arrival to admission. */
  readonly queueMs: number
  /** Admission to first token. */
  readonly prefillMs: number
  /** Arrival to first token (TTFT). */
  readonly firstTokenMs: number
  /** First token to the last. */
  readonly decodeMs: number
  /** Arrival to end. */
  readonly totalMs: number
  /** How often it lost its slot and waited again. */
  readonly preemptions: number
  /** Steps that computed its prompt, again after each preemption. */
  readonly prefillChunks: number
  /** Draft tokens that were verified for it; absent: none. */
  readonly draftTokens?: number
  /** Those of them that were drawn; absent with `draftTokens`. */
  readonly acceptedTokens?: number
}

/** More of a request's prompt was computed; the first such event tells what need not be. */
export interface PromptProgress {
  readonly type: 'progress'
  /** Empty. */
  readonly text: ''
  /** Tokens of the prompt that are in the slot. */
  readonly processedTokens: number
  /** Those of them that were found there. */
  readonly cachedTokens: number
  readonly promptTokens: number
}

/** A token that could have come, with the natural logarithm of its probability. */
export interface LikelyToken {
  readonly token: TokenId
  /** Its text; what is no whole character shows as U+FFFD. */
  readonly text: string
  /** The bytes of the text. */
  readonly bytes: readonly number[]
  /**
   * By the model's own distribution: before temperature, penalties, bias, cuts and constraints. After
   * them where `drawLogprobs` was asked for.
   */
  readonly logprob: number
}

/** How likely a token was, and what else could have come. */
export interface TokenLogprobs extends LikelyToken {
  /** The likeliest tokens in its place, the likeliest first. */
  readonly top: readonly LikelyToken[]
}

/** How likely a token of the prompt was; null for the first, which nothing comes before. */
export interface PromptTokenLogprobs extends Omit<TokenLogprobs, 'logprob'> {
  readonly logprob: number | null
}

/** One for each token of a prompt. */
export type PromptLogprobs = readonly PromptTokenLogprobs[]

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

/** A request's stream. */
export type GenerateEvents = AsyncIterableIterator<GenerateEvent>

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
