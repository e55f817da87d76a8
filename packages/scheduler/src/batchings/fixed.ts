import { defineBatching, type SchedulerState, type SequenceView, type Step } from '@cllm/core'
import { z } from 'zod'
import { notNegative } from '../kit/options.js'
import { longestWaiting } from '../kit/ranked-orders.js'

/**
 * Static batching, the baseline: collects a group, computes all its prompts, then decodes until the
 * longest one is done, and only then takes the next group. What every server did before continuous
 * batching.
 */
export const staticBatching = defineBatching({
  name: 'static',
  doc: 'A group runs until its longest answer is done, and only then comes the next group. The baseline: what every server did once.',
  options: z.object({
    groupSize: z.int().min(1).default(8).describe('Requests of a group; cut to the slots.'),
    waitMs: notNegative
      .default(100)
      .describe('Milliseconds that the first request waits for the others, at most.'),
  }),
  create: ({ groupSize, waitMs }) => ({
    inGroups: true,
    plan(state, next) {
      if (state.running.length > 0) return groupStep(state)
      const { now, waiting, freeSlots } = state
      const wakeAt = (oldestArrival(state) ?? now) + waitMs
      const isWhole = waiting.size >= Math.min(groupSize, freeSlots)
      if (!isWhole && now < wakeAt) return { admit: [], run: [], wakeAt }
      return groupStep(state, firstOf(state, next, groupSize))
    },
  }),
})

/**
 * A dynamic batching window, the way of the original cLLM and of Triton's batcher: requests wait up
 * to 50 ms or until there are 8, run as a group, prompts first, and a group that has shrunk to less
 * than half takes in the next ones.
 */
export const window = defineBatching({
  name: 'window',
  doc: 'Requests wait for others and run as a group, which takes in new ones when it has shrunk (the original cLLM, Triton). For comparing.',
  options: z.object({
    windowMs: notNegative
      .default(50)
      .describe('Milliseconds that a request waits for others, at most.'),
    minRequests: z
      .int()
      .min(1)
      .default(8)
      .describe('Number of waiting requests that starts a group; capped at the free slots.'),
    regroupBelow: z
      .number()
      .min(0)
      .max(1)
      .default(0.5)
      .describe('A group takes in new requests when less than this share of it still runs.'),
  }),
  create({ windowMs, minRequests, regroupBelow }) {
    /** The size of the group when it was formed. */
    let formed = 0
    return {
      inGroups: true,
      plan(state, next) {
        const { now, running, waiting, freeSlots } = state
        if (running.length > 0 && running.length >= regroupBelow * formed) return groupStep(state)
        const wakeAt = (oldestArrival(state) ?? now) + windowMs
        const isReady = waiting.size >= Math.min(minRequests, freeSlots) || now >= wakeAt
        if (!isReady && running.length > 0) return groupStep(state)
        if (!isReady) return { admit: [], run: [], wakeAt }
        const admitted = firstOf(state, next, freeSlots)
        formed = running.length + admitted.length
        return groupStep(state, admitted)
      },
    }
  },
})

/**
 * A step of a group: its prompts as long as there are any, then a token for each request. `admitted` requests get a slot
 * now, even if there is no room for their prompts in this step.
 */
export function groupStep(state: SchedulerState, admitted: readonly SequenceView[] = []): Step {
  return promptsFirst(state, (step) => {
    for (const request of admitted) step.admit(request, request.remainingTokens)
  })
}

/** The prompts of running requests and of those that `admit` adds; without prompts, a token for each running request. */
function promptsFirst(state: SchedulerState, admit: (step: StepBuilder) => void): Step {
  const step = new StepBuilder(state)
  for (const request of state.running) {
    if (request.remainingTokens > 1) step.run(request, request.remainingTokens)
  }
  admit(step)
  const prompts = step.build()
  if (prompts.run.length > 0) return prompts
  for (const request of state.running) step.run(request, 1)
  return step.build()
}

/** The first `count` requests of `next`, as far as slots are free. */
export function firstOf(
  state: SchedulerState,
  next: Iterable<SequenceView>,
  count: number,
): SequenceView[] {
  const { freeSlots, limits, running } = state
  const most = Math.min(count, freeSlots, limits.batchSize - running.length)
  const first: SequenceView[] = []
  if (most <= 0) return first
  for (const request of next) if (first.push(request) >= most) break
  return first
}

/** The arrival of the request that has waited longest; undefined when none waits. */
export function oldestArrival({ waiting }: SchedulerState): number | undefined {
  return longestWaiting(waiting)?.arrival
}

/**
 * Prefill first: as long as there are prompts, a step computes whole prompts, as many as fit into
 * `limits.batchSize`, and other requests wait; without prompts it decodes. Best for throughput, worst
 * for the time between tokens. After Orca (OSDI '22) as first built in vLLM.
 */
export const continuous = defineBatching({
  name: 'continuous',
  doc: 'Whole prompts as long as there are any, else a token for every request (Orca, OSDI ’22). For throughput: streams stall while prompts come.',
  create: () => ({
    plan: (state, next) =>
      promptsFirst(state, (step) => {
        if (!step.canAdmit) return
        for (const request of next) {
          const whole = request.remainingTokens
          if (whole > step.tokensLeft && step.tokensLeft < state.limits.batchSize) break
          step.admit(request, whole)
          if (!step.canAdmit) break
        }
      }),
  }),
})

/**
 * Decode first: every decoding sequence gets its token, and the rest of a fixed budget goes to chunks of prompts, in
 * order. After Sarathi-Serve (OSDI '24, arXiv 2403.02310).
 */
export const chunked = defineBatching({
  name: 'chunked',
  doc: 'A token for every request that decodes, then prompts in chunks, within a fixed budget (Sarathi-Serve, OSDI ’24). For an even time between tokens, where the machine is known.',
  options: z.object({
    tokenBudget: z.int().min(1).default(256).describe('Tokens of a step, at most.'),
  }),
  create: ({ tokenBudget }) => ({
    plan(state, next) {
      const step = new StepBuilder(state, Math.max(tokenBudget, state.running.length + 1))
      for (const request of state.running) {
        if (request.remainingTokens === 1) step.run(request, 1)
      }
      for (const request of state.running) {
        if (request.remainingTokens > 1) step.run(request, request.remainingTokens)
      }
      if (!step.canAdmit) return step.build()
      for (const request of next) {
        step.admit(request, request.remainingTokens)
        if (!step.canAdmit) break
      }
      return step.build()
    },
  }),
})

/** Collects a step within its token budget, the slots and `limits.batchSize`. */
export class StepBuilder {
  readonly #admit: string[] = []
  readonly #run: { id: string; tokens: number }[] = []
  #tokens: number
  #slots: number

  /** @param budget - Tokens of the step, at most; cut to `limits.batchSize`. */
  constructor(state: SchedulerState, budget = Infinity) {
    this.#tokens = Math.min(budget, state.limits.batchSize)
    // A sequence beyond the batch size could not decode in the same step as the others.
    this.#slots = Math.min(state.freeSlots, state.limits.batchSize - state.running.length)
  }

  /** The number of tokens that still fit. */
  get tokensLeft(): number {
    return this.#tokens
  }

  /** Whether another waiting request can be admitted and get a token. */
  get canAdmit(): boolean {
    return this.#slots > 0 && this.#tokens > 0
  }

  /** Computes up to `tokens` of a running request and returns how many fit. */
  run(request: SequenceView, tokens: number): number {
    const fitting = Math.min(tokens, this.#tokens)
    if (fitting <= 0) return 0
    this.#run.push({ id: request.id, tokens: fitting })
    this.#tokens -= fitting
    return fitting
  }

  /** Gives a waiting request a slot and computes up to `tokens` of it. Needs `canAdmit`. */
  admit(request: SequenceView, tokens: number): number {
    this.#admit.push(request.id)
    this.#slots -= 1
    return this.run(request, tokens)
  }

  /** The finished step. */
  build(): Step {
    return { admit: this.#admit, run: this.#run }
  }
}
