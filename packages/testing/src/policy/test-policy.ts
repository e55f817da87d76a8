import assert from 'node:assert/strict'
import type { BackendLimits, SchedulerPolicy } from '@cllm/core'
import {
  assertQuick,
  assertNoStarvation,
  assertLetsGo,
  assertReadmits,
  assertBoundedLooks,
  serveAll,
} from './policy-checks.js'
import { workloadArbitrary } from './policy-workload.js'
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
   * Milliseconds of a plan that admits when 10,000 requests wait; default 2; with Infinity they are not
   * timed. The fastest tenth of the plans counts, which other work on the machine does not disturb. This is for a machine that copies
   * the 10,000 and compares them once in 0.15 ms: a slower one gets as much more time.
   */
  readonly maxPlanMs?: number
}

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
    await check(t, 'gives up slots that it holds', () => assertLetsGo(make))
    await check(t, 'admits again what was not given its slot', () => assertReadmits(make))
    await check(t, 'looks at no more than it can admit', () => assertBoundedLooks(make))
    if (maxPlanMs === Infinity) return
    await check(t, 'admits quickly when thousands wait', () => assertQuick(make, maxPlanMs))
  })
}
