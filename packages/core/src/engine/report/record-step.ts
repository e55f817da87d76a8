import type { StepRecord } from '../../contracts/engine/engine-observer.js'
import type { Step, StepOutcome } from '../run-step.js'

/** The record of a step that was computed until `now`, before its tokens are appended. */
export function recordStep(step: Step, outcome: StepOutcome, now: number): StepRecord {
  let prefillTokens = 0
  let decodeSequences = 0
  let decodeContextTokens = 0
  let contextTokens = 0
  for (const { tokens, context, isDecode } of step.parts) {
    contextTokens += context
    if (!isDecode) prefillTokens += tokens
    else {
      decodeSequences++
      decodeContextTokens += context
    }
  }
  return {
    startedAt: step.startedAt,
    endedAt: now,
    durationMs: now - step.startedAt,
    decodeMs: outcome.decodeMs,
    sampleMs: outcome.sampleMs,
    prefillTokens,
    prefillSequences: step.parts.length - decodeSequences,
    decodeSequences,
    decodeContextTokens,
    contextTokens,
    parts: step.parts,
    isWhole: outcome.isWhole,
  }
}
