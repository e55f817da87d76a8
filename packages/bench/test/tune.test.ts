import t from 'tap'
import { candidates, paretoFront, tune, type SimulationResult } from '@cllm/bench'
import { createPolicy, policyNames } from '@cllm/scheduler'

const result = (policy: string, share: number, speed: number, ttft: number, itl: number) =>
  ({
    policy,
    policyOptions: {},
    summary: {
      goodput: { share },
      outputTokensPerSecond: speed,
      ttftMs: { p99: ttft },
      itlMs: { p99: itl },
    },
  }) as unknown as SimulationResult

t.test('the front has who is best at something, the best by goodput first', (t) => {
  const front = paretoFront([
    result('slow', 0.5, 100, 900, 50),
    result('good', 0.9, 100, 800, 50),
    result('smooth', 0.6, 90, 950, 10),
    result('twin', 0.9, 100, 800, 50),
    result('as good as', 0.9, 100.1, 800, 50),
  ])
  t.same(
    front.map(({ policy }) => policy),
    ['good', 'as good as', 'smooth'],
  )
  t.end()
})

t.test('every candidate is a policy', (t) => {
  const all = candidates({ itl: 100 }, 512)
  for (const { policy, policyOptions } of all) t.ok(createPolicy(policy, policyOptions))
  const names = new Set(all.map(({ policy }) => policy))
  t.equal(names.size, policyNames.filter((name) => !name.endsWith('random')).length)
  t.ok(all.some(({ policyOptions }) => policyOptions.targetStepMs === 80))
  t.notOk(all.some(({ policyOptions }) => policyOptions.tokenBudget === 1024))
  t.end()
})

const host = async () => ({
  openBackend: () => Promise.reject(new Error('no model here')),
  serve: () => Promise.reject(new Error('no model here')),
  policies: { createPolicy },
})

const run = async (...argv: string[]) => {
  let stdout = ''
  const output = { write: (text: string) => void (stdout += text) }
  const signal = new AbortController().signal
  const io = { stdout: output, stderr: { write: () => undefined }, env: {}, signal }
  const code = await tune(argv, io, host)
  return { code, stdout }
}

t.test('tune finds a policy and says how to use it', async (t) => {
  const load = [
    '--rate',
    '12',
    '--requests',
    '80',
    '--sample',
    '30',
    '--slo',
    'ttft:500ms,itl:40ms',
  ]
  const policies = ['static+fcfs', 'continuous+fcfs', 'chunked+fcfs:{"tokenBudget":128}']
  const argv = [...load, ...policies.flatMap((name) => ['--policy', name])]
  const { code, stdout } = await run(...argv)
  t.equal(code, 0)
  t.match(stdout, '3 tried; not beaten by any other:')
  t.match(stdout, /scheduler:\n {2}policy: (chunked|continuous)\+fcfs\n/)
  const json = await run(...argv, '--json')
  const { front, yaml } = JSON.parse(json.stdout) as { front: SimulationResult[]; yaml: string }
  t.not(front[0]?.policy, 'static+fcfs')
  t.match(yaml, front[0]?.policy)
  t.equal(front[0]?.requests, 80)
  await t.rejects(run('--rate', '1'), { message: /--slo is missing/ })
})
