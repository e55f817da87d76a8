import type { SequenceView, WaitingView } from '@cllm/core'
import { boundedOvertaking, createPolicy, oldestArrival } from '@cllm/scheduler'
import {
  builtInMachines,
  simulateLoad,
  type SimulatedRequest,
  type SimulationReport,
} from '@cllm/simulation'
import t from 'tap'
import { promptTokens, serveLoad } from './serve-load.js'

type Wanted = Partial<SimulatedRequest> & { readonly id: string; readonly length?: number }

interface Setting {
  readonly options?: Record<string, unknown>
  readonly slots?: number
}

/** Serves requests whose steps take 10 ms and 1 ms a token; the first one before the others come. */
async function serve(name: string, wanted: readonly Wanted[], setting: Setting = {}) {
  const requests = wanted.map(({ length = 20, ...request }, index) => {
    const prompt = promptTokens(length, index)
    return { arrival: index === 0 ? 0 : index, prompt, maxTokens: 5, ...request }
  })
  const { options = {}, slots = 1 } = setting
  const machine = (shares: readonly { tokens: number }[]): number => {
    return 10 + shares.reduce((sum, { tokens }) => sum + tokens, 0)
  }
  return await serveLoad({ policy: createPolicy(name, options), machine, slots, requests })
}

function view(id: string, arrival: number, more: Partial<SequenceView> = {}): SequenceView {
  return {
    id,
    arrival,
    state: 'queued',
    priority: 0,
    deadline: undefined,
    tenant: '',
    session: undefined,
    promptTokens: 5,
    generatedTokens: 0,
    maxTokens: 5,
    computedTokens: 0,
    remainingTokens: 5,
    stepGroup: undefined,
    preemptions: 0,
    ...more,
  }
}

const waitingOf = (list: readonly SequenceView[]): WaitingView => ({
  size: list.length,
  has: (id) => list.some((one) => one.id === id),
  [Symbol.iterator]: () => list[Symbol.iterator](),
})

/** Who got the first token when. */
function inTurn({ results }: SimulationReport): string {
  return results
    .filter(({ tokenTimes }) => tokenTimes.length > 0)
    .toSorted((one, other) => (one.tokenTimes[0] ?? 0) - (other.tokenTimes[0] ?? 0))
    .map(({ request }) => request.id)
    .join(' ')
}

const endOf = ({ results }: SimulationReport, id: string): number =>
  results.find(({ request }) => request.id === id)?.tokenTimes.at(-1) ?? NaN

const startOf = ({ results }: SimulationReport, id: string): number =>
  results.find(({ request }) => request.id === id)?.tokenTimes[0] ?? NaN

t.test('priority: the highest first, equals by arrival', async (t) => {
  const wanted = [{ id: 'x' }, { id: 'a' }, { id: 'b', priority: 2 }, { id: 'c', priority: -1 }]
  const report = await serve('chunked+priority', [...wanted, { id: 'd', priority: 2 }])
  t.equal(inTurn(report), 'x b d a c')
})

t.test('priority: waiting counts', async (t) => {
  const wanted = [{ id: 'x', maxTokens: 90 }, { id: 'a' }, { id: 'b', priority: 2, arrival: 900 }]
  t.equal(inTurn(await serve('chunked+priority', wanted)), 'x b a')
  t.equal(
    inTurn(await serve('chunked+priority', wanted, { options: { agingTokens: 10 } })),
    'x a b',
  )
})

t.test('priority: the urgent take a slot, and nobody loses a token', async (t) => {
  const wanted = [
    { id: 'long', maxTokens: 100 },
    { id: 'later', arrival: 5, maxTokens: 100 },
    { id: 'urgent', arrival: 500, priority: 10 },
  ]
  const report = await serve('chunked+priority', wanted, { slots: 2 })
  t.ok(startOf(report, 'urgent') < 700 && endOf(report, 'later') > endOf(report, 'long'))
  t.same(
    report.results.map(({ tokenTimes }) => tokenTimes.length),
    [100, 100, 5],
  )
  t.equal(report.results.filter(({ error }) => error !== undefined).length, 0)
  for (const options of [{ preemptionThreshold: 11 }, { preemptionThreshold: null }]) {
    const calm = await serve('chunked+priority', wanted, { slots: 2, options })
    t.ok(startOf(calm, 'urgent') > endOf(calm, 'long'), 'not below the threshold')
  }
  const grouped = await serve('static+priority', wanted, { slots: 2 })
  t.ok(startOf(grouped, 'urgent') > endOf(grouped, 'long'), 'not with a batching in groups')
})

t.test('priority: who was preempted twice or is nearly done is left alone', async (t) => {
  const urgent = [300, 700, 1100].map((arrival, index) => {
    return { id: `urgent ${index}`, arrival, priority: 10 }
  })
  const report = await serve('chunked+priority', [{ id: 'long', maxTokens: 120 }, ...urgent])
  t.ok(startOf(report, 'urgent 1') < endOf(report, 'long'))
  t.ok(startOf(report, 'urgent 2') > endOf(report, 'long'))
  const last = await serve('chunked+priority', [
    { id: 'short', maxTokens: 15 },
    { id: 'urgent', arrival: 50, priority: 10 },
  ])
  t.ok(startOf(last, 'urgent') > endOf(last, 'short'))
})

t.test('sjf and hrrn: the least work that no slot holds', async (t) => {
  const wanted = [
    { id: 'x' },
    { id: 'a', length: 90 },
    { id: 'b', length: 30 },
    { id: 'c', length: 60 },
  ]
  t.equal(inTurn(await serve('chunked+sjf', wanted)), 'x b c a')
  t.equal(inTurn(await serve('chunked+hrrn', wanted)), 'x b c a')
  const cached = { id: 'd', prompt: [...promptTokens(20, 0), ...promptTokens(80, 9)].slice(0, 45) }
  t.equal(inTurn(await serve('chunked+sjf', [...wanted, cached])), 'x d b c a')
})

t.test('sjf and hrrn: waiting counts', async (t) => {
  const short = (arrival: number) => ({ id: `s${arrival}`, length: 20, arrival })
  const many = [50, 100, 150, 200, 250, 300, 350].map(short)
  const wanted = [{ id: 'x' }, { id: 'long', length: 60 }, ...many]
  const place = async (name: string, options = {}): Promise<number> =>
    inTurn(await serve(name, wanted, { options }))
      .split(' ')
      .indexOf('long')
  t.equal(await place('chunked+sjf', { aging: 0 }), 8)
  t.ok((await place('chunked+sjf', { aging: 1 })) < 6)
  t.ok((await place('chunked+hrrn')) < 8)
  t.ok((await place('chunked+sjf', { aging: 0, patience: 50 })) < 6, 'overdue')
})

t.test('lpm: the longest prefix that a slot holds', async (t) => {
  const head = promptTokens(60, 0)
  const wanted = [
    { id: 'x', prompt: head },
    { id: 'a' },
    { id: 'b', prompt: [...head.slice(0, 24), ...promptTokens(10, 8)] },
    { id: 'c', prompt: [...head.slice(0, 50), ...promptTokens(10, 9)] },
  ]
  t.equal(inTurn(await serve('chunked+lpm', wanted)), 'x c b a')
})

const byTenant = [
  { id: 'x', tenant: 'a' },
  { id: 'a1', tenant: 'a' },
  { id: 'a2', tenant: 'a' },
  { id: 'a3', tenant: 'a' },
  { id: 'b1', tenant: 'b' },
  { id: 'b2', tenant: 'b' },
]

t.test('fair: who was served least, by weight, and nobody saves up', async (t) => {
  t.equal(inTurn(await serve('chunked+fair', byTenant)), 'x b1 a1 b2 a2 a3')
  const options = { weights: { a: 4 } }
  t.equal(inTurn(await serve('chunked+fair', byTenant, { options })), 'x b1 a1 a2 a3 b2')
  const late = byTenant.map((request) => {
    return request.tenant === 'b' ? { ...request, arrival: 90 } : request
  })
  const more = [...late, { id: 'b3', tenant: 'b', arrival: 90 }]
  t.equal(inTurn(await serve('chunked+fair', more)), 'x a1 b1 a2 b2 a3 b3')
})

t.test('dlpm: the longest prefix as far as a quantum goes', async (t) => {
  const head = promptTokens(60, 0)
  const same = (id: string, tenant: string) => {
    return { id, tenant, prompt: [...head, ...promptTokens(5, id.charCodeAt(1))] }
  }
  const first = { id: 'x', tenant: 'a', prompt: head }
  const wanted = [
    first,
    same('a1', 'a'),
    same('a2', 'a'),
    same('a3', 'a'),
    { id: 'b', tenant: 'b' },
  ]
  t.equal(inTurn(await serve('chunked+dlpm', wanted)), 'x a1 a2 a3 b')
  const options = { quantum: 40 }
  t.ok(inTurn(await serve('chunked+dlpm', wanted, { options })).indexOf('b') < 8)
})

t.test('edf: the earliest deadline, none last; refuses what is too late', async (t) => {
  const wanted = [
    { id: 'x', maxTokens: 20 },
    { id: 'none' },
    { id: 'late', deadlineMs: 5000 },
    { id: 'soon', deadlineMs: 900 },
    { id: 'past', deadlineMs: 50 },
    { id: 'hopeless', deadlineMs: 300, length: 800 },
  ]
  const report = await serve('chunked+edf', wanted)
  t.equal(inTurn(report), 'x soon late none')
  const errors = report.results.map(({ error }) => error)
  t.same(errors, [undefined, undefined, undefined, undefined, 'rejected', 'rejected'])
  const patient = await serve('chunked+edf', wanted, { options: { refuse: false } })
  t.equal(inTurn(patient), 'x past hopeless soon late none')
})

t.test('edf: what short prompts took says little of a long one', async (t) => {
  const short = Array.from({ length: 40 }, (_, index) => {
    return { id: `${index}`, length: 10, arrival: 100 * index }
  })
  const long = [1000, 2500, 3900].map((arrival) => {
    return { id: `long ${arrival}`, length: 800, arrival, deadlineMs: 1200 }
  })
  const { results } = await serve('chunked+edf', [...short, ...long], { slots: 4 })
  for (const { error } of results) t.equal(error, undefined)
})

t.test('mlfq: least service first, and who had much makes way', async (t) => {
  const options = { quantum: 16, preemptionLevels: 2 }
  const wanted = [
    { id: 'long', maxTokens: 150 },
    { id: 'big', length: 200, arrival: 900 },
    { id: 'small', length: 5, arrival: 1000 },
  ]
  const report = await serve('chunked+mlfq', wanted, { options })
  t.equal(inTurn(report), 'long small big')
  t.ok(startOf(report, 'small') < 1100)
  const calm = { options: { ...options, preemptionLevels: null } }
  const waiting = await serve('chunked+mlfq', wanted, calm)
  t.ok(startOf(waiting, 'small') > endOf(waiting, 'long'))
})

t.test('random: the seed decides', async (t) => {
  const wanted = Array.from({ length: 12 }, (_, index) => ({ id: `${index}` }))
  const order = async (seed: number): Promise<string> =>
    inTurn(await serve('chunked+random', wanted, { options: { seed } }))
  t.equal(await order(1), await order(1))
  t.not(await order(1), await order(2))
})

t.test('static: groups that run to the end', async (t) => {
  const wanted = [10, 30, 20, 10, 10].map((maxTokens, index) => ({ id: `${index}`, maxTokens }))
  const report = await serve('static+fcfs', wanted, { slots: 4, options: { groupSize: 3 } })
  t.ok(Math.min(startOf(report, '3'), startOf(report, '4')) > endOf(report, '1'))
  t.equal(startOf(report, '0'), startOf(report, '2'))
  const lone = await serve('static+fcfs', [{ id: 'x' }], { options: { waitMs: 300 }, slots: 2 })
  t.equal(startOf(lone, 'x'), 330)
})

t.test('window: waits a moment, regroups when half are gone', async (t) => {
  const wanted = [4, 40, 40, 4, 40].map((maxTokens, index) => ({ id: `${index}`, maxTokens }))
  const late = { id: 'late', arrival: 100 }
  const report = await serve('window+fcfs', [...wanted, late], { slots: 8 })
  t.equal(startOf(report, '0'), startOf(report, '4'))
  t.ok(startOf(report, '0') > 50)
  t.ok(startOf(report, 'late') > endOf(report, '1'), 'three of five still ran')
  const shrunk = [4, 4, 40, 4, 40].map((maxTokens, index) => ({ id: `${index}`, maxTokens }))
  const regrouped = await serve('window+fcfs', [...shrunk, late], { slots: 8 })
  t.ok(startOf(regrouped, 'late') < endOf(regrouped, '2'), 'two of five did not hold it up')
})

t.test('who gives way when the KV cells of all are used up', (t) => {
  const view = (id: string, more: Partial<SequenceView>) =>
    ({ id, ...base, ...more }) as SequenceView
  const base = {
    state: 'decoding',
    arrival: 0,
    priority: 0,
    tenant: 'a',
    preemptions: 0,
    remainingTokens: 10,
  }
  const running = [
    view('first', { priority: 1, deadline: 500 }),
    view('low', { priority: -1, deadline: 100 }),
    view('late', { priority: 1, deadline: 900, tenant: 'b', remainingTokens: 50 }),
    view('last', { priority: 2, deadline: 300 }),
  ]
  const waiting = { size: 0, has: () => false, *[Symbol.iterator]() {} }
  const limits = { slots: 4, contextSize: 100, batchSize: 64 }
  const state = { now: 0, waiting, running, freeSlots: 0, limits }
  const victim = (name: string) => createPolicy(name).victim?.(state)
  t.equal(victim('chunked+priority'), 'low')
  t.equal(victim('adaptive+edf'), 'late')
  t.equal(victim('chunked+fcfs'), undefined, 'the one admitted last')
  const fair = createPolicy('chunked+fair')
  for (const request of running) fair.observe?.({ type: 'admitted', request, now: 0 })
  t.equal(fair.victim?.(state), 'late', 'of the tenant that was served most')
  t.end()
})

t.test('who waits longest is found behind requests that another engine began', async (t) => {
  const list = [
    view('begun', 9, { generatedTokens: 3 }),
    view('preempted', 8, { state: 'preempted', generatedTokens: 3, preemptions: 1 }),
    view('oldest', 1),
    view('newest', 10),
  ]
  const waiting = waitingOf(list)
  const limits = { slots: 1, contextSize: 64, batchSize: 64 }
  const state = { now: 20, waiting, running: [], freeSlots: 1, limits }
  t.equal(oldestArrival(state), 1)
  const order = boundedOvertaking({ next: () => list.toReversed() }, 0)
  for (const request of list) order.observe?.({ type: 'queued', request, now: 20 })
  t.equal([...order.next(state)][0]?.id, 'oldest')
})

t.test('agents: slots wait for programs whose tools run', async (t) => {
  const answerTokens = 10
  const report = async (name: string) => {
    const said = new Map<string, number[]>()
    const call = (id: string, arrival: number, prompt: number[]): SimulatedRequest => {
      said.set(id, [...prompt, ...Array.from({ length: answerTokens }, () => 0)])
      return { id, arrival, prompt, maxTokens: answerTokens }
    }
    return await simulateLoad({
      policy: () => createPolicy(name),
      machine: builtInMachines.get('gpu-8b')!,
      slots: 4,
      // programs that are found by their prompts alone, more than there are slots
      requests: Array.from({ length: 12 }, (_, one) => call(`${one}`, one, promptTokens(900, one))),
      after({ request: { id } }, now) {
        const [program = '', turn = '0'] = id.split('/')
        if (turn === '10') return undefined
        const prompt = [...said.get(id)!, ...promptTokens(20, Number(turn))]
        return call(`${program}/${Number(turn) + 1}`, now + 20, prompt)
      },
    })
  }
  const [fcfs, agents] = [await report('adaptive+fcfs'), await report('adaptive+agents')]
  const computed = agents.prefillTokens / fcfs.prefillTokens
  t.ok(computed < 0.5, `${computed} of the prompt tokens are computed`)
  const meanEnd = ({ results }: SimulationReport): number => {
    const ends = results.flatMap(({ request, endedAt = NaN }) =>
      request.id.endsWith('/10') ? [endedAt] : [],
    )
    return ends.reduce((sum, end) => sum + end, 0) / ends.length
  }
  const ends = meanEnd(agents) / meanEnd(fcfs)
  t.ok(ends < 0.7, `programs take ${ends} of the time`)
})

t.test('agents: fewer slots wait for programs the longer the queue is', async (t) => {
  const admitted = (waits: number): number => {
    const list = Array.from({ length: waits }, (_, at) => view(`${at}`, at))
    const running = [view('runs', 0, { state: 'decoding', computedTokens: 5, remainingTokens: 1 })]
    const policy = createPolicy('adaptive+agents')
    for (const request of list) policy.observe?.({ type: 'queued', request, now: 50 })
    const limits = { slots: 2, contextSize: 64, batchSize: 64 }
    const program = {
      id: 'p',
      tenant: '',
      arrival: 0,
      pausedAt: 90,
      calls: 1,
      open: 0,
      servedTokens: 9,
      keptTokens: 9,
    }
    const programs = { paused: () => [{ program, lossMs: 100, returnRate: 0.01 }] }
    const state = { now: 99, waiting: waitingOf(list), running, freeSlots: 1, limits, programs }
    return policy.plan(state).admit?.length ?? 0
  }
  t.equal(admitted(1), 0, 'computing again would cost the one that runs more')
  t.equal(admitted(9), 1)
})

t.test('agents: without programs it is first come, first served', async (t) => {
  const wanted = [{ id: 'x', length: 30 }, { id: 'a', length: 90 }, { id: 'b' }, { id: 'c' }]
  t.equal(inTurn(await serve('chunked+agents', wanted)), 'x a b c')
})
