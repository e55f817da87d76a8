import type { BatchItem, SlotId } from '@cllm/core'

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
