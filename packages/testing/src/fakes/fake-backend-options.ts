import type { Clock, BatchItem, ModelInfo, SlotId } from '@cllm/core'
import type { FakeScript } from './fake-model.js'

/** Options of {@link FakeBackend}. */
export interface FakeBackendOptions {
  /** The model's name; default `fake`. Models of other names say other things. */
  readonly id?: string
  /** Default 4. */
  readonly slots?: number
  /** Tokens per slot; default 256. */
  readonly contextSize?: number
  /** Tokens that all slots hold together; default: each has cells of its own. */
  readonly kvTokens?: number | undefined
  /** Tokens per step; default 64. */
  readonly batchSize?: number
  /** How likely a text ends with each token, 0 (default: never) to 1. */
  readonly endProbability?: number
  /** Overrides the tokens; see {@link scriptAnswers}. */
  readonly script?: FakeScript
  /** What `stepMs` and `copyMs` are waited on, such as a `SimulatedClock`. */
  readonly clock?: Clock
  /** Milliseconds that a step takes; without it a step ends with the next turn of the event loop. */
  readonly stepMs?: (batch: readonly BatchItem[]) => number
  /** Milliseconds that copying this many tokens takes; the same. */
  readonly copyMs?: (length: number) => number
  /** Milliseconds that saving or restoring a state of this many bytes takes; the same. */
  readonly stateMs?: (bytes: number) => number
  /** The result of `layoutMs`; without it all layouts cost the same. */
  readonly layoutMs?: (used: readonly SlotId[]) => number
  /** An error that the step rejects with, changing nothing; steps count from 1. */
  readonly failWhen?: (batch: readonly BatchItem[], step: number) => Error | undefined
  /**
   * `truncate` and `copyPrefix` keep only a multiple of this many tokens, as a model with checkpoints
   * does; default 1. Above 1 its slots are cut anywhere else only back to a checkpoint.
   */
  readonly keepMultipleOf?: number
  /** Numbers in its embeddings; without it, it has none. */
  readonly embeddingSize?: number
  /** Whether it has adapters: any `.gguf`, which need not exist; default false. */
  readonly adapters?: boolean
  /** Whether its model sees images: see `FakeImages`; default false. */
  readonly images?: boolean
  /** Whether it hears sounds; default false. */
  readonly audio?: boolean
  /** Whether its slots can be shifted; default false. */
  readonly contextShift?: boolean
  /** Whether the tokenizer marks gaps; default false. */
  readonly canInfill?: boolean
  /** Further details of its model. */
  readonly details?: NonNullable<ModelInfo['details']>
}
