import type { SamplingParams } from '../contracts/model/sampling.js'
import { type VolatileLine, volatileLines } from './input/volatile-lines.js'
import { token } from '../tokens.js'

/** Limits of an engine, and defaults for its requests. */
export interface EngineOptions {
  /**
   * Maximum number of waiting requests, not counting requests that can start in a free slot; further ones are refused
   * with `queue_full`. Default 1,024; with 0 a request is served at once or refused.
   */
  readonly maxQueuedRequests: number
  /**
   * Maximum prompt tokens of all waiting requests together; a request beyond that is refused with
   * `queue_full`, unless the queue is empty. Default: no limit.
   */
  readonly maxQueuedTokens: number | undefined
  /**
   * Maximum predicted wait for a slot in milliseconds; a request with a longer one is refused with
   * `wait_too_long`. Default: no limit.
   */
  readonly maxQueueWaitMs: number | undefined
  /** Milliseconds from arrival to end of a request that sets none of its own; default: no limit. */
  readonly requestTimeoutMs: number | undefined
  /**
   * Milliseconds for which the policy may run no request while requests wait, before it counts as
   * failed and the fallback policy takes over. Default 30,000; has no effect without a fallback policy.
   */
  readonly policyPatienceMs: number
  /**
   * Whether computed prefixes are reused within a tenant only, so that no tenant can infer the
   * prompts of others from its time to first token. Default false.
   */
  readonly isolateTenants: boolean
  /**
   * The name of the proposer of draft tokens: `auto` is `ngram`, `draft` the engine's draft model, `off` none. All but
   * `off` first propose the text that a constraint forces; `grammar` proposes nothing else. Without effect where the
   * backend cannot verify drafts. Default `off`.
   */
  readonly speculative: string
  /** Options of the proposer. Default: its own defaults. */
  readonly proposerOptions: Readonly<Record<string, unknown>>
  /** The default of `contextShift`: whether requests continue when their slot is full. Default false. */
  readonly contextShift: boolean
  /**
   * Sampling parameters for requests without their own; they come before the model file's recommendation and the
   * request's `fallbackSampling`. Default: none.
   */
  readonly sampling: Partial<SamplingParams>
  /**
   * Bytes of RAM for the saved contents of slots that were given to other requests. Default 0: nothing is kept.
   */
  readonly cacheRamBytes: number
  /** Which kinds of volatile lines are moved out of the beginning of system messages. Default: all kinds. */
  readonly volatileLines: readonly VolatileLine[]
}

/** The {@link EngineOptions}. */
export const ENGINE_OPTIONS = token<EngineOptions>('EngineOptions')

/** The defaults of {@link EngineOptions}. */
export const defaultEngineOptions: EngineOptions = Object.freeze({
  maxQueuedRequests: 1024,
  maxQueuedTokens: undefined,
  maxQueueWaitMs: undefined,
  requestTimeoutMs: undefined,
  policyPatienceMs: 30_000,
  isolateTenants: false,
  speculative: 'off',
  proposerOptions: Object.freeze({}),
  contextShift: false,
  sampling: Object.freeze({}),
  cacheRamBytes: 0,
  volatileLines,
})
