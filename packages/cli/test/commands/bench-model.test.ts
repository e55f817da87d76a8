import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { inside, words } from '../inside.js'

t.test('simulate, by name, with a wrong policy', async (t) => {
  const argv = ['simulate', '--requests', '20', '--json', '--policy']
  const { code, stdout } = await inside([...argv, 'adaptive+sjf'])
  t.equal(code, 0)
  t.match(JSON.parse(stdout), { kind: 'simulation', policy: 'adaptive+sjf' })
  const wrong = await inside([...argv, 'adaptive+sfj'])
  t.match(wrong, { code: 2, stdout: '', stderr: 'did you mean "adaptive+sjf"' })
})

t.test('policies: each in charge of the same engine in turns', async (t) => {
  const report = join(t.testdir(), 'policies.html')
  const policies = ['adaptive+fcfs', 'chunked+fair:{"tokenBudget":64}']
  const argv = [
    ...words('bench policies --model stories15m --gpu off --threads 1 --slots 2 --concurrency 2'),
    ...words(
      '--requests 4 --rounds 1 --warmup 0 --input-len 8 --output-len 4 --tenants 2 --seed 1 --json',
    ),
    '--report',
    report,
    ...policies.flatMap((name) => ['--policy', name]),
  ]
  const { code, stdout, stderr } = await inside(argv)
  t.equal(code, 0, stderr)
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  t.match(lines, [
    { kind: 'run', target: { name: policies[0] }, summary: { requests: { ok: 4 } } },
    { kind: 'run', target: { name: policies[1] }, summary: { requests: { ok: 4 } } },
    { kind: 'compare', baseline: policies[0] },
  ])
  const page = await readFile(report, 'utf8')
  t.equal(page.split('composition of the steps</figcaption>').length, 3)
  t.match(page, 'service by tenant')
  const wrong = await inside([...argv, '--policy', policies[0]!])
  t.match(wrong, { code: 2, stdout: '', stderr: '--policy: a policy is given twice' })
})

t.test("tune: a plugin's policy, confirmed for real", async (t) => {
  const plugin = fileURLToPath(
    new URL('../../../../examples/scheduler-plugin/shortest-first.js', import.meta.url),
  )
  const argv = [
    'tune',
    '--plugin',
    plugin,
    ...words('--policy shortest-first --policy chunked+fcfs --rate 20 --requests 10 --slots 2'),
    ...words('--input-len 8 --output-len 4 --ctx-size 64 --slo ttft:10m,itl:10m --cost two-cores'),
    ...words('--confirm stories15m --confirm-requests 3 --gpu off --threads 1'),
  ]
  const { code, stdout, stderr } = await inside([...argv, '--json'])
  t.equal(code, 0, stderr)
  const { tried, front, confirmed, yaml } = JSON.parse(stdout) as {
    tried: number
    front: { policy: string }[]
    confirmed: { name: string; goodput: number; ttftP99Ms: number }[]
    yaml: string
  }
  t.equal(tried, 2)
  t.equal(confirmed.length, front.length)
  for (const { goodput, ttftP99Ms } of confirmed) t.ok(goodput === 1 && ttftP99Ms > 0)
  const file = join(t.testdir({ 'tuned.yaml': yaml }), 'tuned.yaml')
  const config = await inside(['config', '--json', '--config', file])
  t.match(JSON.parse(config.stdout), {
    config: {
      plugins: [{ use: plugin }],
      scheduler: { policy: /^(shortest-first|chunked\+fcfs)$/ },
      engine: { slots: 2, ctx_size: 64 },
    },
  })
})
