import { type BatchItem, nextNumber, type SchedulerPolicy } from '@cllm/core'
import { FakeBackend } from '@cllm/testing'
import {
  type Machine,
  type SimulatedAnswer,
  simulateLoad,
  type SimulationOptions,
  tile,
} from '@cllm/simulation'

/** What became of a request, and the tokens that were drawn for it. */
export interface ServedAnswer extends SimulatedAnswer {
  readonly tokens: readonly number[]
}

type Load = Pick<
  SimulationOptions,
  'requests' | 'successors' | 'slots' | 'contextSize' | 'batchSize'
> & { readonly policy: SchedulerPolicy; readonly machine: Machine }

/** A measured time of a copy: 14 ms for a short prefix, 60 for 2,000 tokens. */
const copyMs = (tokens: number): number => 14 + 0.023 * tokens

/**
 * Serves a load as `simulateLoad` does, on a backend that checks every call and whose tokens depend on
 * all before them, so that any mistake shows in what is drawn.
 */
export async function serveLoad({ policy, machine, ...load }: Load) {
  const { slots = 16, contextSize = 4096, batchSize = 2048 } = load
  const stepMs = (batch: readonly BatchItem[]): number =>
    machine(
      batch.map(({ slot, position, tokens }) => ({
        slot,
        tokens: tokens.length,
        context: position,
      })),
    )
  const drawn = new Map(load.requests.map(({ id }) => [id, [] as number[]]))
  const report = await simulateLoad({
    ...load,
    policy: () => policy,
    machine: { name: 'fake', about: '', stepMs: machine, copyMs, chunkMultiple: tile },
    createBackend(clock) {
      const backend = new FakeBackend({ clock, stepMs, copyMs, slots, contextSize, batchSize })
      return Object.assign(backend, { limits: { ...backend.limits, chunkMultiple: tile } })
    },
    onToken: (id, token) => drawn.get(id)?.push(token),
  })
  const results = report.results.map((answer): ServedAnswer => {
    return { ...answer, tokens: drawn.get(answer.request.id) ?? [] }
  })
  return { ...report, results }
}

/**
 * Tokens of a prompt: the same for the same number, and no beginning in common with those of another
 * one.
 */
export function promptTokens(count: number, number: number): number[] {
  let state = Math.imul(number + 1, 0x9e3779b1) >>> 0
  return Array.from({ length: count }, () => {
    state = nextNumber(state)
    return 4 + ((state >>> 16) % 250)
  })
}
