import assert from 'node:assert/strict'
import { CllmError, type Plan, PluginRegistry } from '@cllm/core'
import { registerPlugin } from '@cllm/host'
import {
  batchingNames,
  batchings,
  createPolicy,
  defaultPolicyName,
  orderNames,
  orders,
  policyNames,
  schedulerPlugin,
} from '@cllm/scheduler'
import { type SimulatedRequest, equalPasses, twoCores } from '@cllm/simulation'
import * as fc from 'fast-check'
import t from 'tap'
import { type Job, serve } from './loads.js'
import { promptTokens, serveLoad } from './serve-load.js'

const machine = equalPasses(twoCores)

const jobs: fc.Arbitrary<Job[]> = fc
  .array(
    fc.record({
      arrival: fc.integer({ min: 0, max: 3000 }),
      promptTokens: fc.integer({ min: 1, max: 200 }),
      maxTokens: fc.integer({ min: 1, max: 12 }),
      stepGroup: fc.constantFrom('a', 'a', 'a', 'b'),
    }),
    { minLength: 1, maxLength: 25 },
  )
  .map((list) =>
    list
      .sort((one, other) => one.arrival - other.arrival)
      .map((job, index) => ({ ...job, id: `request ${index}` })),
  )

t.test('the names', (t) => {
  t.same(batchingNames, ['static', 'window', 'continuous', 'chunked', 'adaptive'])
  const expected = 'fcfs priority sjf hrrn lpm fair dlpm edf mlfq agents random'
  t.same(orderNames, expected.split(' '))
  t.equal(policyNames.length, batchingNames.length * orderNames.length)
  t.equal(createPolicy().name, defaultPolicyName)
  t.end()
})

for (const batching of batchingNames) {
  const name = `${batching}+fcfs`
  t.test(`${name} serves everyone in order within slots and batch size`, async () => {
    const setting = fc.record({
      slots: fc.integer({ min: 1, max: 6 }),
      batchSize: fc.integer({ min: 1, max: 64 }),
      jobs,
    })
    await fc.assert(
      fc.asyncProperty(setting, async (chosen) => {
        const plans: Plan[] = []
        const onPlan = (plan: Plan): void => void plans.push(plan)
        const served = await serve({ policy: createPolicy(name), machine, onPlan }, chosen)
        assert.equal(served.length, chosen.jobs.length)
        const admitted = plans.flatMap((plan) => plan.admit)
        const inOrder = chosen.jobs.map(({ id }) => id)
        assert.deepEqual(admitted, inOrder)

        const again: Plan[] = []
        const repeat = (plan: Plan): void => void again.push(plan)
        await serve({ policy: createPolicy(name), machine, onPlan: repeat }, chosen)
        assert.deepEqual(again, plans, 'and the same again')
      }),
      { numRuns: 25 },
    )
  })
}

/** What the first steps of a policy compute: tokens by request. */
async function firstSteps(name: string, options = {}): Promise<string[]> {
  const steps: string[] = []
  const list = [300, 100, 50].map((promptTokens, index) => {
    return { id: 'abc'.charAt(index), arrival: 1 + index, promptTokens, maxTokens: 3 }
  })
  const onPlan = ({ run }: Plan) =>
    void steps.push(run.map(({ id, tokens }) => `${id}${tokens}`).join(' '))
  const jobs = [{ id: 'x', arrival: 0, promptTokens: 5, maxTokens: 6 }, ...list]
  await serve(
    { policy: createPolicy(name, options), machine, onPlan },
    { slots: 3, batchSize: 256, jobs },
  )
  return steps
}

t.test('continuous computes whole prompts first', async (t) => {
  t.same((await firstSteps('continuous+fcfs')).slice(0, 4), ['x5', 'a256', 'a44 b100', 'x1 a1 b1'])
})

t.test('chunked decodes first and fills its budget with prompts', async (t) => {
  const steps = await firstSteps('chunked+fcfs', { tokenBudget: 128 })
  t.same(steps.slice(0, 5), ['x5', 'x1 a127', 'x1 a127', 'x1 a46 b81', 'x1 a1 b19'])
  t.same(createPolicy('chunked+fcfs').options, { tokenBudget: 256 })
})

t.test('what is wrong is named, with what would be right', (t) => {
  const failure = (name: string, options?: Record<string, unknown>): CllmError => {
    try {
      createPolicy(name, options)
    } catch (error) {
      if (CllmError.isInstance(error)) return error
    }
    throw new Error('no CllmError')
  }
  const wrong = [
    failure('adaptive'),
    failure('fcfs+adaptive'),
    failure('chunked+fcfs+fcfs'),
    failure(''),
  ]
  for (const error of wrong) {
    t.equal(error.code, 'invalid_policy')
    t.match(error.message, 'expected batching+order, of the batchings static, window, continuous')
    t.match(error.message, 'and the orders fcfs, priority, sjf')
    const { batchings, orders, policies } = error.details['valid'] as Record<string, string[]>
    const pairs = batchings!.flatMap((one) => orders!.map((other) => `${one}+${other}`))
    t.same([...pairs, ...policies!].toSorted(), policyNames.toSorted())
  }
  const unknown = failure('chunked+fcfs', { tokenBudgt: 3 })
  t.equal(unknown.code, 'invalid_policy')
  t.match(unknown.message, /chunked\+fcfs.*tokenBudgt.*options are tokenBudget/)
  t.match(failure('continuous+fcfs', { tokenBudget: 3 }).message, 'it has no options')
  for (const tokenBudget of [0, -1, 1.5, '3', Number.NaN]) {
    t.match(failure('chunked+fcfs', { tokenBudget }).message, 'tokenBudget: ')
  }
  for (const targetStepMs of [0, -1, 'often', Infinity]) {
    t.match(failure('adaptive+fcfs', { targetStepMs }).message, 'targetStepMs: ')
  }
  t.end()
})

t.test('the options of every order are checked', (t) => {
  const wrong: [string, Record<string, unknown>, RegExp][] = [
    [
      'adaptive+fair',
      { weights: { a: -1 } },
      /weights: a: .*options are slo, targetStepMs, alignChunks, inputWeight/,
    ],
    ['adaptive+fair', { weights: 3 }, /weights: /],
    ['adaptive+dlpm', { quantum: 0 }, /quantum: /],
    ['adaptive+priority', { agingTokens: 0 }, /agingTokens: /],
    ['adaptive+priority', { preemptionThreshold: -1 }, /preemptionThreshold: /],
    ['adaptive+sjf', { aging: -0.1 }, /aging: /],
    ['adaptive+edf', { refuse: 'no' }, /refuse: /],
    ['adaptive+mlfq', { levels: 1.5 }, /levels: /],
    ['adaptive+random', { seed: 'x' }, /seed: /],
    ['adaptive+hrrn', { patience: -1 }, /patience: /],
    ['adaptive+fcfs', { patience: 1 }, /patience/],
    ['static+fcfs', { groupSize: 0 }, /groupSize: /],
    ['window+fcfs', { regroupBelow: 2 }, /regroupBelow: /],
  ]
  for (const [name, options, message] of wrong) {
    t.throws(() => createPolicy(name, options), { code: 'invalid_policy', message }, name)
  }
  t.match(createPolicy('window+fair', { weights: { a: 2 }, windowMs: 5 }).options, {
    weights: { a: 2 },
    windowMs: 5,
    patience: 16_384,
  })
  t.end()
})

t.test('the plugin registers every half, and so every policy', async (t) => {
  const registry = new PluginRegistry()
  await registerPlugin(schedulerPlugin, registry)
  t.same(registry.policyNames(), policyNames.toSorted())
  t.same(registry.createPolicy('chunked+fcfs', { tokenBudget: 64 }).options, { tokenBudget: 64 })
})

t.test('every half and every option is described, and has a default', (t) => {
  for (const { name, doc, options } of [...batchings, ...orders]) {
    t.match(doc, /^[A-Z].*\.$/, name)
    const shape = options?.shape ?? {}
    const defaults = (options?.parse({}) ?? {}) as Record<string, unknown>
    t.same(Object.keys(defaults), Object.keys(shape), name)
    for (const [option, schema] of Object.entries(shape)) {
      const { description = '' } = schema as { readonly description?: string }
      t.match(description, /^[A-Z].*\.$/, `${name}: ${option}`)
    }
  }
  t.end()
})

t.test('an option that is misspelt', async (t) => {
  t.throws(() => createPolicy('chunked+fcfs', { tokenBudgt: 3 }), {
    code: 'invalid_policy',
    message: /did you mean "tokenBudget"\?$/,
  })
  t.throws(() => createPolicy('continuous+fcfs', { tokenBudget: 3 }), {
    message: /it has no options\)$/,
  })
})

const evenMachine = (shares: readonly { tokens: number }[]): number =>
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

t.test('any policies after each other: nobody is lost, and everyone gets the same tokens', () =>
  fc.assert(
    fc.asyncProperty(
      requests,
      successors,
      fc.integer({ min: 1, max: 5 }),
      async (load, swaps, slots) => {
        const setting = { machine: evenMachine, requests: load, contextSize: 256, batchSize: 64 }
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
          assert.equal(error, undefined)
          assert.deepEqual(tokens, alone.results[index]?.tokens)
        }
      },
    ),
    { numRuns: 40, seed: 1 },
  ),
)
