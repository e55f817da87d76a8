import type { RouterPolicy } from '@cllm/core'
import { createPolicy } from '@cllm/scheduler'
import {
  builtInMachines,
  type MachineModel,
  simulateLoad,
  type SimulatedRequest,
  type SimulationOptions,
} from '@cllm/simulation'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'

const serve = (count: number, more: Partial<SimulationOptions>, request = {}) =>
  simulateLoad({
    policy: () => createPolicy('adaptive+fcfs'),
    machine: builtInMachines.get('two-cores') as MachineModel,
    machines: 2,
    requests: Array.from({ length: count }, (_, index): SimulatedRequest => {
      const prompt = Array.from({ length: 40 }, () => index + 1)
      return { id: `${index}`, arrival: 1 + index, prompt, maxTokens: 20, ...request }
    }),
    ...more,
  })

t.test('a router holds requests until a machine is idle', async (t) => {
  const asked: number[] = []
  const router: RouterPolicy = {
    place(_, workers, now) {
      asked.push(now)
      const idle = workers.find(({ open }) => open === 0)
      return idle === undefined ? { holdMs: 10 } : { worker: idle.id }
    },
  }
  const { results } = await serve(5, { router: () => router })
  t.same(
    results.map(({ error }) => error),
    Array.from({ length: 5 }, () => undefined),
  )
  const third = asked.filter((at) => at >= 3 && at % 10 === 3)
  t.ok(third.length > 10, 'it is asked every 10 ms')
  t.ok(asked.length > third.length, 'of others at other times')
  const isArrival = (at: number): boolean => at % 10 >= 1 && at % 10 <= 5
  t.ok(
    asked.every((at) => Number.isInteger(at) && isArrival(at)),
    'not when a machine reports',
  )
})

t.test('prompts of requests that leave before their turn are not computed', async (t) => {
  const { results, prefillTokens } = await serve(3, { machines: 1, slots: 1 }, { timeoutMs: 100 })
  t.same(
    results.map(({ error }) => error),
    ['timeout', 'timeout', 'timeout'],
  )
  t.equal(prefillTokens, 40)
})

t.test('a router that fails ends the simulation, and is named', async (t) => {
  const cases: [RegExp, unknown][] = [
    [
      /^The router failed: boom$/,
      () => {
        throw new Error('boom')
      },
    ],
    [/^The router failed: place: expected .* instead got undefined$/, () => undefined],
    [/^The router failed: place: .* instead got { worker: nobody }$/, () => ({ worker: 'nobody' })],
    [/^The router failed: place: .* { holdMs: NaN }$/, () => ({ holdMs: NaN })],
    [/^The router failed: place returned a promise/, () => Promise.reject(new Error('late'))],
  ]
  for (const [message, place] of cases) {
    const router = () => ({ place }) as RouterPolicy
    await t.rejects(serve(2, { router }), { code: 'policy_failed', message })
  }
})

t.test('what a router holds without end is asked about when machines report', async (t) => {
  const idlest: RouterPolicy = {
    place(_, workers) {
      const idle = workers.find(({ open }) => open === 0)
      return idle === undefined ? { holdMs: Infinity } : { worker: idle.id }
    },
  }
  const { results } = await serve(5, { router: () => idlest })
  t.ok(results.every(({ error, endedAt }) => error === undefined && endedAt !== undefined))
  const never = serve(2, { router: () => ({ place: () => ({ holdMs: Infinity }) }) })
  await t.rejects(never, { code: 'policy_failed', message: /^2 requests did not end, and nothing/ })
  const again = serve(2, { router: () => ({ place: () => ({ holdMs: 1000 }) }) })
  const message =
    /^The router failed: it holds request "0", though no machine has had one for 10 minutes$/
  await t.rejects(again, { code: 'policy_failed', message })
  // The first is asked about at 1, 700,001 and 1,400,001 ms; the second one runs from 650,000 ms on.
  const rarely: RouterPolicy = {
    place: ({ id }, [first], now) =>
      id === '0' && now < 1_000_000 ? { holdMs: 700_000 } : { worker: first!.id },
  }
  const requests = [1, 650_000].map((arrival, index): SimulatedRequest => {
    return { id: `${index}`, arrival, prompt: [1, 2, 3], maxTokens: 20 }
  })
  const between = await serve(0, { router: () => rarely, requests })
  t.ok(
    between.results.every(({ error }) => error === undefined),
    'others ran meanwhile',
  )
  let asked = 0
  const place: RouterPolicy['place'] = (_, [first]) => {
    if (asked++ === 2) throw new Error('boom')
    return asked === 1 ? { worker: first!.id } : { holdMs: Infinity }
  }
  const later = serve(2, { router: () => ({ place }) })
  await t.rejects(later, { code: 'policy_failed', message: 'The router failed: boom' })
})

t.test('requests are refused when all machines drain', async (t) => {
  const drains = [0, 1].map((machine) => ({ machine, at: 50 }))
  const early = await serve(1, { drains })
  t.equal(early.results[0]?.error, undefined, 'what is on a machine ends there')
  const late = await serve(2, { drains }, { arrival: 60 })
  t.same(
    late.results.map(({ error, endedAt }) => [error, endedAt]),
    [
      ['rejected', 60],
      ['rejected', 60],
    ],
  )
})

t.test('a client cancels while its machine is dead and nobody has noticed', async (t) => {
  // One of two machines dies after 30 s at the latest.
  const more = { deaths: 1, noticeMs: 40_000, restartMs: 41_000 }
  const request = { maxTokens: 3000, cancelAfterMs: 50_000 }
  const { results, steps } = await serve(4, more, request)
  for (const { error, endedAt, request } of results) {
    t.equal(error, 'cancelled')
    const lateMs = (endedAt ?? NaN) - request.arrival - 50_000
    t.ok(lateMs >= 0 && lateMs < 100, `${lateMs} ms late`)
  }
  const tokens = results.map(({ tokenTimes }) => tokenTimes.length)
  const [least, most] = [Math.min(...tokens), Math.max(...tokens)]
  t.ok(least < 0.8 * most, 'some were on a machine that died')
  t.ok(steps >= least + most, 'whose steps count, too')
})

t.test('what is still ahead when all have ended does not make the machines idle', async (t) => {
  const { utilization } = await serve(20, {})
  t.ok(utilization > 0.4, String(utilization))
  const drained = await serve(20, { drains: [{ machine: 0, at: 1e6 }] })
  t.equal(drained.utilization, utilization)
})

t.test('a request that wants to know how far its prompt is goes on to its end', async (t) => {
  const { results } = await serve(2, {}, { progress: true })
  t.same(
    results.map(({ tokenTimes }) => tokenTimes.length),
    [20, 20],
  )
})

t.test('a single machine keeps no prompt of a request that has ended', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const prompts: WeakRef<object>[] = []
  const count = 40
  let kept = count
  await serve(0, {
    machines: 1,
    slots: 2,
    requests: Array.from({ length: count }, (_, index): SimulatedRequest => {
      const prompt = () => {
        const tokens = Array.from({ length: 1000 }, () => index + 1)
        prompts.push(new WeakRef(tokens))
        return tokens
      }
      return { id: `${index}`, arrival: 60_000 * index, prompt, maxTokens: 2 }
    }),
    onToken: (request) => {
      if (request !== `${count - 1}`) return
      collect()
      kept = prompts.filter((one) => one.deref() !== undefined).length
    },
  })
  t.ok(kept < count / 2, `${kept} of ${count}`)
})
