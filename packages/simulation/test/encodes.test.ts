import { createPolicy, createRouter } from '@cllm/scheduler'
import {
  builtInMachines,
  type MachineModel,
  promptIds,
  type SimulatedRequest,
  simulateLoad,
  type SimulationOptions,
} from '@cllm/simulation'
import t from 'tap'

const machine = builtInMachines.get('gpu-8b') as MachineModel

function request(id: string, arrival: number, more: Partial<SimulatedRequest>): SimulatedRequest {
  return { id, arrival, prompt: promptIds([{ key: id, tokens: 40 }]), maxTokens: 20, ...more }
}

const seen = (id: string, arrival: number, more: Partial<SimulatedRequest> = {}) =>
  request(id, arrival, { media: [{ type: 'image', at: 20, data: `100 ${id}` }], ...more })

/** Milliseconds from the arrival of each request to its tokens. */
async function timesOf(
  requests: readonly SimulatedRequest[],
  policy = 'adaptive+fcfs',
  more: Partial<SimulationOptions> = {},
) {
  const { results } = await simulateLoad({
    policy: () => createPolicy(policy),
    machine,
    requests,
    encodes: { encodeMs: 200, lostShare: 0 },
    ...more,
  })
  return new Map(
    results.map(({ request: { id, arrival }, tokenTimes, usage, forecast, error }) => {
      return [id, { first: (tokenTimes[0] ?? NaN) - arrival, tokenTimes, usage, forecast, error }]
    }),
  )
}

t.test('images are encoded beside the steps of others, one at a time', async (t) => {
  const texts = [request('stream', 0, { maxTokens: 60 })]
  const alone = (await timesOf(texts)).get('stream')!
  const images = [seen('one', 10), seen('two', 10, { forecast: true })]
  const times = await timesOf([...texts, ...images])
  const before = (all: readonly number[]) => all.filter((time) => time < 200)
  t.same(before(times.get('stream')!.tokenTimes), before(alone.tokenTimes), 'nobody waits')
  const [one, two] = [times.get('one')!, times.get('two')!]
  t.equal(one.usage?.promptTokens, 140)
  t.ok(one.first > 200 && one.first < 230, `${one.first}`)
  t.ok(two.first > 400 && two.first < 430, `${two.first}`)
  t.ok(Math.abs(two.forecast!.firstTokenMs - two.first) < 20, `${two.forecast!.firstTokenMs}`)
  const prompt = promptIds([{ key: 'long', tokens: 2000 }])
  const media = [{ type: 'image' as const, at: 1990, data: '100 long' }]
  const long = (await timesOf([request('long', 0, { prompt, media })])).get('long')!
  t.ok(long.first < 230, `the text before it is computed meanwhile: ${long.first}`)
  const encodes = { encodeMs: 200, lostShare: 0.5 }
  const slowed = (await timesOf([...texts, ...images], undefined, { encodes })).get('stream')!
  const count = (all: readonly number[]) => before(all).length
  t.ok(count(slowed.tokenTimes) < 0.6 * count(alone.tokenTimes), 'where they share the machine')
})

t.test('the policy orders them, and those that left are not encoded', async (t) => {
  const requests = [
    seen('first', 0),
    seen('gone', 1, { cancelAfterMs: 50 }),
    seen('least', 2),
    seen('urgent', 3, { priority: 5 }),
  ]
  const plain = await timesOf(requests)
  const urgent = await timesOf(requests, 'adaptive+priority')
  const order = (times: typeof plain) =>
    [...times]
      .filter(([, { error }]) => error === undefined)
      .sort(([, one], [, other]) => one.tokenTimes[0]! - other.tokenTimes[0]!)
      .map(([id]) => id)
  t.same(order(plain), ['first', 'least', 'urgent'])
  t.same(order(urgent), ['first', 'urgent', 'least'])
  t.equal(plain.get('gone')!.error, 'cancelled')
  t.ok(plain.get('urgent')!.first < 630, 'three are encoded')
})

t.test('routers spread them over machines, whatever texts there are', async (t) => {
  const requests = Array.from({ length: 6 }, (_, index) => [
    seen(`image ${index}`, 20 * index, { maxTokens: 400 }),
    request(`text ${index}`, 20 * index + 10, { maxTokens: 400 }),
  ])
  for (const name of ['prefix-wait', 'least-loaded', 'least-wait', 'two-choices', 'session']) {
    const router = () => createRouter(name)
    const times = await timesOf(requests.flat(), undefined, { machines: 2, router })
    const last = Math.max(...requests.map(([image]) => times.get(image!.id)!.first))
    t.ok(last < 600, `${name}: three on each machine: ${last}`)
  }
})
