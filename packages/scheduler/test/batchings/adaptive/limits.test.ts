import type { Plan, SchedulerPolicy } from '@cllm/core'
import { createPolicy } from '@cllm/scheduler'
import { builtInMachines, type MachineModel, passMachine, simulateLoad } from '@cllm/simulation'
import t from 'tap'

const gpu = builtInMachines.get('gpu-8b') as MachineModel

/** A machine with passes for decodes and others for prompts: sharing a step saves nothing. */
const apart = passMachine(
  {
    decode: { alone: 7, base: 7, each: 0.1, read: 5e-5 },
    prefill: { base: 7, sequence: 0.1, each: 0.04, pair: 1e-6, lonePair: 1e-6 },
    copy: { base: 0.1, each: 0.0001 },
    loop: { base: 0.3, each: 0.03 },
  },
  { name: 'apart', about: '', chunkMultiple: 1 },
)

interface Load {
  readonly machine: MachineModel
  readonly options?: object
  /** Milliseconds from one prompt to the next. */
  readonly everyMs?: number
  readonly promptTokens?: number
}

/** Six streams of two tenants, of which one is watched, and meanwhile prompts with short answers. */
async function serve({ machine, options = {}, everyMs = 300, promptTokens = 3000 }: Load) {
  const plans: Plan[] = []
  const policy: SchedulerPolicy = createPolicy('adaptive+fcfs', { ...options })
  const watched: SchedulerPolicy = {
    name: policy.name,
    plan(state) {
      const plan = policy.plan(state)
      plans.push(plan)
      return plan
    },
    observe: (event) => policy.observe?.(event),
  }
  const streams = [0, 1, 2, 3, 4, 5].map((number) => ({
    id: `stream ${number}`,
    arrival: number,
    tenant: number < 3 ? 'gold' : 'other',
    prompt: Array.from({ length: 200 }, () => number + 1),
    maxTokens: 400,
  }))
  const prompts = Array.from({ length: 20 }, (_, number) => ({
    id: `prompt ${number}`,
    arrival: 500 + number * everyMs,
    tenant: 'other',
    prompt: Array.from({ length: promptTokens }, () => number + 100),
    maxTokens: 2,
  }))
  const requests = [...streams, ...prompts]
  const { results } = await simulateLoad({ policy: () => watched, machine, requests })
  const gaps = results
    .filter(({ request }) => request.id.startsWith('stream') && request.tenant === 'gold')
    .flatMap(({ tokenTimes }) => tokenTimes.slice(1).map((at, index) => at - tokenTimes[index]!))
    .sort((one, other) => one - other)
  const firstTokens = results
    .filter(({ request }) => request.id.startsWith('prompt'))
    .map(({ request, tokenTimes }) => (tokenTimes[0] ?? Infinity) - request.arrival)
    .sort((one, other) => one - other)
  const both = plans.filter(({ run }) => {
    return run.some(({ tokens }) => tokens === 1) && run.some(({ tokens }) => tokens > 1)
  })
  return {
    both: both.map(({ run }) => run.reduce((sum, { tokens }) => sum + tokens, 0)),
    gap99: gaps[Math.floor(0.99 * gaps.length)] as number,
    firstToken: firstTokens[Math.floor(firstTokens.length / 2)] as number,
  }
}

for (const machine of [gpu, apart]) {
  t.test(`tokens come within their limit: ${machine.name}`, async (t) => {
    for (const itl of [20, 30, 60]) {
      const { gap99 } = await serve({ machine, options: { slo: { itl } } })
      t.ok(
        gap99 <= itl,
        `99 % of the times between tokens are below ${gap99.toFixed(1)} of ${itl} ms`,
      )
    }
  })

  t.test(`a limit of one tenant binds its requests: ${machine.name}`, async (t) => {
    const options = { slo: { itl: 200, tenants: { gold: { itl: 20 } } } }
    const { gap99 } = await serve({ machine, options })
    t.ok(gap99 <= 20, `${gap99.toFixed(1)} ms`)
  })
}

t.test('a GPU decodes and computes as much of prompts as costs nothing', async (t) => {
  const { both } = await serve({ machine: gpu })
  const sizes = both.toSorted((one, other) => one - other)
  const median = sizes[Math.floor(sizes.length / 2)] ?? 0
  t.ok(
    Math.abs(median / 170 - 1) < 0.1,
    `${median} tokens; reading the weights takes as long as 170`,
  )
})

t.test('where sharing a step saves nothing, it is tried and left', async (t) => {
  const { both } = await serve({ machine: apart })
  t.ok(both.length > 0 && both.length < 40, `${both.length} steps did both`)
})

t.test('prompts get longer steps where their first token would be late', async (t) => {
  const machine: MachineModel = { ...gpu, stepMs: (shares) => 3 + gpu.stepMs(shares) }
  const load = { machine, promptTokens: 4000 }
  const calm = await serve({ ...load, options: { slo: { itl: 40 } } })
  const ttft = calm.firstToken
  const hurried = await serve({ ...load, options: { slo: { itl: 40, ttft } } })
  t.ok(Math.max(...hurried.both) > 1.1 * 170, `${Math.max(...hurried.both)} tokens`)
  t.ok(hurried.firstToken < 0.95 * ttft, `${hurried.firstToken} of ${ttft} ms`)
  t.ok(hurried.gap99 <= 40, `at ${hurried.gap99.toFixed(1)} ms between tokens`)
})
