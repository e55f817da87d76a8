import type { StepRecord } from '../contracts/engine/engine-observer.js'
import type { RecordedStep } from '../contracts/engine/recording.js'
import type { StepTotals } from '../engine/report/counters.js'

/** A step as it is sent to the parent process and kept by the flight recorder. */
export function toRecordedStep(step: StepRecord): RecordedStep {
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

/** The fields of such a step that counters need. */
export function totalsOf(step: RecordedStep): StepTotals {
  const { ms, decodeMs, sampleMs, decode, chunks, drafts } = step
  let prefillTokens = 0
  for (const [tokens] of chunks) prefillTokens += tokens
  return {
    durationMs: ms,
    decodeMs,
    sampleMs,
    prefillTokens,
    prefillSequences: chunks.length,
    decodeSequences: decode,
    draftSequences: drafts?.sequences ?? 0,
    draftTokens: drafts?.tokens ?? 0,
    acceptedTokens: drafts?.accepted ?? 0,
  }
}
