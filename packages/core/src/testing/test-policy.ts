import assert from 'node:assert/strict'
import type { SchedulerPolicy } from '../contracts/scheduler-policy.js'
import { oneByOne } from './one-by-one.js'
import { PolicySimulation } from './policy-simulation.js'
import { type Workload, workloadArbitrary, type WorkloadRequest } from './policy-workload.js'
import { check, type TestContext } from './test-context.js'

/** Options of {@link testPolicy}. */
export interface TestPolicyOptions {
  /** Random loads to run; default 100. */
  readonly runs?: number
  /**
   * How many later requests may end before a request that the policy likes least: the bound that the
   * policy states. Default 1,000.
   */
  readonly maxOvertaking?: number
}

/** Plans on top of what is computed at one token a step, waits of a policy included. */
const freePlans = 1000
/** Waiting requests that a policy may look at although it cannot admit any. */
const freeLooks = 8

/**
 * The conformance suite of scheduling policies. Random loads run through a simulation of the engine's
 * side: all plans are possible, equal instances plan equally, nothing it is shown is changed, every
 * request ends, none is overtaken for ever, and a step that admits nothing does not look at everything
 * that waits. It needs the package `fast-check`.
 *
 * @param make a new policy, equal to the one before
 */
export async function testPolicy(
  t: TestContext,
  make: () => SchedulerPolicy,
  options: TestPolicyOptions = {},
): Promise<void> {
  const { runs = 100, maxOvertaking = 1000 } = options
  const { name } = make()
  await t.test(`policy ${name}`, async (t) => {
    await check(t, 'has a name and options that can be shown', () => {
      const policy = make()
      assert(typeof policy.name === 'string' && policy.name !== '', 'the name is empty')
      assert.equal(make().name, policy.name, 'equal policies have one name')
      const shown: unknown = JSON.parse(JSON.stringify(policy.options ?? {}))
      assert.deepEqual(shown, policy.options ?? {}, 'options survive JSON')
    })
    await check(t, 'serves any load with possible, repeatable plans', async () => {
      const fc = await import('fast-check')
      fc.assert(
        fc.property(workloadArbitrary(fc), (workload) => serveAll(make, workload)),
        // one seed: a suite that guards a build must say the same each time
        { numRuns: runs, seed: 1, includeErrorInReport: true },
      )
    })
    await check(t, `is not overtaken more than ${maxOvertaking} times`, () => {
      assertNoStarvation(make, maxOvertaking)
    })
    await check(t, 'looks at no more than it can admit', () => assertBoundedLooks(make))
  })
}

function serveAll(make: () => SchedulerPolicy, workload: Workload): void {
  const { requests, takesOverAfter } = workload
  const tested = [make(), make()]
  const simulation = new PolicySimulation(workload, takesOverAfter > 0 ? [oneByOne] : tested)
  const arrivals = [...requests]
  const work = requests.reduce((sum, request) => sum + request.promptTokens + request.maxTokens, 0)
  const enough = 10 * work + freePlans
  while (arrivals.length > 0 || simulation.size > 0) {
    if (simulation.size === 0) simulation.now = Math.max(simulation.now, arrivals[0]?.arrival ?? 0)
    for (; arrivals[0] !== undefined && arrivals[0].arrival <= simulation.now; arrivals.shift()) {
      simulation.arrive(arrivals[0])
    }
    for (const { id, cancelAt } of requests) {
      if (cancelAt !== undefined && cancelAt <= simulation.now) simulation.cancel(id)
    }
    if (simulation.size === 0) continue
    if (takesOverAfter > 0 && simulation.plans === takesOverAfter) simulation.setPolicies(tested)
    simulation.step(nextChange(arrivals, requests, simulation.now))
    assert(simulation.plans <= enough, `${simulation.size} requests do not end in ${enough} plans`)
  }
}

function nextChange(
  arrivals: readonly WorkloadRequest[],
  requests: readonly WorkloadRequest[],
  now: number,
): number {
  const cancels = requests.flatMap(({ cancelAt = 0 }) => (cancelAt > now ? [cancelAt] : []))
  return Math.min(arrivals[0]?.arrival ?? Infinity, ...cancels)
}

/** A stream that never ends of what policies like, against one request with all that they do not. */
function assertNoStarvation(make: () => SchedulerPolicy, maxOvertaking: number): void {
  const limits = { slots: 4, batchSize: 32, contextSize: 256 }
  const simulation = new PolicySimulation({ limits, msPerStep: 20, msPerToken: 1 }, [make()])
  const enough = 100 * maxOvertaking + freePlans
  let count = 0
  const arrive = (change: Partial<WorkloadRequest>) => {
    simulation.arrive({
      ...favourite,
      id: `request-${count++}`,
      arrival: simulation.now,
      ...change,
    })
  }
  const crowd = () => {
    while (simulation.waitingCount < 2 * limits.slots) arrive({ tenant: `tenant-${count % 3}` })
  }
  for (let step = 0; step < 10; step++) {
    crowd()
    simulation.step()
  }
  const before = simulation.done.length + simulation.size
  arrive({ ...disliked, id: 'disliked' })
  while (!simulation.done.some(({ id }) => id === 'disliked')) {
    crowd()
    simulation.step()
    const overtaken = simulation.done.length - before
    assert(overtaken <= maxOvertaking, `${overtaken} later requests ended before a disliked one`)
    assert(simulation.plans <= enough, `a disliked request does not end in ${enough} plans`)
  }
}

const favourite = {
  promptTokens: 8,
  cachedTokens: 7,
  maxTokens: 2,
  outputTokens: 2,
  priority: 2,
  deadline: 0,
  tenant: 'tenant',
  session: 's',
  stepGroup: undefined,
  cancelAt: undefined,
}

const disliked = {
  promptTokens: 200,
  cachedTokens: 0,
  maxTokens: 56,
  outputTokens: 30,
  priority: -2,
  deadline: undefined,
  tenant: 'tenant-0',
  session: undefined,
}

/** All slots decode and thousands wait: how many of them does a plan look at? */
function assertBoundedLooks(make: () => SchedulerPolicy): void {
  const limits = { slots: 4, batchSize: 32, contextSize: 256 }
  const machine = { limits, msPerStep: 20, msPerToken: 1 }
  const simulation = new PolicySimulation(machine, [oneByOne])
  const long = { ...favourite, cachedTokens: 0, maxTokens: 200, outputTokens: 200, priority: 0 }
  for (let index = 0; index < 2000; index++) {
    simulation.arrive({ ...long, id: `request-${index}`, arrival: 0 })
  }
  for (let step = 0; step < 100; step++) simulation.step()
  const policy = make()
  simulation.setPolicies([policy])
  for (let step = 0; step < 3; step++) simulation.step()
  const state = simulation.state()
  assert.equal(state.freeSlots, 0)
  let looks = 0
  const waiting = {
    size: state.waiting.size,
    *[Symbol.iterator]() {
      for (const request of state.waiting) {
        looks++
        yield request
      }
    },
  }
  policy.plan({ ...state, waiting })
  const most = state.running.length + freeLooks
  assert(
    looks <= most,
    `${looks} of ${waiting.size} waiting requests were looked at, at most ${most}`,
  )
}
