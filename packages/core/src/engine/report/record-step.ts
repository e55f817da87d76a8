import type { StepRecord } from '../../contracts/engine/engine-observer.js'
import { CllmError } from '../../errors/cllm-error.js'
import type { Step, StepOutcome } from '../loop/run-step.js'

/** The record of a step that was computed until `now`, before its tokens are appended. */
export function recordStep(step: Step, outcome: StepOutcome, now: number): StepRecord {
  let prefillTokens = 0
  let decodeSequences = 0
  let decodeContextTokens = 0
  let contextTokens = 0
  let draftSequences = 0
  let draftTokens = 0
  let acceptedTokens = 0
  for (const [index, { tokens, context, isDecode, drafts = 0 }] of step.parts.entries()) {
    contextTokens += context
    if (drafts > 0) {
      draftSequences++
      draftTokens += drafts
      acceptedTokens += Math.max(0, drawn(outcome.outputs[index]) - 1)
    }
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
    draftSequences,
    draftTokens,
    acceptedTokens,
    decodeContextTokens,
    contextTokens,
    parts: step.parts,
    isWhole: outcome.isWhole,
  }
}

function drawn(outputs: StepOutcome['outputs'][number] | undefined): number {
  return outputs === undefined || CllmError.isInstance(outputs) ? 0 : outputs.length
}
