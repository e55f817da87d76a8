import assert from 'node:assert/strict'
import { systemClock, type SchedulerPolicy, type SequenceView } from '@cllm/core'
import { PolicySimulation } from './policy-simulation.js'
import { SimulatedRequest } from './policy-workload.js'

/** Admitting plans that are timed. */
const timedPlans = 40
/** What {@link passOver} takes where `maxPlanMs` is as it stands. */
const nominalPassMs = 0.15

/** 10,000 wait and slots come free again and again: how long does a plan take? */
export function assertQuick(make: () => SchedulerPolicy, maxPlanMs: number): void {
  const limits = { slots: 4, batchSize: 32, contextSize: 256 }
  const simulation = new PolicySimulation({ limits, msPerStep: 20, msPerToken: 1 }, [])
  const all = (crowd ??= makeCrowd())
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

const makeCrowd = (): SimulatedRequest[] =>
  Array.from({ length: 10_000 }, (_, index) => crowdRequest(index))

const crowdRequest = (index: number): SimulatedRequest =>
  new SimulatedRequest({
    maxTokens: 2,
    session: 's',
    stepGroup: undefined,
    cancelAt: undefined,
    id: `request-${index}`,
    arrival: index / 1000,
    promptTokens: 1 + (index % 13),
    cachedTokens: 0,
    outputTokens: 1 + (index % 2),
    priority: index % 5,
    deadline: 1e6 + (index % 7),
    tenant: `tenant-${index % 100}`,
  })
