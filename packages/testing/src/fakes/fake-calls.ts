import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import type { Clock, BatchItem, ModelInfo, SlotId, TokenId } from '@cllm/core'
import { pause } from '@cllm/core'

/**
 * Overrides the output of the fake model: gets all tokens so far and returns the next one, or undefined
 * to leave it to the model. Sampling parameters do not change a scripted token.
 */
export type FakeScript = (content: readonly TokenId[]) => TokenId | undefined

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

/** A step as `FakeBackend` has seen it. */
export interface FakeStep {
  readonly batch: readonly BatchItem[]
  /** Milliseconds of the clock, 0 without one. */
  readonly startedAt: number
}

type Operation<Type extends string, Fields> = { readonly type: Type } & Readonly<Fields>

/** A call between steps as `FakeBackend` has seen it. */
export type FakeOperation =
  | Operation<'truncate', { slot: SlotId; length: number }>
  | Operation<'copyPrefix', { from: SlotId; to: SlotId; length: number }>
  | Operation<'shift', { slot: SlotId; keep: number; discard: number }>
  | Operation<'release', { slot: SlotId }>
  | Operation<'save', { slot: SlotId; partial: boolean }>
  | Operation<'restore', { slot: SlotId; length: number; partial: boolean }>

/** A call during which no other may be made. */
export type LongCall = 'step' | 'copyPrefix' | 'save' | 'restore'

/** The calls of a fake backend that take time, one after the other. */
export class LongCalls {
  busy: LongCall | undefined
  /** Whether the one under way was to end, or the last one. */
  isInterrupted = false
  #ending = new AbortController()

  /** @param clock - what times are waited on; without it each call takes a turn of the event loop */
  constructor(private readonly clock: Clock | undefined) {}

  async during<T>(call: LongCall, milliseconds: number, work: () => T): Promise<T> {
    this.busy = call
    this.isInterrupted = false
    this.#ending = new AbortController()
    try {
      const { clock } = this
      if (clock === undefined || milliseconds <= 0) await turnOfTheEventLoop()
      else await pause(clock, milliseconds, this.#ending.signal)
      return work()
    } finally {
      this.busy = undefined
    }
  }

  /** Lets the one under way do its work in the next turn of the event loop. */
  interrupt(): void {
    this.isInterrupted = true
    this.#ending.abort()
  }
}
