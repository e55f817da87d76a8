/**
 * Most tokens of an answer where neither the chat nor its user sets a limit, by model: on the page and in
 * `cllm run`. The 2-bit stand-in for a model may repeat itself until its slot is full.
 */
const answerLimits: ReadonlyMap<string, number> = new Map([['tinyllama-1.1b-chat', 512]])

/** The limit for this model; undefined: none. */
export const answerLimit = (model: string): number | undefined => answerLimits.get(model)

/** A chunk of a streamed answer of `POST /v1/chat/completions`, as far as the page and `cllm run` read it. */
export interface AnswerChunk {
  readonly choices?: readonly {
    readonly finish_reason?: string | null
    readonly delta?: {
      readonly content?: string | null
      readonly reasoning_content?: string | null
      readonly tool_calls?: readonly CallDelta[]
    }
  }[]
  readonly usage?: AnswerUsage | null
  /** Milliseconds from the request's admission to its first token, and from that to the last. */
  readonly timings?: {
    readonly prompt_ms: number
    readonly predicted_ms: number
    readonly predicted_per_second?: number
  }
  readonly error?: { readonly message?: string }
}

/** A chunk of a tool call; what was told before is absent. */
export interface CallDelta {
  readonly index: number
  readonly id?: string
  readonly function?: { readonly name?: string; readonly arguments?: string }
}

/** The tokens of an answer and of its prompt. */
export interface AnswerUsage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly prompt_tokens_details?: { readonly cached_tokens?: number }
}
