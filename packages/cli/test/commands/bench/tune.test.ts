import type { SimulationResult } from '@cllm/bench'
import { batchings, createPolicy, orders } from '@cllm/scheduler'
import t from 'tap'
import { tune } from '../../../src/commands/bench/tune.js'

const host = async () => ({
  openBackend: () => Promise.reject(new Error('no model here')),
  serve: () => Promise.reject(new Error('no model here')),
  policies: { createPolicy, batchings, orders },
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
