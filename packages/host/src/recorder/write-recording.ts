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
  /** Its fields without the prompt. */
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

/** The fields of a request that matter to the scheduler. */
export type Asked = {
  readonly [
    Field in 'priority' | 'deadlineMs' | 'timeoutMs' | 'tenant' | 'session' | 'stepGroup' | 'cache'
  ]?: GenerateRequest[Field] | undefined
}

/** The data that a recording is made of. */
export interface RecordingParts {
  readonly reason: string
  readonly beginsAt: number
  readonly endsAt: number
  /** Milliseconds that time since the epoch is ahead of the clock; default: 0. */
  readonly aheadMs?: number
  readonly info: EngineInfo
  readonly policy: PolicySetting
  /** The number of engines that were recorded; default: one. */
  readonly engines?: number
  readonly arrivals: readonly Arrival[]
  readonly steps: readonly RecordedStep[]
  readonly changes: readonly EngineChange[]
}

/**
 * Makes a recording. Hashes and sessions become numbers in order of appearance: equal ones stay equal, and nothing can
 * be guessed from them.
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

/** The failure if the flight recorder is off. */
export const noRecorder = (): CllmError =>
  new CllmError('unsupported', 'This server has no flight recorder: it is switched off')

/** Rounds to the microsecond. */
const rounded = (ms: number): number => Math.round(ms * 1000) / 1000

/** Numbers values from 0; equal values get the same number. */
function numbering(): (value: string | number) => number {
  const numbers = new Map<string | number, number>()
  return (value) => entryOf(numbers, value, () => numbers.size)
}
