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
