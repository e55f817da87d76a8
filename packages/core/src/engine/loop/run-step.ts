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
import { type CheckedOutputs, checkOutputs, toError } from '../backend-calls.js'
import type { StepRecord } from '../../contracts/engine/engine-observer.js'

/** A sequence's share of a step. */
export interface StepPart extends ComputedPart {
  readonly request: Sequence
  /** The drafts that it verifies, which are the last of its tokens; none: undefined. */
  readonly draft?: readonly TokenId[]
}

/** A step's result; a part that failed has its error in place of outputs. */
export interface StepOutcome extends Omit<StepResult, 'outputs'> {
  readonly outputs: CheckedOutputs
  /** Whether it went well at the first try. */
  readonly isWhole: boolean
}

/** A step that is under way. */
export interface Step {
  readonly parts: readonly StepPart[]
  readonly startedAt: number
  readonly outcome: Promise<StepOutcome>
}

/**
 * The parts of a plan's step. Each request that still runs gets the tokens that the plan gives it, as far as it has
 * so many left, may compute them next, and they fit into `batchSize`; its drafts come behind them.
 */
export function partsOf(plan: Plan, running: RunningSet, batchSize: number): StepPart[] {
  const parts: StepPart[] = []
  let room = batchSize
  for (const entry of plan.run) {
    const sequence = running.get(entry.id)
    if (sequence === undefined) continue
    let tokens = Math.min(entry.tokens, sequence.remainingTokens, sequence.mostNow, room)
    if (tokens === 0) continue
    const { slotTokens: context, state, media } = sequence
    if (media !== undefined) {
      tokens = chunkEnd(media, context, context + tokens, running.size === 1) - context
    }
    // An image that is alone is computed whole, however large it is.
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

/** The same without its drafts. */
export function withoutDrafts(part: StepPart): StepPart {
  const { request, tokens, context, isDecode, drafts = 0 } = part
  return { request, tokens: tokens - drafts, context, isDecode }
}

/**
 * Runs the parts as one batch. When that fails, no slot has changed: each part is then run alone, so
 * that only the request that cannot be computed fails and never one beside it.
 */
export async function runStep(backend: Backend, parts: readonly StepPart[]): Promise<StepOutcome> {
  try {
    const items = parts.map(toItem)
    const result: Partial<StepResult> | undefined = await backend.step(items)
    if (result?.isInterrupted === true) return interrupted
    const outputs = checkOutputs(backend, items, result)
    return { decodeMs: 0, sampleMs: 0, ...result, outputs, isWhole: result !== undefined }
  } catch (error) {
    const isPlain = parts.every(({ draft }) => draft === undefined)
    if (parts.length > 1 || !isPlain) return await runAlone(backend, parts.map(withoutDrafts))
    return { ...untimed, outputs: [toError(error)] }
  }
}

/** What took no time and did not come to its end. */
const untimed = Object.freeze({ decodeMs: 0, sampleMs: 0, isWhole: false })

/** Nothing was computed. */
const interrupted: StepOutcome = Object.freeze({ ...untimed, outputs: [], isInterrupted: true })

async function runAlone(backend: Backend, parts: readonly StepPart[]): Promise<StepOutcome> {
  const outputs: (readonly StepOutput[] | CllmError)[] = []
  const scores: (readonly OutputLogprobs[])[] = []
  let decodeMs = 0
  let sampleMs = 0
  for (const part of parts) {
    let outcome = await runStep(backend, [part])
    // Those before it are computed already.
    while (outcome.isInterrupted === true) outcome = await runStep(backend, [part])
    outputs.push(...outcome.outputs)
    scores.push(outcome.scores?.[0] ?? [])
    decodeMs += outcome.decodeMs
    sampleMs += outcome.sampleMs
  }
  return { outputs, scores, decodeMs, sampleMs, isWhole: false }
}

/**
 * What the backend computes for a part. Its `position`s count the tokens in the slot; from a slot that was full,
 * `discarded` tokens are gone, and the same token has a larger index in the sequence.
 */
function toItem({ request: sequence, tokens: count, context, draft }: StepPart): BatchItem {
  const { discarded, sampler, request } = sequence
  const slot = sequence.slot ?? -1
  const first = context + discarded
  const end = first + count
  // Drafts are no tokens of the sequence yet.
  const tokens = sequence.tokens.slice(first, end)
  const scores = request.promptLogprobs === undefined ? undefined : scoresOf(sequence, first, end)
  const { applied } = request.adapters
  const more = {
    ...(applied.length === 0 ? {} : { adapters: applied }),
    ...(discarded === 0 ? {} : { discarded }),
    ...(sequence.media !== undefined && mediaWithin(sequence.media, first, end)),
  }
  const isDrawn = end >= sequence.tokens.length
  if (!isDrawn || sampler === undefined) {
    const item: BatchItem = { slot, position: context, tokens, outputs: [], ...more }
    return scores === undefined || sampler === undefined ? item : { ...item, sampler, scores }
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
    ...(scores === undefined ? {} : { scores }),
  }
}

/** The prompt's tokens from `first` to `end` whose next ones are still to be scored. */
function scoresOf(sequence: Sequence, first: number, end: number): ScoredTokens | undefined {
  const { promptTokens, promptLogprobs, request } = sequence
  const from = Math.max(first, promptLogprobs.length)
  const tokens = sequence.tokens.slice(from + 1, Math.min(end + 1, promptTokens))
  if (tokens.length === 0) return undefined
  return { position: from, tokens, top: request.promptLogprobs ?? 0 }
}

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

const drawn = (outputs: StepOutcome['outputs'][number] | undefined): number =>
  outputs === undefined || CllmError.isInstance(outputs) ? 0 : outputs.length
