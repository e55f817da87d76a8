import type { SimulatedRequest } from '@cllm/scheduler/simulation'

/** A part of a prompt. The same key stands for the same text in every prompt that has it. */
export interface PromptSegment {
  readonly key: string
  /** Its length in tokens: at most that many from the beginning of the key's text. */
  readonly tokens: number
}

/** Of a recorded request all that matters to a scheduler and is no length. */
export type RecordedRequest = Pick<
  SimulatedRequest,
  | 'priority'
  | 'deadlineMs'
  | 'timeoutMs'
  | 'tenant'
  | 'session'
  | 'stepGroup'
  | 'cache'
  | 'cancelAfterMs'
>

/**
 * A request that a load consists of. A prompt is a text, or segments of which text or token ids are
 * made when they are needed, so that the same item serves real servers and simulated ones.
 */
export interface WorkItem {
  readonly prompt: string | readonly PromptSegment[]
  /** Tokens of the prompt: as asked for, or guessed from the text. */
  readonly inputTokens: number
  readonly outputTokens: number
  /** When a trace sent it: milliseconds after its first request. */
  readonly atMs?: number
  /** What else a recording knows of it; only simulations heed it. */
  readonly request?: RecordedRequest
  /** What the same sender asks when it has read the answer; simulations leave it out. */
  readonly next?: WorkItem
}

/** Where the requests of a load come from. */
export interface Dataset {
  /** As the report names it. */
  readonly name: string
  /** How many different items there are; undefined: as many as one asks for. */
  readonly size?: number
  /** True when its items have times and can be replayed. */
  readonly timed: boolean
  /** The item at an index from 0; beyond `size` it begins anew. */
  item(index: number): WorkItem
}
