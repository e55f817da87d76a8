import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { runCli, words } from '../run-cli.js'

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
  const { code, stdout, stderr } = await runCli([...argv, '--json'])
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
  const config = await runCli(['config', '--json', '--config', file])
  t.match(JSON.parse(config.stdout), {
    config: {
      plugins: [{ use: plugin }],
      scheduler: { policy: /^(shortest-first|chunked\+fcfs)$/ },
      engine: { slots: 2, ctx_size: 64 },
    },
  })
})
