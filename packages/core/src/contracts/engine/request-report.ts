import type { SlotId } from '../model/backend.js'
import type { Forecast, Timings, Usage } from './generate-events.js'
import type { RequestState } from '../scheduling/scheduler-policy.js'

/**
 * Why a request waited: the step under way had to end (`step`), all slots were taken (`slots`), the
 * slots that were free shared too few KV cells (`cells`), the prompts of others filled the steps (`budget`), the policy admitted no request though it could have
 * (`policy`), a later arrival went first (`order`; `deadline` when that one was due sooner), or
 * another request was computing the prefix that it has too (`prefix`). Before that, other models had the
 * memory (`turn`), its own was being loaded (`load`), the encoder had images and sounds of others (`encoder`) and its
 * own (`encode`).
 */
export type WaitReason =
  | 'step'
  | 'slots'
  | 'cells'
  | 'budget'
  | 'policy'
  | 'order'
  | 'deadline'
  | 'prefix'
  | 'turn'
  | 'load'
  | 'encoder'
  | 'encode'

/**
 * Where the first tokens of a request were: in its slot, in another one that was copied, in a state in
 * RAM or in a file, or in a slot that was cut back to a checkpoint. `none`: they are computed, since the
 * request may not use what others computed (`off`), none has begun like it (`unknown`), the model's slots
 * can be cut at no place that would help (`cannot_be_cut`), computing is faster (`computing_is_faster`),
 * or it could not be restored (`failed`).
 */
export interface CacheOrigin {
  readonly from: 'slot' | 'copy' | 'ram' | 'disk' | 'checkpoint' | 'none'
  readonly why?: 'off' | 'unknown' | 'cannot_be_cut' | 'computing_is_faster' | 'failed'
}

/** What happened to a request. Times are milliseconds after its arrival; a wait for its model may begin before. */
export type TimelineEntry =
  | { readonly type: 'queued'; readonly atMs: number }
  | {
      readonly type: 'waited'
      readonly atMs: number
      readonly untilMs: number
      /** Milliseconds by reason; together the whole wait. */
      readonly reasons: Readonly<Partial<Record<WaitReason, number>>>
    }
  | {
      readonly type: 'admitted'
      readonly atMs: number
      readonly slot: SlotId
      /** Tokens that the slot had already. */
      readonly cachedTokens: number
      /** Where they were; absent without tiers behind the slots. */
      readonly cache?: CacheOrigin
    }
  /** Prompt chunks, after a preemption of generated tokens too. Equal ones in a row are one entry. */
  | {
      readonly type: 'prefill'
      readonly atMs: number
      readonly untilMs: number
      readonly chunks: number
      /** In all of its chunks. */
      readonly tokens: number
    }
  /** It had a slot, and steps went by without it. */
  | {
      readonly type: 'paused'
      readonly atMs: number
      readonly untilMs: number
      readonly steps: number
    }
  | { readonly type: 'preempted'; readonly atMs: number }
  | { readonly type: 'first_token'; readonly atMs: number }
  | {
      readonly type: 'end'
      readonly atMs: number
      /** `stop`, `length`, or the code of the error. */
      readonly reason: string
      /** That of the error. */
      readonly message?: string
    }

/**
 * Where a prompt stopped being that of the call before it, with its answer: from there on it was computed again.
 */
export interface PromptParting {
  /** The id of the call before. */
  readonly before: string
  /**
   * What makes it that: it has all the same `messages` but those of the system and the new ones, or it is of the same
   * program, by its `session` or, where none was named, by an earlier `prompt`.
   */
  readonly by: 'messages' | 'session' | 'prompt'
  /** How many tokens both begin with. */
  readonly token: number
  /** The message, from 0, in whose content that ends, or before whose content; absent where it is behind all. */
  readonly message?: number
  readonly role?: string
  /** False: in what the template puts before it, such as tools or calls. */
  readonly isInContent?: boolean
  /** What both say last; then what the call before said, and what this one says. */
  readonly text: string
  readonly was: string
  readonly is: string
  /** Tokens of the call before. */
  readonly beforeTokens: number
  /** Tokens that no slot or state had and that would not have been computed again, and about how long they take. */
  readonly tokens: number
  readonly costMs: number
}

/** The history of a request, without its prompt and its output, but for the text where it parted from another's. */
export interface RequestReport {
  readonly id: string
  /** `encoding`: its images and sounds are, or wait for it; then it has no tokens yet. */
  readonly state: RequestState | 'encoding'
  /** Milliseconds since the epoch. */
  readonly arrival: number
  readonly priority: number
  readonly tenant: string
  readonly session?: string
  /** The worker that has or had it last; absent for a single engine. */
  readonly worker?: string
  /** How often it went on at another worker; absent with `worker`. */
  readonly moves?: number
  /** The forecast at its arrival, where it had to wait or its client asked. */
  readonly forecast?: Forecast
  /** Its place in the queue now, from 1, by arrival. */
  readonly queuePosition?: number
  /** Absent where the prompt goes on with the call before, or none is known. */
  readonly parting?: PromptParting
  readonly usage: Usage
  /** So far, while it is under way. */
  readonly timings: Timings
  /** At most 64 entries; beyond that like ones are put together. */
  readonly timeline: readonly TimelineEntry[]
}
