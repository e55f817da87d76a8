import type {
  EngineInfo,
  GenerateRequest,
  ArrivalRecord,
  EngineChange,
  RecordedStep,
  Recording,
  PolicySetting,
} from '@cllm/core'
import { CllmError, blockSize, defined, entryOf } from '@cllm/core'

/** A request as the recorder has it in memory; times are the clock's. */
export interface Arrival {
  readonly id: string
  /** All but its prompt. */
  readonly asked: Asked
  readonly atMs: number
  /** Hashes of the blocks of its prompt. */
  blocks: readonly number[]
  promptTokens?: number
  maxTokens?: number
  /** Tokens that its client had before, from another engine; default: none. */
  readonly had?: number
  tokens: number
  /** Milliseconds after its arrival, as for the fields below. */
  firstTokenMs?: number
  endMs?: number
  end?: string
}

/** What of a request matters to the scheduler. */
export type Asked = {
  readonly [
    Field in 'priority' | 'deadlineMs' | 'timeoutMs' | 'tenant' | 'session' | 'stepGroup' | 'cache'
  ]?: GenerateRequest[Field] | undefined
}

/** What a recording is made from. */
export interface RecordingParts {
  readonly reason: string
  readonly beginsAt: number
  readonly endsAt: number
  /** What the epoch's time is ahead of the clock; default: 0. */
  readonly aheadMs?: number
  readonly info: EngineInfo
  readonly policy: PolicySetting
  /** Default: one. */
  readonly engines?: number
  readonly arrivals: readonly Arrival[]
  readonly steps: readonly RecordedStep[]
  readonly changes: readonly EngineChange[]
}

/**
 * Puts a recording together. Hashes and sessions become numbers in the order in which they come up:
 * that keeps what is equal, and nothing can be guessed from it.
 */
export function writeRecording(parts: RecordingParts): Recording {
  const { reason, beginsAt, endsAt, aheadMs = 0, info } = parts
  const [blockOf, sessionOf] = [numbering(), numbering()]
  const since = (atMs: number) => rounded(atMs - beginsAt)
  const arrivals = parts.arrivals.map(({ asked, blocks, had = 0, ...arrival }): ArrivalRecord => {
    const { session, ...rest } = asked
    const { firstTokenMs, endMs } = arrival
    return {
      ...arrival,
      ...defined(rest),
      ...(session !== undefined && { session: sessionOf(session) }),
      ...(firstTokenMs !== undefined && { firstTokenMs: rounded(firstTokenMs) }),
      ...(endMs !== undefined && { endMs: rounded(endMs) }),
      tokens: had + arrival.tokens,
      atMs: since(arrival.atMs),
      blocks: blocks.map(blockOf),
    }
  })
  return {
    schema: 1,
    kind: 'recording',
    reason,
    beginsAt: rounded(beginsAt + aheadMs),
    durationMs: rounded(endsAt - beginsAt),
    model: info.model.id,
    limits: info.limits,
    ...(parts.engines !== undefined && { engines: parts.engines }),
    policy: parts.policy.policy,
    policyOptions: parts.policy.options,
    blockTokens: blockSize,
    arrivals,
    steps: parts.steps.map(({ atMs, ms, decodeMs, sampleMs, ...step }) => ({
      atMs: since(atMs),
      ms: rounded(ms),
      decodeMs: rounded(decodeMs),
      sampleMs: rounded(sampleMs),
      ...step,
    })),
    engine: parts.changes.map((change) => ({ ...change, atMs: since(change.atMs) })),
  }
}

/** The failure where no recording is made. */
export function noRecorder(): CllmError {
  const message = 'This server has no flight recorder: it is switched off'
  return new CllmError('unsupported', message)
}

/** To the microsecond. */
const rounded = (ms: number): number => Math.round(ms * 1000) / 1000

/** Numbers from 0 for what is equal. */
function numbering(): (value: string | number) => number {
  const numbers = new Map<string | number, number>()
  return (value) => entryOf(numbers, value, () => numbers.size)
}
