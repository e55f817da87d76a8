import { createPolicy, policyNames } from '@cllm/scheduler'
import type { SimulatedRequest } from '@cllm/simulation'
import * as fc from 'fast-check'
import t from 'tap'
import { promptTokens, serveLoad } from './serve-load.js'

const machine = (shares: readonly { tokens: number }[]): number =>
  10 + shares.reduce((sum, { tokens }) => sum + tokens, 0)

/** Options that make preemption, quanta and impatience happen in small loads. */
const lively = (name: string): Record<string, unknown> => {
  const [, order = ''] = name.split('+')
  const patience = order === 'fcfs' ? {} : { patience: 100 }
  const own = {
    priority: { preemptionThreshold: 2 },
    mlfq: { quantum: 8, preemptionLevels: 1 },
    dlpm: { quantum: 30 },
  }
  return { ...patience, ...own[order as 'mlfq'] }
}

const requests: fc.Arbitrary<SimulatedRequest[]> = fc
  .array(
    fc.record({
      arrival: fc.nat(1500),
      family: fc.nat(3),
      shared: fc.constantFrom(0, 20, 80),
      own: fc.integer({ min: 1, max: 60 }),
      maxTokens: fc.integer({ min: 1, max: 40 }),
      priority: fc.integer({ min: -3, max: 3 }),
      tenant: fc.constantFrom('a', 'b', 'c'),
      deadlineMs: fc.option(fc.integer({ min: 1, max: 3000 }), { nil: undefined }),
      stepGroup: fc.constantFrom(undefined, undefined, 'adapter'),
    }),
    { minLength: 1, maxLength: 40 },
  )
  .map((list) =>
    list.map(({ family, shared, own, deadlineMs, stepGroup, ...request }, index) => ({
      ...request,
      ...(deadlineMs === undefined ? {} : { deadlineMs }),
      ...(stepGroup === undefined ? {} : { stepGroup }),
      id: `${index}`,
      prompt: [...promptTokens(shared, family), ...promptTokens(own, 10 + index)],
    })),
  )

const successors = fc.array(
  fc.record({ at: fc.nat(3000), name: fc.constantFrom(...policyNames) }),
  { maxLength: 8 },
)

t.test('any policies after each other: nobody is lost, and everyone gets the same tokens', (t) =>
  fc.assert(
    fc.asyncProperty(
      requests,
      successors,
      fc.integer({ min: 1, max: 5 }),
      async (load, swaps, slots) => {
        const setting = { machine, requests: load, contextSize: 256, batchSize: 64 }
        const alone = await serveLoad({
          ...setting,
          slots: 40,
          policy: createPolicy('continuous+fcfs'),
        })
        const swapped = await serveLoad({
          ...setting,
          slots,
          policy: createPolicy('adaptive+fcfs'),
          successors: swaps.map(({ at, name }) => ({
            at,
            policy: createPolicy(name, lively(name)),
          })),
        })
        for (const [index, { tokens, error, request }] of swapped.results.entries()) {
          if (error === 'rejected' && request.deadlineMs !== undefined) continue
          t.equal(error, undefined)
          t.same(tokens, alone.results[index]?.tokens)
        }
      },
    ),
    { numRuns: 60, seed: 1 },
  ),
)
