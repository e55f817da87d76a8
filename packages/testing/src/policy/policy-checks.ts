import assert from 'node:assert/strict'
import type { SchedulerPolicy, SequenceView, BackendLimits } from '@cllm/core'
import { systemClock } from '@cllm/core'
import { PolicySimulation, OvertakingWatch } from './policy-simulation.js'
import { SimulatedRequest, type Workload, type WorkloadRequest } from './policy-workload.js'
import { firstComeFirstServed } from './first-come-first-served.js'

/** Plans on top of what is computed at one token a step, waits of a policy included. */
const freePlans = 1000
/** Waiting requests that a policy may look at although it cannot admit any. */
const freeLooks = 8

/** Few: the bounds that policies state grow with how many there are, and with how many wait. */
const fewSlots = { slots: 2, batchSize: 32, contextSize: 230 }
const someSlots = { slots: 4, batchSize: 32, contextSize: 256 }

const simulate = (limits: BackendLimits, ...policies: SchedulerPolicy[]): PolicySimulation =>
  new PolicySimulation({ limits, msPerStep: 20, msPerToken: 1 }, policies)

type Bound = (ahead: number, limits: BackendLimits) => number

/** Serves a load to its end. */
export function serveAll(
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
  simulation.watch = new OvertakingWatch((ahead) => bound(ahead, limits))
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
export function assertNoStarvation(make: () => SchedulerPolicy, bound: Bound): void {
  const limits = fewSlots
  const simulation = simulate(limits, make())
  simulation.watch = new OvertakingWatch((ahead) => bound(ahead, limits))
  let count = 0
  const goOn = () => {
    while (simulation.waitingCount <= limits.slots)
      arrive(simulation, { id: `request-${count++}`, tenant: `tenant-${count % 3}` })
    simulation.step()
  }
  for (let step = 0; step < 10; step++) goOn()
  const ahead = simulation.waitingCount
  arrive(simulation, { ...disliked, id: 'disliked' })
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

/** Plans for which a slot may wait for a program that does not come. */
const mostHeldPlans = 100

/** A slot that is kept for a program which does not come is given to what waits. */
export function assertLetsGo(make: () => SchedulerPolicy): void {
  const plansOfWait = (session: string | undefined): number => {
    const simulation = simulate(fewSlots, make())
    const stepWhile = (isOn: () => boolean) => {
      const enough = simulation.plans + freePlans
      while (isOn() && simulation.plans < enough) simulation.step()
    }
    arrive(simulation, { id: 'call', session })
    stepWhile(() => simulation.size > 0)
    arrive(simulation, { id: 'long', session: undefined, maxTokens: 200, outputTokens: 200 })
    for (let step = 0; step < 3; step++) simulation.step()
    arrive(simulation, { id: 'waits', session: undefined })
    const began = simulation.plans
    stepWhile(() => simulation.waitingCount > 0)
    return simulation.plans - began
  }
  const [held, free] = [plansOfWait('s'), plansOfWait(undefined)]
  const most = free + mostHeldPlans
  assert(held <= most, `a slot waits ${held} plans for a program, at most ${most}`)
}

/** The engine may let an admitted request wait on: no event tells of it, the next plan has it again. */
export function assertReadmits(make: () => SchedulerPolicy): void {
  const simulation = simulate(fewSlots, make())
  const deferred = new Set<string>()
  // Every other one, at its first admission.
  simulation.defers = (id) => {
    if (deferred.has(id) || deferred.size > simulation.done.length) return false
    deferred.add(id)
    return true
  }
  for (let index = 0; index < 12; index++) {
    arrive(simulation, { id: `request-${index}` })
  }
  while (simulation.size > 0) {
    simulation.step()
    const vain = `admitted in vain were ${[...deferred].join(', ') || 'none'}`
    const left = `${simulation.size} of 12 requests do not end in ${freePlans} plans`
    assert(simulation.plans <= freePlans, `${left}; ${vain}`)
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

type Change = Partial<WorkloadRequest> & Pick<WorkloadRequest, 'id'>

/** A favourite comes. Its deadline can be kept: a policy that refuses requests does not refuse it. */
function arrive(simulation: PolicySimulation, change: Change): void {
  const { now: arrival } = simulation
  simulation.arrive({ ...favourite, arrival, deadline: arrival + 10_000, ...change })
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
export function assertBoundedLooks(make: () => SchedulerPolicy): void {
  const simulation = simulate(someSlots, firstComeFirstServed)
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
    `${looks} of ${waiting.size} waiting requests were looked at while no slot is free, at most ${most}`,
  )
}

/** Admitting plans that are timed. */
const timedPlans = 40
/** What {@link passOver} takes where `maxPlanMs` is as it stands. */
const nominalPassMs = 0.15

/** 10,000 wait and slots come free again and again: how long does a plan take? */
export function assertQuick(make: () => SchedulerPolicy, maxPlanMs: number): void {
  const simulation = simulate(someSlots)
  const all = (crowd ??= Array.from({ length: 10_000 }, (_, index) => crowdRequest(index)))
  for (const request of all) simulation.join(request)
  simulation.now = 10
  const policy = make()
  const times: number[] = []
  // Between the plans, so that what slows them down slows these down as well.
  const passes: number[] = []
  simulation.setPolicies([
    {
      ...policy,
      plan(state) {
        const began = systemClock.now()
        const plan = policy.plan(state)
        const ended = systemClock.now()
        if (plan.admit.length > 0) {
          times.push(ended - began)
          passOver(all)
          passes.push(systemClock.now() - ended)
        }
        return plan
      },
      observe: (event) => policy.observe?.(event),
    },
  ])
  for (let step = 0; step < 10 * timedPlans && times.length < timedPlans; step++) simulation.step()
  for (const [index, request] of all.entries()) {
    if (request.state !== 'queued') all[index] = crowdRequest(index)
  }
  const most = maxPlanMs * Math.max(1, fastTenth(passes) / nominalPassMs)
  const fast = fastTenth(times)
  assert(fast <= most, `a plan takes ${fast.toFixed(2)} ms, at most ${+most.toFixed(2)}`)
}

const fastTenth = (times: readonly number[]): number =>
  times.toSorted((one, other) => one - other)[timedPlans / 10] ?? 0

/** The kind of work that plans do, to tell how fast this machine is at it. */
const passOver = (requests: Iterable<SequenceView>): SequenceView =>
  [...requests].reduce((first, one) =>
    one.remainingTokens - first.remainingTokens < 0 || one.id < first.id ? one : first,
  )

/** Made once: a suite of many policies would spend its time here. */
let crowd: SimulatedRequest[] | undefined

const crowdRequest = (index: number): SimulatedRequest =>
  new SimulatedRequest({
    ...favourite,
    id: `request-${index}`,
    arrival: index / 1000,
    promptTokens: 1 + (index % 13),
    cachedTokens: 0,
    outputTokens: 1 + (index % 2),
    priority: index % 5,
    deadline: 1e6 + (index % 7),
    tenant: `tenant-${index % 100}`,
  })
