import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { readCosts } from '@cllm/bench'
import { createEngine, LocalEngineClient, PluginRegistry, systemRandom } from '@cllm/core'
import { FakeBackend } from '@cllm/core/testing'
import { batchings, createPolicy, orders } from '@cllm/scheduler'
import { benchEngine } from '../../../src/commands/bench/bench-engine.js'
import { benchCalibrate } from '../../../src/commands/bench/calibrate.js'
import { commandIo } from './command-io.js'

const fake = () => new FakeBackend({ slots: 4, contextSize: 256, batchSize: 128 })

const host = (backend = fake) => ({
  openBackend: async () => backend(),
  serve: async () => {
    const engine = createEngine({ backend: fake(), policy: createPolicy('adaptive+fcfs') })
    const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
    return { url: new URL('http://nowhere'), client, close: () => client.close() }
  },
  policies: { createPolicy, batchings, orders },
})

t.test('calibrate writes what simulate reads', async (t) => {
  const file = join(t.testdir(), 'cost.json')
  const backend = new FakeBackend({ slots: 4, contextSize: 256, batchSize: 128 })
  const output = commandIo()
  const argv = ['--model', 'fake', '--out', file, '--repeats', '1']
  t.equal(
    await benchCalibrate(
      argv,
      output,
      host(() => backend),
    ),
    0,
  )
  t.match(output.written.stdout, /decode: .* ms per sequence/)
  t.match(output.written.stdout, /mixed steps that were not fitted: mean/)
  t.same(backend.violations, [])
  t.equal(backend.samplers.size, 0)
  t.match(JSON.parse(await readFile(file, 'utf8')), {
    schema: 2,
    kind: 'cost-model',
    model: 'fake',
  })
  const machine = readCosts(file)
  t.match(machine.about, /measured: fake on/)
  t.ok(machine.stepMs([{ slot: 0, tokens: 1, context: 5 }]) > 0)
  await t.rejects(benchCalibrate(['--model', 'fake'], commandIo(), host()), {
    message: /--out is missing/,
  })
  await t.rejects(benchCalibrate([], commandIo(), host()), { message: /--model is missing/ })
})

t.test("engine: llama-bench's and llama-batched-bench's formats", async (t) => {
  const run = async (...more: string[]) => {
    const output = commandIo()
    const argv = ['-m', 'fake', '-p', '20', '-n', '5', '--parallel', '1,3', '-r', '2', ...more]
    t.equal(await benchEngine(argv, output, host()), 0)
    return output.written.stdout
  }
  const table = await run()
  t.match(table, '| model | size | params | backend | test | t/s |')
  t.match(table, /pp20 \| \d+\.\d\d ± \d+\.\d\d \|/)
  t.match(table, /tg5 × 3 \|/)
  t.match(JSON.parse(await run('-o', 'json')), [
    { n_prompt: 20, n_gen: 0, n_parallel: 1, samples_ns: { length: 2 } },
    { n_prompt: 0, n_gen: 5, n_parallel: 1 },
    { n_prompt: 20, n_gen: 0, n_parallel: 3 },
    { n_prompt: 0, n_gen: 5, n_parallel: 3 },
  ])
  const [first, second] = (await run('--style', 'batched-bench', '-o', 'jsonl'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, number>)
  t.match(first, { pp: 20, tg: 5, pl: 1, n_kv: 25 })
  t.match(second, { pp: 20, tg: 5, pl: 3, n_kv: 75 })
  const { speed_pp = 0, t_pp = 0 } = second ?? {}
  t.ok(Math.abs(speed_pp * t_pp - 60) < 1e-6)
  const csv = (await run('-o', 'csv')).split('\n')
  t.match(csv[0], 'backends,model_filename')
  t.equal(csv.length, 6)
  t.match(await run('--style', 'batched-bench'), '|PP|TG|B|N_KV|T_PP s|')
})
