import {
  type ArrivalRecord,
  CllmError,
  defined,
  type RecordedStep,
  type Recording,
  StepCostModel,
  type StepWork,
  workOf,
} from '@cllm/core'
import { mean, quantile } from 'simple-statistics'
import type { MachineModel } from './machine.js'
import { promptIds, type PromptPart } from './simulated-model.js'
import type { SimulatedRequest } from './simulate-load.js'

/** The fewest steps that costs are fitted to. */
const fewest = 20
/** A longer recording is thinned to about this many steps: every second, third … one. */
const most = 4000
/** Observations in all, so that the prior has no weight beside them. */
const observations = 100_000

/**
 * A machine whose steps take as long as the steps of a recording: a `StepCostModel` fitted to them, plus
 * the usual time between two successive steps. A cost that no recorded step shows, such as that of prompts
 * where none were computed, keeps its proportion to the others of a small model on two cores.
 *
 * @throws `invalid_dataset` when there are too few steps
 */
export function recordedMachine({ steps, model, limits }: Recording, file: string): MachineModel {
  if (steps.length < fewest) {
    const problem = `has ${steps.length} steps, too few to tell what one costs: name a machine with --cost`
    throw new CllmError('invalid_dataset', `${file}: ${problem}`, { details: { file } })
  }
  const stride = Math.ceil(steps.length / most)
  const sample = steps.filter((_, index) => index % stride === 0)
  const known = sample.map((step) => ({ work: recordedWork(step), ms: step.ms }))
  const costs = new StepCostModel({ memory: 1, outlier: Infinity })
  for (let pass = 0; pass * known.length < observations; pass++) {
    for (const { work, ms } of known) costs.onWork(work, ms)
  }
  const errors = known.map(({ work, ms }) => Math.abs(costs.predict(work) / ms - 1))
  const error = (100 * mean(errors.filter(Number.isFinite))).toFixed(1)
  const between = betweenSteps(steps)
  return {
    name: 'recorded',
    about: `fitted to ${known.length} steps of ${model}, mean error ${error} %`,
    chunkMultiple: limits.chunkMultiple ?? 1,
    stepMs: (shares) => between + costs.predict(workOf(shares)),
    copyMs: () => 0,
  }
}

function recordedWork({ decode, context, chunks, drafts }: RecordedStep): StepWork {
  const { sequences = 0, tokens = 0 } = drafts ?? {}
  const verifying = { tokens: 1 + tokens / sequences, context: context / decode }
  return {
    decoding: Array.from({ length: decode - sequences }, () => context / decode),
    verifying: Array.from({ length: sequences }, () => verifying),
    chunks: chunks.map(([tokens, before]) => ({ tokens, context: before })),
  }
}

/** The usual time between two steps of an engine: the lower quartile, since pauses without work are no cost. */
function betweenSteps(steps: readonly RecordedStep[]): number {
  const last = new Map<number, RecordedStep>()
  const gaps = steps.flatMap((step) => {
    const { atMs, engine = 0 } = step
    const before = last.get(engine)
    last.set(engine, step)
    return before === undefined ? [] : [Math.max(0, atMs - before.atMs - before.ms)]
  })
  return quantile(gaps, 0.25)
}

/** A recorded request as it can be served again. */
export interface RecordedPrompt {
  /** The prompt's parts: prompts that shared a prefix begin with the same parts. */
  readonly prompt: readonly PromptPart[]
  readonly inputTokens: number
  /** Tokens of the answer; `max_tokens` of a request that was cancelled or timed out, to be cut again. */
  readonly outputTokens: number
  /** Arrival, in milliseconds after the recording's first request. */
  readonly atMs: number
  /** All else that matters to a scheduler. A cancelled request is cancelled after the same time again. */
  readonly request: Omit<SimulatedRequest, 'id' | 'arrival' | 'prompt' | 'maxTokens'>
}

/**
 * The requests of a recording, to be served again. Requests that were refused before their prompt was read
 * are left out.
 */
export function recordedPrompts({ arrivals, blockTokens }: Recording): RecordedPrompt[] {
  const taken = arrivals.filter(({ promptTokens = 0 }) => promptTokens > 0)
  const begin = taken.reduce((first, { atMs }) => Math.min(first, atMs), Infinity)
  return taken.map((arrival, index) => {
    const { promptTokens = 0, blocks, atMs } = arrival
    const prompt = blocks.map((block) => ({ key: `block ${block}`, tokens: blockTokens }))
    const tail = promptTokens - blocks.length * blockTokens
    // Prefixes are recorded in whole blocks: the tokens behind the last one are shared with no other prompt.
    if (tail > 0) prompt.push({ key: `tail ${index}`, tokens: tail })
    return {
      prompt,
      inputTokens: promptTokens,
      outputTokens: answerTokens(arrival),
      atMs: atMs - begin,
      request: settingsOf(arrival),
    }
  })
}

/** The requests of a recording as requests of a simulation. */
export function recordedRequests(recording: Recording): SimulatedRequest[] {
  return recordedPrompts(recording).map((recorded, index) => ({
    ...recorded.request,
    id: String(index),
    arrival: recorded.atMs,
    prompt: () => promptIds(recorded.prompt),
    maxTokens: recorded.outputTokens,
  }))
}

function answerTokens({ end, tokens, maxTokens = tokens }: ArrivalRecord): number {
  const isCut = end === 'cancelled' || end === 'timeout'
  return Math.max(1, isCut ? maxTokens : tokens)
}

function settingsOf(arrival: ArrivalRecord): RecordedPrompt['request'] {
  const { priority, deadlineMs, tenant, session, stepGroup, cache, end, endMs } = arrival
  return defined({
    priority,
    deadlineMs,
    timeoutMs: arrival.timeoutMs ?? (end === 'timeout' ? endMs : undefined),
    tenant,
    session: session === undefined ? undefined : String(session),
    stepGroup,
    cache,
    cancelAfterMs: end === 'cancelled' ? endMs : undefined,
  })
}
