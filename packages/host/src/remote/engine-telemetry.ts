import {
  type EngineObserver,
  type StepRecord,
  type RecordedStep,
  type Sequence,
  blockSize,
} from '@cllm/core'

/** A request that an engine queued. */
export interface QueuedRequest {
  readonly id: string
  readonly maxTokens: number
  /** Hashes of the whole blocks of its prompt. */
  readonly blocks: readonly number[]
}

/** Data besides events that an engine sends along with its next message. */
export interface EngineTelemetry {
  readonly steps: readonly RecordedStep[]
  readonly queued: readonly QueuedRequest[]
  /** Milliseconds of work since its start. */
  readonly busyMs: number
}

/** Collects an engine's telemetry until the next message takes it along. */
export class TelemetryBuffer implements EngineObserver {
  #steps: RecordedStep[] = []
  #queued: QueuedRequest[] = []
  #busyMs = 0

  onStep(step: StepRecord): void {
    this.#steps.push(toRecordedStep(step))
  }

  onQueued({ id, maxTokens, promptTokens, chain }: Sequence): void {
    const blocks = chain.hashes.slice(0, Math.floor(promptTokens / blockSize))
    this.#queued.push({ id, maxTokens, blocks })
  }

  onTurn(durationMs: number): void {
    this.#busyMs += durationMs
  }

  /** Telemetry since the last call, as part of a message; empty if there is none. */
  take(): { readonly telemetry?: EngineTelemetry } {
    const [steps, queued] = [this.#steps, this.#queued]
    if (steps.length === 0 && queued.length === 0) return {}
    this.#steps = []
    this.#queued = []
    return { telemetry: { steps, queued, busyMs: this.#busyMs } }
  }
}

/** A step as it is sent to the parent process and kept by the flight recorder. */
function toRecordedStep(step: StepRecord): RecordedStep {
  const chunks: [tokens: number, context: number][] = []
  for (const { tokens, context, isDecode } of step.parts) {
    if (!isDecode) chunks.push([tokens, context])
  }
  const { startedAt, durationMs, decodeMs, sampleMs } = step
  const { decodeSequences: decode, decodeContextTokens: context } = step
  const recorded = { atMs: startedAt, ms: durationMs, decodeMs, sampleMs, decode, context, chunks }
  const { draftSequences: sequences, draftTokens: tokens, acceptedTokens: accepted } = step
  return sequences === 0 ? recorded : { ...recorded, drafts: { sequences, tokens, accepted } }
}
