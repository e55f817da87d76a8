import { nextNumber } from '@cllm/core'
import { createPolicy } from '@cllm/scheduler'
import { builtInMachines, type MachineModel, simulateLoad } from '@cllm/simulation'
import t from 'tap'

/** Steps vary by 7 % around the machine's time, and one in 61 takes five times as long. */
function noisy(machine: MachineModel): MachineModel {
  let steps = 0
  return {
    ...machine,
    stepMs(shares) {
      const factor = steps % 61 === 60 ? 5 : 0.93 + (steps % 15) / 100
      steps++
      return machine.stepMs(shares) * factor
    },
  }
}

/** More requests than eight slots can serve, of lengths that vary. */
function overload(gapMs: number, promptTokens: [number, number], maxTokens: [number, number]) {
  let state = 7
  const random = () => (state = nextNumber(state)) / 2 ** 32
  const between = ([least, most]: [number, number]) => Math.floor(least + (most - least) * random())
  let arrival = 0
  return Array.from({ length: 150 }, (_, index) => {
    arrival -= gapMs * Math.log(1 - random())
    const prompt = Array.from({ length: between(promptTokens) }, () => index + 1)
    return { id: `${index}`, arrival, prompt, maxTokens: between(maxTokens), forecast: true }
  })
}

/** The quantiles of |predicted / actual − 1| of the time to the first token. */
async function forecastErrors(
  policy: string,
  machine: string,
  requests: ReturnType<typeof overload>,
  limits: { readonly slots: number; readonly kvTokens?: number } = { slots: 8 },
) {
  const { results } = await simulateLoad({
    policy: () => createPolicy(policy),
    machine: noisy(builtInMachines.get(machine) as MachineModel),
    requests,
    ...limits,
  })
  // The first requests come before anything is known of the machine.
  const errors = results.slice(30).map(({ request, tokenTimes, forecast }) => {
    const actual = (tokenTimes[0] ?? NaN) - request.arrival
    return Math.abs((forecast?.firstTokenMs ?? NaN) / actual - 1)
  })
  errors.sort((one, other) => one - other)
  return { median: errors[60] ?? NaN, p90: errors[108] ?? NaN }
}

const short = { prompt: [20, 60], answer: [24, 25] } as const
const long = { prompt: [100, 1500], answer: [20, 200] } as const
/** Slots for all, and cells for about six of the long ones. */
const pool = { slots: 32, kvTokens: 6000 }
const cases = [
  { machine: 'gpu-8b', load: short, gapMs: 12, median: 0.07, p90: 0.15 },
  { machine: 'gpu-8b', load: long, gapMs: 80, median: 0.06, p90: 0.15 },
  { machine: 'two-cores', load: short, gapMs: 160, median: 0.1, p90: 0.2 },
  { machine: 'two-cores', load: long, gapMs: 4000, median: 0.2, p90: 0.4 },
]

for (const policy of ['adaptive+fcfs', 'chunked+fcfs']) {
  t.test(`${policy}: forecasts of an overload on noisy machines`, async (t) => {
    for (const { machine, load, gapMs, ...bounds } of cases) {
      const requests = overload(gapMs, [...load.prompt], [...load.answer])
      const { median, p90 } = await forecastErrors(policy, machine, requests)
      const about = `${machine}, prompts up to ${load.prompt[1]}`
      t.ok(median <= bounds.median, `${about}: the median error is ${(100 * median).toFixed(1)} %`)
      t.ok(p90 <= bounds.p90, `${about}: the 90th percentile is ${(100 * p90).toFixed(1)} %`)
    }
  })
}

t.test('forecasts know how long a request waits for cells of a pool', async (t) => {
  for (const { machine, gapMs, median, p90 } of [
    { machine: 'gpu-8b', gapMs: 80, median: 0.15, p90: 0.4 },
    { machine: 'two-cores', gapMs: 4000, median: 0.25, p90: 0.5 },
  ]) {
    const requests = overload(gapMs, [...long.prompt], [...long.answer])
    const found = await forecastErrors('adaptive+fcfs', machine, requests, pool)
    t.ok(found.median <= median, `${machine}: the median error is ${found.median.toFixed(3)}`)
    t.ok(found.p90 <= p90, `${machine}: the 90th percentile is ${found.p90.toFixed(3)}`)
  }
})

t.test('what a callback throws ends the simulation', async (t) => {
  const failing = (name: string) => () => {
    throw new Error(`${name} failed`)
  }
  for (const name of ['after', 'onToken', 'onStep', 'onSecond'] as const) {
    let calls = 0
    const onSecond = () => void (++calls === 2 && failing(name)())
    const callback = name === 'onSecond' ? { onToken: onSecond } : { [name]: failing(name) }
    const simulated = simulateLoad({
      policy: () => createPolicy('adaptive+fcfs'),
      machine: builtInMachines.get('two-cores') as MachineModel,
      requests: [0, 1, 2].map((id) => ({ id: `${id}`, arrival: 0, prompt: [1, 2], maxTokens: 3 })),
      ...callback,
    })
    await t.rejects(simulated, { message: `${name} failed` })
    if (name === 'onSecond') t.equal(calls, 2, 'nothing is called after the failure')
  }
})

t.test('after one request, the cost of prompts is known well enough for a queue', async (t) => {
  const { results } = await simulateLoad({
    policy: () => createPolicy('adaptive+fcfs'),
    machine: builtInMachines.get('two-cores') as MachineModel,
    requests: Array.from({ length: 7 }, (_, index) => ({
      id: `${index}`,
      arrival: index === 0 ? 0 : 5000,
      prompt: Array.from({ length: 200 }, () => index + 1),
      maxTokens: 2,
      forecast: true,
    })),
    slots: 1,
  })
  const { forecast, tokenTimes } = results.at(-1)!
  const ratio = (forecast?.firstTokenMs ?? NaN) / (tokenTimes[0]! - 5000)
  // At first, half of the tokens of waiting prompts are expected in the cache.
  t.ok(ratio > 0.55 && ratio < 1.4, `predicted ${ratio.toFixed(2)} of what it took`)
})

t.test('speculation: tokens are the same, and likely drafts make answers faster', async (t) => {
  const serve = async (acceptance: number, isOff = false, concurrency = 1, seed = 1) => {
    const drawn = new Map<string, number[]>()
    const requests = Array.from({ length: 24 }, (_, index) => ({
      id: `${index}`,
      arrival: Math.floor(index / concurrency) * 20_000,
      prompt: Array.from({ length: 40 }, () => index + 1),
      maxTokens: 100,
      ...(isOff ? { speculative: false } : {}),
    }))
    const report = await simulateLoad({
      policy: () => createPolicy('adaptive+fcfs'),
      machine: builtInMachines.get('two-cores') as MachineModel,
      requests,
      acceptance,
      seed,
      onToken: (id, token) => void drawn.set(id, [...(drawn.get(id) ?? []), token]),
    })
    const ms = report.results.reduce(
      (sum, { request, endedAt = 0 }) => sum + endedAt - request.arrival,
      0,
    )
    return { ...report, drawn: [...drawn], ms }
  }
  for (const acceptance of [0.1, 0.95]) {
    const off = await serve(acceptance, true)
    const on = await serve(acceptance)
    t.same(on.drawn, off.drawn)
    t.equal(off.draftTokens, 0)
    const factor = off.ms / on.ms
    if (acceptance < 0.5) t.ok(factor > 0.98, `unlikely drafts cost little: ${factor}`)
    else t.ok(factor > 1.2, `likely ones pay: ${factor}`)
    t.ok(on.acceptedTokens <= on.draftTokens)
  }
  for (const acceptance of [0.1, 0.6]) {
    // Which guesses come first decides much: one seed has 0.97 where four have 1.04 in the mean.
    let [off, on] = [0, 0]
    for (const seed of [1, 2, 3]) {
      off += (await serve(acceptance, true, 12, seed)).ms
      on += (await serve(acceptance, false, 12, seed)).ms
    }
    t.ok(off / on > 0.995, `nor do they cost much under load: ${off / on}`)
  }
})

t.test(
  'a draft model pays where its passes are short and those of several tokens cheap',
  async (t) => {
    const serve = async (machine: string, draftShare: number, isOff = false) => {
      const requests = Array.from({ length: 6 }, (_, index) => ({
        id: `${index}`,
        arrival: index * 20_000,
        prompt: Array.from({ length: 200 }, () => index + 1),
        maxTokens: 250,
        ...(isOff ? { speculative: false } : {}),
      }))
      const { results, draftTokens } = await simulateLoad({
        policy: () => createPolicy('adaptive+fcfs'),
        machine: builtInMachines.get(machine) as MachineModel,
        requests,
        acceptance: 0.75,
        draftShare,
      })
      const ms = results.reduce(
        (sum, { request, endedAt = 0 }) => sum + endedAt - request.arrival,
        0,
      )
      return { ms, draftTokens }
    }
    const off = await serve('gpu-8b', 0.1, true)
    t.equal(off.draftTokens, 0)
    const factor = off.ms / (await serve('gpu-8b', 0.1)).ms
    t.ok(factor > 1.5, `on a GPU, a small one: ${factor}`)
    const large = off.ms / (await serve('gpu-8b', 0.9)).ms
    t.ok(large > 0.97, `a large one is hardly asked: ${large}`)
    const cpu = (await serve('two-cores', 0.1, true)).ms / (await serve('two-cores', 0.1)).ms
    t.ok(cpu > 0.97, `nor is one on two cores: ${cpu}`)
  },
)

t.test('a pool of cells: all are served, and longer ones fit than into equal slots', async (t) => {
  const requests = Array.from({ length: 40 }, (_, index) => ({
    id: `${index}`,
    arrival: 200 * index,
    prompt: Array.from({ length: index === 7 ? 3000 : 50 + 20 * (index % 5) }, () => index + 1),
    maxTokens: index === 7 ? 500 : 20 + 10 * (index % 9),
  }))
  const serve = (limits: { slots: number; contextSize: number; kvTokens?: number }) =>
    simulateLoad({
      policy: () => createPolicy('chunked+fcfs'),
      machine: builtInMachines.get('two-cores') as MachineModel,
      requests,
      ...limits,
    })
  const equal = await serve({ slots: 8, contextSize: 512 })
  t.equal(equal.results[7]?.error, 'prompt_too_long')
  const pooled = await serve({ slots: 8, contextSize: 4096, kvTokens: 4096 })
  t.ok(pooled.results.every(({ error }) => error === undefined))
  t.ok(pooled.results.every(({ request, tokenTimes }) => tokenTimes.length === request.maxTokens))
})
