import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { type Clock, pause, type BatchItem, type SlotId } from '@cllm/core'

/** A step as `FakeBackend` has seen it. */
export interface FakeStep {
  readonly batch: readonly Omit<BatchItem, 'sampler'>[]
  /** Milliseconds of the clock, 0 without one. */
  readonly startedAt: number
}

/** A call between steps as `FakeBackend` has seen it. */
export type FakeOperation =
  | { readonly type: 'truncate'; readonly slot: SlotId; readonly length: number }
  | {
      readonly type: 'copyPrefix'
      readonly from: SlotId
      readonly to: SlotId
      readonly length: number
    }
  | {
      readonly type: 'shift'
      readonly slot: SlotId
      readonly keep: number
      readonly discard: number
    }
  | { readonly type: 'release'; readonly slot: SlotId }
  | { readonly type: 'save'; readonly slot: SlotId; readonly partial: boolean }
  | {
      readonly type: 'restore'
      readonly slot: SlotId
      readonly length: number
      readonly partial: boolean
    }

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
