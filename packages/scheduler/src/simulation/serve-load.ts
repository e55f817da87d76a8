import type { BackendLimits, BatchItem, GenerateRequest, SchedulerPolicy } from '@cllm/core'
import { FakeBackend, type FakeBackendOptions } from '@cllm/core/testing'
import { type Machine, tile } from './machine.js'
import { simulateLoad } from './simulate-load.js'

/** A request of a simulated load. */
export interface LoadRequest extends Omit<GenerateRequest, 'id' | 'prompt' | 'sampling'> {
  readonly id: string
  /** Milliseconds of the simulated clock. */
  readonly arrival: number
  readonly prompt: readonly number[]
  /** Tokens drawn: no answer ends before. */
  readonly maxTokens: number
}

/** What became of a request. */
export interface LoadResult {
  readonly request: LoadRequest
  /** When each token was drawn, in milliseconds of the clock. */
  readonly tokenTimes: readonly number[]
  readonly tokens: readonly number[]
  /** The code of the error that it ended with. */
  readonly error: string | undefined
}

/** A load, and what serves it. */
export interface LoadOptions {
  readonly policy: SchedulerPolicy
  readonly machine: Machine
  readonly requests: readonly LoadRequest[]
  /** Policies that take over, each at its time. */
  readonly successors?: readonly { readonly at: number; readonly policy: SchedulerPolicy }[]
  /** Default 16. */
  readonly slots?: number
  /** Tokens per slot; default 4,096. */
  readonly contextSize?: number
  /** Tokens per step; default 2,048. */
  readonly batchSize?: number
  /** Milliseconds that copying so many tokens between slots takes. */
  readonly copyMs?: (tokens: number) => number
}

/** What serving a load took. */
export interface LoadReport {
  readonly results: readonly LoadResult[]
  readonly steps: number
  /** Prompt tokens computed; what a slot held is not. */
  readonly prefillTokens: number
}

/** The measured time of a copy: 14 ms for a short prefix, 60 for 2,000 tokens. */
const measuredCopyMs = (tokens: number): number => 14 + 0.023 * tokens

/**
 * Serves a load as {@link simulateLoad} does, with a backend that checks every call and whose tokens
 * depend on all before them: slower, and any mistake shows in what is said.
 *
 * @throws Error when a request never ends
 */
export async function serveLoad(options: LoadOptions): Promise<LoadReport> {
  const { policy, machine, requests, successors = [], copyMs = measuredCopyMs } = options
  const { slots = 16, contextSize = 4096, batchSize = 2048 } = options
  const stepMs = (batch: readonly BatchItem[]): number =>
    machine(
      batch.map(({ slot, position, tokens }) => ({
        slot,
        tokens: tokens.length,
        context: position,
      })),
    )
  const drawn = new Map(requests.map(({ id }) => [id, [] as number[]]))
  const { results, steps, prefillTokens } = await simulateLoad({
    policy: () => policy,
    machine: { name: 'fake', about: '', stepMs: machine, copyMs, chunkMultiple: tile },
    requests,
    successors,
    createBackend: (clock) =>
      new CheckedBackend({ clock, stepMs, copyMs, slots, contextSize, batchSize }),
    onToken: (id, token) => drawn.get(id)?.push(token),
  })
  return {
    results: requests.map((request, index) => ({
      request,
      tokenTimes: results[index]?.tokenTimes ?? [],
      tokens: drawn.get(request.id) ?? [],
      error: results[index]?.error,
    })),
    steps,
    prefillTokens,
  }
}

/** A backend without a model that prefers chunks of whole attention tiles. */
class CheckedBackend extends FakeBackend {
  override readonly limits: BackendLimits

  constructor(options: FakeBackendOptions) {
    super(options)
    const { slots = 1, contextSize = 1, batchSize = 1 } = options
    this.limits = Object.freeze({ slots, contextSize, batchSize, chunkMultiple: tile })
  }
}

/**
 * Tokens of a prompt: the same for the same number, and no beginning in common with those of another
 * one.
 */
export function promptTokens(count: number, number: number): number[] {
  let state = Math.imul(number + 1, 0x9e3779b1) >>> 0
  return Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return 4 + ((state >>> 16) % 250)
  })
}
