import type { WaitReason } from '@cllm/core'
import * as fc from 'fast-check'
import t from 'tap'
import { type CommonReason, WaitAttribution } from '../../../src/engine/report/wait-attribution.js'

const plain = { arrival: 100, deadline: undefined }

t.test('a wait is split by what held meanwhile', async (t) => {
  const waits = new WaitAttribution()
  waits.turn('slots', 100)
  const start = waits.begin(110)
  waits.turn('budget', 130)
  waits.turn('policy', 150)
  waits.turn('step', 150)
  const reasons = {}
  waits.explain(start, plain, 170, reasons)
  t.same(reasons, { slots: 20, budget: 20, step: 20 }, 'a reason that held for no time is left out')
  waits.explain(start, plain, 170, reasons)
  t.same(reasons, { slots: 40, budget: 40, step: 40 }, 'it adds to what is there')
})

t.test('from the first admission of a later request on, the order is the reason', async (t) => {
  const waits = new WaitAttribution()
  waits.turn('slots', 100)
  const start = waits.begin(100)
  waits.onAdmitted(90, undefined, 105)
  waits.onAdmitted(110, undefined, 120)
  waits.onAdmitted(130, 500, 140)
  const explain = (request: { arrival: number; deadline: number | undefined }, now: number) => {
    const reasons: Partial<Record<WaitReason, number>> = {}
    waits.explain(start, request, now, reasons)
    return reasons
  }
  t.same(explain(plain, 150), { slots: 20, order: 30 }, 'an earlier arrival overtakes nothing')
  t.same(explain(plain, 120), { slots: 20 }, 'the admission of this moment cost no time yet')
  t.same(explain({ arrival: 120, deadline: undefined }, 150), { slots: 40, deadline: 10 })
  t.same(explain({ arrival: 120, deadline: 400 }, 150), { slots: 40, order: 10 })
  t.same(explain({ arrival: 140, deadline: undefined }, 150), { slots: 50 })
})

interface Turn {
  readonly ms: number
  readonly reason: CommonReason
  /** How long ago the admitted request of this turn arrived; undefined: none is admitted. */
  readonly admitted: number | undefined
}

const turns = fc.array(
  fc.record<Turn>({
    ms: fc.nat(20),
    reason: fc.constantFrom('step', 'slots', 'budget', 'policy'),
    admitted: fc.option(fc.nat(60), { nil: undefined }),
  }),
  { minLength: 1, maxLength: 60 },
)

t.test('the reasons add up to the wait, as counting millisecond by millisecond does', async (t) => {
  let overtaken = 0
  fc.assert(
    fc.property(turns, fc.nat(60), (given, from) => {
      const waits = new WaitAttribution()
      const expected: Record<string, number> = {}
      let now = 0
      let start: ReturnType<WaitAttribution['begin']> | undefined
      let isOvertaken = false
      let reason: CommonReason = 'step'
      for (const [index, turn] of given.entries()) {
        if (index === from % given.length) start = waits.begin(now)
        if (turn.admitted !== undefined) {
          const arrival = now - turn.admitted
          waits.onAdmitted(arrival, undefined, now)
          if (start !== undefined && arrival > start.at) isOvertaken = true
        }
        waits.turn((reason = turn.reason), now)
        now += turn.ms
        if (start === undefined || turn.ms === 0) continue
        const key = isOvertaken ? 'order' : reason
        expected[key] = (expected[key] ?? 0) + turn.ms
      }
      if (start === undefined) return
      const reasons: Partial<Record<WaitReason, number>> = {}
      waits.explain(start, { arrival: start.at, deadline: undefined }, now, reasons)
      const sum = Object.values(reasons).reduce((total, ms) => total + ms, 0)
      if (sum !== now - start.at) throw new Error(`${sum} ms of ${now - start.at}`)
      if (JSON.stringify(sorted(reasons)) !== JSON.stringify(sorted(expected))) {
        throw new Error(`${JSON.stringify(reasons)} instead of ${JSON.stringify(expected)}`)
      }
      if (isOvertaken) overtaken++
    }),
    { numRuns: 500 },
  )
  t.ok(overtaken > 50, 'many of them were overtaken')
})

t.test('after very many admissions the wait still adds up', async (t) => {
  const waits = new WaitAttribution()
  const start = waits.begin(0)
  for (let n = 1; n <= 5000; n++) waits.onAdmitted(n, undefined, n)
  const reasons: Partial<Record<WaitReason, number>> = {}
  waits.explain(start, { arrival: 0, deadline: undefined }, 6000, reasons)
  t.equal((reasons.step ?? 0) + (reasons.order ?? 0), 6000)
  t.ok((reasons.order ?? 0) >= 1000, 'at least since the oldest admission that is kept')
})

const sorted = (reasons: Readonly<Record<string, number>>) =>
  Object.entries(reasons).sort(([a], [b]) => a.localeCompare(b))
