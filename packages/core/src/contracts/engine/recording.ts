import type { BackendLimits } from '../model/backend.js'

/** A step as the flight recorder keeps it: a compact `StepRecord`. */
export interface RecordedStep {
  /** When it began, in milliseconds of the clock. */
  readonly atMs: number
  /** From its start to its tokens. */
  readonly ms: number
  /** In the backend's forward pass. */
  readonly decodeMs: number
  /** In the backend's sampling. */
  readonly sampleMs: number
  /** Requests that computed their single next token. */
  readonly decode: number
  /** Tokens in their slots before. */
  readonly context: number
  /** Prompt chunks: their tokens, and the tokens in the slot before. */
  readonly chunks: readonly (readonly [tokens: number, context: number])[]
  /** Of the requests that decode, those with drafts; absent: none. */
  readonly drafts?: RecordedDrafts
  /** The number of the engine that computed it, from 0; absent where there is one. */
  readonly engine?: number
}

/** The drafts of a step: sums over its requests. */
export interface RecordedDrafts {
  /** Requests that verified drafts. */
  readonly sequences: number
  /** Draft tokens. */
  readonly tokens: number
  /** Those that were drawn. */
  readonly accepted: number
}

/** The arrival and end of a request, without its content. */
export interface ArrivalRecord {
  readonly id: string
  /** When it came, in milliseconds from the beginning of the recording; of older ones negative. */
  readonly atMs: number
  /** Absent if it was refused before its prompt was read. */
  readonly promptTokens?: number
  readonly maxTokens?: number
  readonly priority?: number
  readonly deadlineMs?: number
  readonly timeoutMs?: number
  readonly tenant?: string
  /** A number for its session. */
  readonly session?: number
  readonly stepGroup?: string
  readonly cache?: boolean
  /**
   * Numbers that stand for the whole blocks of its prompt, each with all that comes before it: where
   * two prompts have the same number they have begun with the same tokens.
   */
  readonly blocks: readonly number[]
  /** Tokens that its client had. */
  readonly tokens: number
  /** When the first of them came. */
  readonly firstTokenMs?: number
  /** When it ended; absent while in flight. */
  readonly endMs?: number
  /** How it ended: `done`, or the code of its error. */
  readonly end?: string
}

/** The engine's process came or went. */
export interface EngineChange {
  readonly atMs: number
  readonly change: 'ready' | 'gone'
  /** Why it is gone. */
  readonly reason?: string
  /** The number of the engine, from 0; absent where there is one. */
  readonly engine?: number
}

/** What the flight recorder has of the last minutes: enough to simulate them with any policy. */
export interface Recording {
  /** Raised when a field changes its meaning or goes. */
  readonly schema: 1
  readonly kind: 'recording'
  /** Why it was written: `asked`, or the cause of the crash. */
  readonly reason: string
  /** When it begins, in milliseconds since the epoch. All times in it count from there. */
  readonly beginsAt: number
  /** How long it is. */
  readonly durationMs: number
  readonly model: string
  /** Of each engine. */
  readonly limits: BackendLimits
  /** Engines that it is of, which share the requests; absent: one. */
  readonly engines?: number
  /** The policy that was in force at the end. */
  readonly policy: string
  readonly policyOptions: Readonly<Record<string, unknown>>
  /** Tokens of a block. */
  readonly blockTokens: number
  /** By their time; requests from before the beginning that were still under way come first. */
  readonly arrivals: readonly ArrivalRecord[]
  readonly steps: readonly RecordedStep[]
  readonly engine: readonly EngineChange[]
}

/** How much the flight recorder holds now. */
export interface RecorderStatistics {
  readonly arrivals: number
  readonly steps: number
  /** The memory that they take, about. */
  readonly bytes: number
}
