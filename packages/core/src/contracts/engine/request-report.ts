import type { SlotId } from '../model/backend.js'
import type { Forecast, Timings, Usage } from './generate-events.js'
import type { RequestState } from '../scheduling/scheduler-policy.js'

/**
 * Why a request waited:
 * - `step`: the current step had to end
 * - `slots`: no slot was free
 * - `cells`: the free slots had too few KV cells in the shared pool
 * - `budget`: the prompts of other requests filled the steps
 * - `policy`: the policy admitted no request, though it could have
 * - `order`: a later arrival went first; `deadline`: because it was due sooner
 * - `prefix`: another request was computing the same prefix
 *
 * and before it reached the engine's queue:
 * - `turn`: other models used the memory
 * - `load`: its model was being loaded
 * - `encoder`: images and sounds of other requests were being encoded
 * - `encode`: its own images and sounds were being encoded, also behind the text before the last one
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
 * Where a request's cached tokens came from: its slot (`slot`), another slot, by copying (`copy`), a saved state in RAM
 * or in a file (`ram`, `disk`), or a slot that was cut back to a checkpoint (`checkpoint`). `none`: all tokens are
 * computed, and why: the request does not use the cache (`off`), nothing cached begins like it (`unknown`), the model's
 * slots cannot be cut where it would help (`cannot_be_cut`), computing is faster than restoring
 * (`computing_is_faster`), or restoring failed (`failed`).
 */
export interface CacheOrigin {
  readonly from: 'slot' | 'copy' | 'ram' | 'disk' | 'checkpoint' | 'none'
  readonly why?: 'off' | 'unknown' | 'cannot_be_cut' | 'computing_is_faster' | 'failed'
}

/** An event in a request's history. Times are milliseconds after its arrival; negative where it waited for its model. */
export type TimelineEntry =
  | { readonly type: 'queued'; readonly atMs: number }
  | {
      readonly type: 'waited'
      readonly atMs: number
      readonly untilMs: number
      /** Milliseconds by reason; their sum is the whole wait. */
      readonly reasons: Readonly<Partial<Record<WaitReason, number>>>
    }
  | {
      readonly type: 'admitted'
      readonly atMs: number
      readonly slot: SlotId
      /** Tokens that the slot had already. */
      readonly cachedTokens: number
      /** Where these tokens came from; absent without tiers behind the slots. */
      readonly cache?: CacheOrigin
    }
  /** Prompt chunks; after a preemption also of generated tokens. Equal chunks in a row are one entry. */
  | {
      readonly type: 'prefill'
      readonly atMs: number
      readonly untilMs: number
      readonly chunks: number
      /** Tokens of all these chunks. */
      readonly tokens: number
    }
  /** It had a slot but took no part in these steps. */
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
      /** The message of the error. */
      readonly message?: string
    }

/**
 * Where a prompt begins to differ from the program's call before and its answer. From there on it was computed again.
 */
export interface PromptParting {
  /** The id of the call before. */
  readonly before: string
  /**
   * How the call before was recognised: by equal `messages` (apart from system messages and new ones), by its `session`,
   * or, without a session, by an earlier `prompt` of the same program.
   */
  readonly by: 'messages' | 'session' | 'prompt'
  /** How many tokens both have in common at the beginning. */
  readonly token: number
  /** The index of the message where they begin to differ, in or before its content; absent behind the last message. */
  readonly message?: number
  readonly role?: string
  /** False: they differ in what the template writes before the content, such as tools or calls. */
  readonly isInContent?: boolean
  /** The end of the common text. */
  readonly text: string
  /** How the call before went on. */
  readonly was: string
  /** How this prompt goes on. */
  readonly is: string
  /** The number of tokens of the call before. */
  readonly beforeTokens: number
  /** Tokens that had to be computed only because the prompts differ. */
  readonly tokens: number
  /** Milliseconds that computing these tokens takes, estimated. */
  readonly costMs: number
}

/** The history of a request, without prompt and output, except for the text around a {@link PromptParting}. */
export interface RequestReport {
  readonly id: string
  /** `encoding`: its images and sounds are being encoded or wait for that, and nothing before them is left to compute. */
  readonly state: RequestState | 'encoding'
  /** Milliseconds since the epoch. */
  readonly arrival: number
  readonly priority: number
  readonly tenant: string
  readonly session?: string
  /** The worker that computes or computed it last; absent for a single engine. */
  readonly worker?: string
  /** How often it moved to another worker; absent with `worker`. */
  readonly moves?: number
  /** The forecast at its arrival, where it had to wait or its client asked. */
  readonly forecast?: Forecast
  /** Its place in the queue now, from 1, by arrival. */
  readonly queuePosition?: number
  /** Absent where the prompt continues the call before, or no such call is known. */
  readonly parting?: PromptParting
  readonly usage: Usage
  /** Up to now while the request is in flight. */
  readonly timings: Timings
  /** At most 64 entries; beyond that, similar entries are merged. */
  readonly timeline: readonly TimelineEntry[]
}
