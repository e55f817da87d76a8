import type {
  Backend,
  BatchItem,
  OutputLogprobs,
  ScoredTokens,
  StepOutput,
  StepResult,
} from '../../contracts/model/backend.js'
import type { TokenId } from '../../contracts/model/tokenizer.js'
import { chunkEnd, mediaWithin } from '../input/resolve-media.js'
import type { ComputedPart, Plan } from '../../contracts/scheduling/scheduler-policy.js'
import { CllmError } from '../../errors/cllm-error.js'
import type { RunningSet } from '../requests/request-sets.js'
import type { Sequence } from '../requests/sequence.js'
import { type CheckedOutputs, checkOutputs, toError, wrong } from '../backend-calls.js'
import type { StepRecord } from '../../contracts/engine/engine-observer.js'

/** A sequence's share of a step. */
export interface StepPart extends ComputedPart {
  readonly request: Sequence
  /** The draft tokens that it verifies, which are its last tokens; undefined: none. */
  readonly draft?: readonly TokenId[]
}

/** A step's result; failed parts have an error in place of outputs. */
export interface StepOutcome extends Omit<StepResult, 'outputs'> {
  readonly outputs: CheckedOutputs
  /** Whether it succeeded at the first try. */
  readonly isWhole: boolean
}

/** A step that is being computed. */
export interface Step {
  readonly parts: readonly StepPart[]
  readonly startedAt: number
  readonly outcome: Promise<StepOutcome>
}

/**
 * The parts of a plan's step. Each request that still runs gets the planned number of tokens, limited by its remaining
 * tokens, by `mostNow` and by `batchSize`, followed by its drafts.
 */
export function partsOf(plan: Plan, running: RunningSet, batchSize: number): StepPart[] {
  const parts: StepPart[] = []
  let room = batchSize
  for (const entry of plan.run) {
    const sequence = running.get(entry.id)
    if (sequence === undefined) continue
    let tokens = Math.min(entry.tokens, sequence.remainingTokens, sequence.mostNow, room)
    // A slot may hold more already than may be computed of a prompt whose file is being encoded.
    if (tokens <= 0) continue
    const { slotTokens: context, state, media } = sequence
    if (media !== undefined) {
      tokens = chunkEnd(media, context, context + tokens, running.size === 1) - context
    }
    // An image that cannot be cut is computed whole, even beyond `batchSize`, if nothing else is in the step.
    room = Math.max(0, room - tokens)
    const part = { request: sequence, tokens, context, isDecode: state === 'decoding' }
    const wanted = entry.drafts ?? 0
    const drafts = wanted > 0 ? Math.min(wanted, sequence.draft?.tokens ?? 0, room) : 0
    room -= drafts
    parts.push(drafts > 0 ? withDrafts(part, drafts) : part)
  }
  return parts
}

/** Tokens of all parts together. */
export function tokensOf(parts: readonly StepPart[]): number {
  return parts.reduce((sum, { tokens }) => sum + tokens, 0)
}

function withDrafts(part: StepPart, drafts: number): StepPart {
  const draft = part.request.drafts?.take(drafts) ?? []
  return { ...part, tokens: part.tokens + draft.length, drafts: draft.length, draft }
}

/** The part without its drafts. */
export function withoutDrafts(part: StepPart): StepPart {
  const { request, tokens, context, isDecode, drafts = 0 } = part
  return { request, tokens: tokens - drafts, context, isDecode }
}

/**
 * Runs the parts as one batch. If that fails, no slot has changed; each part is then run alone, so that only the request
 * that cannot be computed fails.
 */
export async function runStep(backend: Backend, parts: readonly StepPart[]): Promise<StepOutcome> {
  try {
    const items = parts.map(toItem)
    const result: Partial<StepResult> | undefined = await backend.step(items)
    if (result?.isInterrupted === true) return interrupted
    const outputs = checkOutputs(backend, items, result)
    const { decodeMs = 0, sampleMs = 0 } = result ?? {}
    return {
      ...result,
      outputs,
      // Others than these would spoil all sums: a counter cannot go back, and never gets rid of NaN.
      decodeMs: decodeMs >= 0 && decodeMs < Infinity ? decodeMs : 0,
      sampleMs: sampleMs >= 0 && sampleMs < Infinity ? sampleMs : 0,
      isWhole: result !== undefined,
    }
  } catch (error) {
    const isPlain = parts.every(({ draft }) => draft === undefined)
    if (parts.length > 1 || !isPlain) return await runAlone(backend, parts.map(withoutDrafts))
    return { ...untimed, outputs: [toError(error, 'step')] }
  }
}

/** The fields of a step that was not completed. */
const untimed = Object.freeze({ decodeMs: 0, sampleMs: 0, isWhole: false })

/** The outcome of an interrupted step: nothing was computed. */
const interrupted: StepOutcome = Object.freeze({ ...untimed, outputs: [], isInterrupted: true })

async function runAlone(backend: Backend, parts: readonly StepPart[]): Promise<StepOutcome> {
  const outputs: (readonly StepOutput[] | CllmError)[] = []
  const scores: (readonly OutputLogprobs[])[] = []
  let decodeMs = 0
  let sampleMs = 0
  for (const part of parts) {
    let outcome = await runStep(backend, [part])
    // The parts before it are computed already, so this one is tried again: a step is asked once to end early.
    if (outcome.isInterrupted === true) outcome = await runStep(backend, [part])
    const [drawn = wrong(backend, 'step', 'no second end by interrupt()', 'one')] = outcome.outputs
    outputs.push(drawn)
    scores.push(outcome.scores?.[0] ?? [])
    decodeMs += outcome.decodeMs
    sampleMs += outcome.sampleMs
  }
  return { outputs, scores, decodeMs, sampleMs, isWhole: false }
}

const noSlot = new CllmError('plugin_invalid', 'kv-cache-manager: acquire gave no slot')

/**
 * The backend's view of a part. Positions count the tokens in the slot: where a full slot has lost `discarded` tokens,
 * a token's index in the sequence is larger by that number.
 */
function toItem({ request: sequence, tokens: count, context, draft }: StepPart): BatchItem {
  const { discarded, sampler, request, slot } = sequence
  if (slot === undefined) throw noSlot
  const first = context + discarded
  const end = first + count
  // Draft tokens are not among the sequence's tokens yet.
  const tokens = sequence.tokens.slice(first, end)
  const scores = request.promptLogprobs === undefined ? undefined : scoresOf(sequence, first, end)
  const { applied } = request.adapters
  const isReplay = first >= sequence.promptTokens && count > 1 && draft === undefined
  const more = {
    ...(applied.length === 0 ? {} : { adapters: applied }),
    ...(discarded === 0 ? {} : { discarded }),
    ...(isReplay && request.replayTokens !== undefined && { isReplay }),
    ...(sequence.media !== undefined && mediaWithin(sequence.media, first, end)),
    ...(scores === undefined || sampler === undefined ? {} : { sampler, scores }),
  }
  const isDrawn = end >= sequence.tokens.length
  if (!isDrawn || sampler === undefined) {
    return { slot, position: context, tokens, outputs: [], ...more }
  }
  const { logprobs, drawLogprobs } = request
  const drafts = draft?.length ?? 0
  const last = context + count - 1
  const outputs: number[] = []
  for (let position = last - drafts; position <= last; position++) outputs.push(position)
  return {
    slot,
    position: context,
    tokens: draft === undefined ? tokens : [...tokens, ...draft],
    outputs,
    ...more,
    ...(drafts === 0 ? {} : { drafts }),
    sampler,
    ...(logprobs === undefined ? {} : { logprobs }),
    ...(drawLogprobs === undefined ? {} : { drawLogprobs }),
  }
}

/** The prompt tokens from `first` to `end` whose successors still need log probabilities. */
function scoresOf(sequence: Sequence, first: number, end: number): ScoredTokens | undefined {
  const { promptTokens, promptLogprobs, request } = sequence
  const from = Math.max(first, promptLogprobs.length)
  const tokens = sequence.tokens.slice(from + 1, Math.min(end + 1, promptTokens))
  if (tokens.length === 0) return undefined
  return { position: from, tokens, top: request.promptLogprobs ?? 0 }
}

/** The record of a step that ended at `now`, before its tokens are appended. */
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

const drawn = (outputs: StepOutcome['outputs'][number] | undefined): number =>
  outputs === undefined || CllmError.isInstance(outputs) ? 0 : outputs.length
