import assert from 'node:assert/strict'
import type { BackendLimits, SchedulerPolicy } from '@cllm/core'
import { assertQuick } from './assert-quick.js'
import { firstComeFirstServed } from './first-come-first-served.js'
import { OvertakingWatch } from './overtaking-watch.js'
import { PolicySimulation } from './policy-simulation.js'
import { type Workload, workloadArbitrary, type WorkloadRequest } from './policy-workload.js'
import { check, type TestContext } from '../test-context.js'

/** Options of {@link testPolicy}: what the policy claims. */
export interface TestPolicyOptions {
  /** Random loads to run; default 100. */
  readonly runs?: number
  /**
   * Tokens of later requests that are computed before a request gets a slot, at most: the bound that
   * the policy states, from how many requests waited when it came. Default 20,000.
   */
  readonly maxOvertaking?: number | ((ahead: number, limits: BackendLimits) => number)
  /**
   * Milliseconds that nothing is computed while a request is there, at most. 0: the policy is
   * work-conserving. Default: any time, as long as it ends.
   */
  readonly maxIdleMs?: number
  /**
   * Milliseconds of a plan that admits when 10,000 requests wait; default 2. The fastest tenth of the
   * plans counts, which other work on the machine does not disturb. This is for a machine that copies
   * the 10,000 and compares them once in 0.15 ms: a slower one gets as much more time.
   */
  readonly maxPlanMs?: number
}

/** Plans on top of what is computed at one token a step, waits of a policy included. */
const freePlans = 1000
/** Waiting requests that a policy may look at although it cannot admit any. */
const freeLooks = 8

/**
 * The conformance suite of scheduling policies. Random loads run through a simulation of the engine's
 * side: all plans are possible, equal instances plan equally, nothing it is shown is changed, every
 * request ends, none is overtaken by more than the policy says, plans are cheap when thousands wait,
 * and one that admits nothing does not look at them. It needs the package `fast-check`.
 *
 * @param make a new policy, equal to the one before
 */
export async function testPolicy(
  t: TestContext,
  make: () => SchedulerPolicy,
  options: TestPolicyOptions = {},
): Promise<void> {
  const { runs = 100, maxOvertaking = 20_000, maxIdleMs = Infinity, maxPlanMs = 2 } = options
  const bound = typeof maxOvertaking === 'number' ? () => maxOvertaking : maxOvertaking
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
        fc.property(workloadArbitrary(fc), (workload) =>
          serveAll(make, workload, bound, maxIdleMs),
        ),
        // one seed: a suite that guards a build must say the same each time
        { numRuns: runs, seed: 1, includeErrorInReport: true },
      )
    })
    await check(t, 'starves no request', () => assertNoStarvation(make, bound))
    await check(t, 'admits again what was not given its slot', () => assertReadmits(make))
    await check(t, 'looks at no more than it can admit', () => assertBoundedLooks(make))
    await check(t, 'admits quickly when thousands wait', () => assertQuick(make, maxPlanMs))
  })
}

type Bound = (ahead: number, limits: BackendLimits) => number

function watched(simulation: PolicySimulation, bound: Bound, limits: BackendLimits): void {
  const watch = new OvertakingWatch((ahead) => bound(ahead, limits))
  simulation.watch = (event) => watch.observe(event)
}

function serveAll(
  make: () => SchedulerPolicy,
  workload: Workload,
  bound: Bound,
  maxIdleMs: number,
): void {
  const { requests, takesOverAfter, limits } = workload
  const tested = [make(), make()]
  const simulation = new PolicySimulation(
    workload,
    takesOverAfter > 0 ? [firstComeFirstServed] : tested,
  )
  watched(simulation, bound, limits)
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
    const { idleMs } = simulation
    assert(idleMs <= maxIdleMs, `nothing is computed for ${idleMs} ms, at most ${maxIdleMs}`)
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
function assertNoStarvation(make: () => SchedulerPolicy, bound: Bound): void {
  // Few slots and few that wait: the bounds that policies state grow with both.
  const limits = { slots: 2, batchSize: 32, contextSize: 230 }
  const simulation = new PolicySimulation({ limits, msPerStep: 20, msPerToken: 1 }, [make()])
  watched(simulation, bound, limits)
  let count = 0
  const arrive = (change: Partial<WorkloadRequest>) => {
    const arrival = simulation.now
    // A deadline that can be kept: a policy that refuses requests does not refuse these.
    const deadline = arrival + 10_000
    simulation.arrive({ ...favourite, id: `request-${count++}`, arrival, deadline, ...change })
  }
  const goOn = () => {
    while (simulation.waitingCount <= limits.slots) arrive({ tenant: `tenant-${count % 3}` })
    simulation.step()
  }
  for (let step = 0; step < 10; step++) goOn()
  const ahead = simulation.waitingCount
  arrive({ ...disliked, id: 'disliked' })
  const enough = simulation.plans + bound(ahead, limits) + freePlans
  const { done } = simulation
  let looked = 0
  const hasEnded = (): boolean => {
    // Each once: thousands end before it does.
    while (looked < done.length) if (done[looked++]?.id === 'disliked') return true
    return false
  }
  while (!hasEnded()) {
    goOn()
    assert(simulation.plans <= enough, `a disliked request does not end in ${enough} plans`)
  }
}

/** The engine may let an admitted request wait on: no event tells of it, the next plan has it again. */
function assertReadmits(make: () => SchedulerPolicy): void {
  const limits = { slots: 2, batchSize: 32, contextSize: 230 }
  const simulation = new PolicySimulation({ limits, msPerStep: 20, msPerToken: 1 }, [make()])
  const deferred = new Set<string>()
  // Every other one, at its first admission.
  simulation.defers = (id) => {
    if (deferred.has(id) || deferred.size > simulation.done.length) return false
    deferred.add(id)
    return true
  }
  const requests = 12
  for (let index = 0; index < requests; index++) {
    const deadline = simulation.now + 10_000
    simulation.arrive({ ...favourite, id: `request-${index}`, arrival: 0, deadline })
  }
  while (simulation.size > 0) {
    simulation.step()
    const waits = [...deferred].join(', ')
    assert(simulation.plans <= freePlans, `${waits}: admitted once in vain and not again`)
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
  maxTokens: 30,
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
  const simulation = new PolicySimulation(machine, [firstComeFirstServed])
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
    has: (id: string) => state.waiting.has(id),
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
