import { fail } from 'node:assert'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  type CompareResult,
  type RunResult,
  type SimulationResult,
  compareRuns,
  readCosts,
} from '@cllm/bench'
import { type Script, scriptedServer } from '../../../../bench/test/scripted-server.js'
import { readCsv } from '../../../../bench/test/read-csv.js'
import { LocalEngineClient } from '@cllm/host'
import { PluginRegistry, createEngine, systemRandom } from '@cllm/core'
import { FakeBackend } from '@cllm/testing'
import { createPolicy } from '@cllm/scheduler'
import t, { type Test } from 'tap'
import {
  compare as benchCompare,
  run as benchServe,
} from '../../../src/commands/bench/bench-serve.js'
import { benchEngine } from '../../../src/commands/bench/bench-engine.js'
import { benchCalibrate } from '../../../src/commands/bench/calibrate.js'
import { policiesOf } from '../../../src/plugins/load-registry.js'
import { hostedConfig } from '../../../src/commands/bench/model-host.js'
import { loadConfig, type LoadedConfig } from '../../../src/config/load-config.js'
import { toEngineSettings } from '../../../src/engine/to-engine-settings.js'
import { exitCodeOf } from '../../../src/commands/bench/output.js'
import { run as tune } from '../../../src/commands/bench/tune.js'
import { commandIo } from '../../inside.js'

const linesOf = <T>(text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as T)

const served = async (t: Test, script: Script = {}) => {
  const server = await scriptedServer(script)
  t.teardown(server.close)
  return server
}

const small = ['--requests', '6', '--input-len', '8', '--output-len', '4', '--pause', '1ms']

t.test('serve: a line per run, fresh prompts, the same for the same seed', async (t) => {
  const server = await served(t)
  const argv = [
    '--target',
    server.url,
    '--concurrency',
    '1,3',
    '--repeats',
    '2',
    '--json',
    ...small,
  ]
  const prompts = async () => {
    const output = commandIo()
    const begin = server.received.length
    t.equal(await benchServe([...argv, '--seed', '5'], output), 0)
    t.equal(output.written.stderr, '')
    const runs = linesOf<RunResult>(output.written.stdout)
    t.match(
      runs.map(({ load, repeat }) => [load, repeat]),
      [
        [{ kind: 'closed', concurrency: 1 }, 1],
        [{ kind: 'closed', concurrency: 1 }, 2],
        [{ kind: 'closed', concurrency: 3 }, 1],
        [{ kind: 'closed', concurrency: 3 }, 2],
      ],
    )
    for (const run of runs) {
      t.match(run, {
        schema: 1,
        kind: 'run',
        seed: 5,
        stopped: null,
        target: { url: `${server.url}/`, api: 'cllm', model: null },
        summary: { requests: { total: 6, ok: 6, failed: 0, errors: {} }, generatedTokens: 24 },
      })
    }
    return server.received.slice(begin).map(({ prompt }) => prompt)
  }
  const [first, second] = [await prompts(), await prompts()]
  t.same(first.toSorted(), second.toSorted())
  // The probe, two for warming up, and four runs of six.
  t.equal(first.length, 27)
  t.equal(new Set(first).size, 27, 'no prompt comes twice')
})

t.test('serve: tables, report and timeline', async (t) => {
  const server = await served(t, { gapMs: 2 })
  const folder = t.testdir({})
  const [report, trace] = [join(folder, 'report.html'), join(folder, 'trace.json')]
  const output = commandIo()
  const more = [
    '--seed',
    '1',
    '--tenants',
    'a=2,b=1',
    '--slo',
    'ttft:5s,itl:1ms',
    '--report',
    report,
    '--trace',
    trace,
  ]
  const argv = ['--target', server.url, '--concurrency', '2', '--repeats', '2', ...small, ...more]
  t.equal(await benchServe(argv, output), 0)
  const text = output.written.stdout
  for (const part of [
    /^seed \d+\n/,
    /2 clients, run 2\n6 requests: 6 ok, 0 failed\n/,
    /TTFT ms +│/,
    /goodput 0 requests\/s, 0 % of all/,
    /Jain index of 2 tenants 0\.\d+|Jain index of 2 tenants 1/,
    /2 runs\n/,
    /output tokens\/s +│ +[\d.,]+ \(-?[\d.,]+ to [\d.,]+\)/,
  ]) {
    t.match(text, part)
  }
  const html = await readFile(report, 'utf8')
  t.equal(html.match(/<figure/g)?.length, 7, 'latencies, throughput, lengths, Gantt, tenants')
  const charts = html.match(/<svg xmlns[\s\S]*?<\/svg>/g) ?? []
  t.equal(charts.length, 7)
  for (const chart of charts) {
    t.match(chart, /<text [^>]*text-anchor="middle">0(\.0+)?( %)?<\/text>/, 'axes begin at 0')
  }
  t.match(html, /prompts of \d+ tokens, answers of \d+ tokens/)
  t.match(html, 'prefers-color-scheme: dark')
  t.notMatch(html, /NaN|undefined|<script|https?:\/\/(?!127|www\.w3\.org)/)
  const { traceEvents } = JSON.parse(await readFile(trace, 'utf8')) as {
    traceEvents: { ph: string; name: string; dur?: number }[]
  }
  t.equal(traceEvents.filter(({ name }) => name.startsWith('request ')).length, 12)
  t.ok(traceEvents.every(({ ph, dur }) => ph === 'M' || dur! >= 0))
})

t.test('serve and compare: the figures of runs and of requests as CSV', async (t) => {
  const server = await served(t, { gapMs: 2 })
  const folder = t.testdir({ 'runs.csv': 'of an earlier run' })
  const [csv, every] = [join(folder, 'runs.csv'), join(folder, 'requests.csv')]
  const tables = ['--csv', csv, '--requests-csv', every]
  const load = ['--concurrency', '1,2', '--seed', '3', '--slo', 'ttft:5s', ...small]
  const output = commandIo()
  const argv = ['--target', server.url, '--repeats', '2', '--json', ...load, ...tables]
  t.equal(await benchServe(argv, output), 0)
  const printed = linesOf<RunResult>(output.written.stdout)
  const [rows, requests] = [await readCsv(csv), await readCsv(every)]
  t.same(
    rows.map((row) => [row['clients'], row['run'], row['requests'], row['goodput %']]),
    [1, 2].flatMap((clients) => [1, 2].map((run) => [`${clients}`, `${run}`, '6', '100'])),
  )
  for (const [at, { summary }] of printed.entries()) {
    const row = rows[at] ?? {}
    t.equal(Number(row['output tokens/s']), summary.outputTokensPerSecond)
    t.equal(Number(row['E2E p95 ms']), summary.e2eMs?.p95)
    const own = requests.filter(
      ({ clients, run }) => clients === row['clients'] && run === row['run'],
    )
    t.equal(own.length, 6)
    t.equal(Math.max(...own.map((one) => Number(one['TTFT ms']))), summary.ttftMs?.max)
    t.match(own[5], { target: row['target'], request: '5', outcome: 'ok', 'output tokens': '4' })
  }
  const targets = ['--target', `a=${server.url}`, '--target', `b=${server.url}`]
  t.equal(await benchCompare([...targets, '--rounds', '1', ...load, ...tables], commandIo()), 0)
  const compared = await readCsv(csv)
  t.same(
    compared.map(({ target, clients }) => `${target} ${clients}`),
    ['a 1', 'b 1', 'a 2', 'b 2'],
  )
  t.equal((await readCsv(every)).length, 4 * 6)
  const measure = (...files: string[]) =>
    benchServe(['--target', server.url, ...load, ...files], commandIo())
  await t.rejects(measure('--csv', '/dev/full'), { message: /be written/ })
  const asked = server.received.length
  for (const file of [join(folder, 'none', 'requests.csv'), folder, '-', '', `${folder}/new/`]) {
    const message = /^--requests-csv: expected a file that can be written, got /
    await t.rejects(measure('--requests-csv', file), { code: 'invalid_configuration', message })
  }
  t.equal(server.received.length, asked, 'nothing is measured in vain')
})

t.test('serve: every field of the JSON is documented', async (t) => {
  const server = await served(t)
  const output = commandIo()
  const argv = ['--target', server.url, '--concurrency', '1', '--tenants', '2', '--slo', 'e2e:1s']
  await benchServe([...argv, '--json', ...small], output)
  const page = await readFile(
    new URL('../../../../../docs/benchmarking.md', import.meta.url),
    'utf8',
  )
  const names = (value: unknown): string[] =>
    typeof value !== 'object' || value === null
      ? []
      : Object.entries(value).flatMap(([name, inner]) =>
          Array.isArray(value) ? names(inner) : [name, ...names(inner)],
        )
  for (const name of new Set(names(linesOf(output.written.stdout)[0]))) {
    t.ok(page.includes(`\`${name}\``), name)
  }
})

t.test('serve: exit codes', async (t) => {
  const refused = await served(t, { status: 503 })
  await t.rejects(benchServe(['--target', refused.url, ...small], commandIo()), {
    code: 'target_unavailable',
    message: /failed with http_503: .*scripted/,
  })
  const dying = await served(t, { dieAfter: 10 })
  const output = commandIo()
  const argv = ['--target', dying.url, '--concurrency', '2,4', '--json', ...small]
  t.equal(await benchServe([...argv, '--requests', '500'], output), 3)
  const runs = linesOf<RunResult>(output.written.stdout)
  t.equal(runs.length, 1, 'no further load')
  t.match(runs[0], { stopped: 'target-gone', summary: { requests: { ok: 7 } } })
  t.ok(Object.keys(runs[0]!.failures).includes('connection'))

  const slow = await served(t, { gapMs: 10 })
  const controller = new AbortController()
  const interrupted = commandIo(controller.signal)
  const running = benchServe(
    ['--target', slow.url, '--concurrency', '2', '--json', ...small, '--requests', '5000'],
    interrupted,
  )
  while (slow.received.length < 12) await new Promise(setImmediate)
  controller.abort()
  t.equal(await running, 130)
  const [kept] = linesOf<RunResult>(interrupted.written.stdout)
  t.equal(kept!.stopped, 'interrupted')
  t.ok(kept!.summary.requests.ok > 0 && kept!.summary.requests.interrupted > 0)

  const failing = await served(t, { failAfter: 3 })
  const nothing = commandIo()
  const flags = ['--target', failing.url, '--concurrency', '1', '--json', ...small]
  t.equal(await benchServe(flags, nothing), 1)
  t.match(linesOf<RunResult>(nothing.written.stdout)[0], {
    summary: { requests: { total: 6, ok: 0, failed: 6, errors: { http_500: 6 } } },
    warnings: ['no request succeeded'],
  })
})

t.test('wrong command lines', async (t) => {
  const target = ['--target', 'http://127.0.0.1:9']
  const cases: readonly (readonly [string[], RegExp])[] = [
    [[], /^--target is missing/],
    [['--target', 'localhost'], /^--target: expected a URL .*got "localhost"/],
    [[...target, '--conurrency', '1'], /^unknown flag --conurrency; did you mean --concurrency\?/],
    [[...target, '--concurrency', '1,x'], /^--concurrency: expected a whole number from 1/],
    [[...target, '--rate', '0'], /^--rate: expected a number above 0, got "0"/],
    [[...target, '--rate', '1', '--concurrency', '1'], /expected one of them, got both/],
    [[...target, '--duration', '10'], /^--duration: expected a time such as/],
    [[...target, '--slo', 'ttft=1s'], /^--slo: expected limits such as ttft:500ms,.*got "ttft=1s"/],
    [[...target, '--slo', 'ttfb:1s'], /^--slo: expected ttft, itl, tpot or e2e, got "ttfb:1s"/],
    [[...target, '--api', 'vllm'], /^--api: expected cllm, .*got "vllm"/],
    [[...target, '--extra-body', '[]'], /^--extra-body: expected a JSON object/],
    [[...target, '--input-len'], /^--input-len: expected LENGTHS/],
    [[...target, '--seed', '--json'], /^--seed: expected N/],
    [[...target, '--temperature', 'hot'], /^--temperature: expected a number from 0 up, got "hot"/],
    [[...target, '--tenants', 'a=x'], /^--tenants: expected a number above 0/],
    [[...target, 'more'], /^unexpected argument "more"/],
  ]
  for (const [argv, message] of cases) {
    await t.rejects(benchServe(argv, commandIo()), { code: 'invalid_configuration', message })
  }
  const two = ['--target', 'a=http://127.0.0.1:9', '--target', 'b=http://127.0.0.1:9']
  const compared: readonly (readonly [string[], RegExp])[] = [
    [two.slice(2), /expected two or more/],
    [[...two, ...two], /two targets have the same name/],
    [['--target', 'http://a'], /expected name=URL or name=cmd:COMMAND/],
    [['--target', 'a=cmd:serve'], /\{port\} is missing/],
    [[...two, '--api', 'c=ollama'], /there is no target "c"/],
  ]
  for (const [argv, message] of compared) {
    await t.rejects(benchCompare(argv, commandIo()), { code: 'invalid_configuration', message })
  }
  for (const command of [benchServe, benchCompare]) {
    const output = commandIo()
    t.equal(await command(['--help'], output), 0)
    t.match(output.written.stdout, /Usage: cllm bench .*--target/s)
  }
})

const program = fileURLToPath(new URL('scripted-server-process.mjs', import.meta.url))

t.test('compare: commands on free ports, in turns, the same requests', async (t) => {
  const commandOf = (gap: number) =>
    `cmd:${JSON.stringify(process.execPath)} ${program} {port} ${gap}`
  const output = commandIo()
  const targets = ['--target', `slow=${commandOf(40)}`, '--target', `fast=${commandOf(2)}`]
  const apis = ['--api', 'llama-server', '--api', 'fast=cllm']
  const load = ['--concurrency', '2', '--rounds', '3', '--seed', '3', ...small]
  const argv = [...targets, ...apis, ...load, '--output-len', '6', '--json']
  t.equal(await benchCompare(argv, output), 0)
  const lines = linesOf<RunResult | CompareResult>(output.written.stdout)
  const runs = lines.slice(0, -1) as RunResult[]
  t.same(
    runs.map(({ target, repeat }) => `${target.name} ${target.api} ${repeat}`),
    [
      'slow llama-server 1',
      'fast cllm 1',
      'fast cllm 2',
      'slow llama-server 2',
      'slow llama-server 3',
      'fast cllm 3',
    ],
  )
  const result = lines.at(-1) as CompareResult
  t.match(result, { kind: 'compare', baseline: 'slow', rounds: 3, seed: 3 })
  // A busy machine changes the measured times, so they are not bounded from above: the result must
  // follow from the runs that were printed, and five pauses of 40 ms cannot look shorter.
  const [compared] = result.loads
  const runsOf = (name: string) =>
    runs
      .filter(({ target }) => target.name === name)
      .toSorted((one, other) => one.repeat - other.repeat)
  const byTarget = new Map(['slow', 'fast'].map((name) => [name, runsOf(name)]))
  t.same(compared, JSON.parse(JSON.stringify(compareRuns(compared!.load, byTarget))))
  t.ok(compared!.figures.slow!['E2E p50']!.mean >= 5 * 39)
  t.same(Object.keys(compared!.ratios), ['fast'])
  const { 'ITL p50': itl, output: throughput } = compared!.ratios.fast!
  t.match([itl, throughput], [{ count: 3 }, { count: 3 }])
  t.ok(itl!.low! <= itl!.mean && itl!.mean <= itl!.high!)
  for (const { target } of runs) await t.rejects(fetch(target.url), 'it is stopped')
})

t.test('compare: one server under two names', async (t) => {
  const server = await served(t, { gapMs: 3 })
  const output = commandIo()
  const targets = ['--target', `a=${server.url}`, '--target', `b=${server.url}`]
  const report = join(t.testdir({}), 'report.html')
  const argv = [...targets, '--concurrency', '2', '--rounds', '4', ...small, '--report', report]
  t.equal(await benchCompare(argv, output), 0)
  t.match(output.written.stdout, /2 clients, mean \(95 % interval\)\n.* a │ +b │ +b \/ a │/s)
  // A busy machine may make a difference.
  t.match(output.written.stdout, /E2E p50 ms .* (within the noise|better|worse) /)
  t.notMatch(output.written.stdout, 'no difference', 'the table says it')
  const prompts = server.received
    .map(({ prompt }) => prompt)
    .filter((text) => !text.startsWith('Hello'))
  t.equal(prompts.length, new Set(prompts).size + 2, 'only those that warm up come twice')
  t.match(await readFile(report, 'utf8'), /<h2>2 clients<\/h2>/)
})

t.test('compare: a target that stops in the middle', async (t) => {
  const [whole, dying] = [await served(t), await served(t, { dieAfter: 12 })]
  const targets = ['--target', `whole=${whole.url}`, '--target', `dying=${dying.url}`]
  const output = commandIo()
  const argv = [...targets, '--concurrency', '2', ...small, '--requests', '30']
  t.equal(await benchCompare(argv, output), 3)
  t.match(output.written.stdout, /dying, 2 clients, run 1\n\d+ requests: 9 ok, \d+ failed/)
  t.notMatch(output.written.stdout, 'interval', 'no round is complete')
  t.match(output.written.stdout, /warning: dying, 2 clients: failed with connection: /)
})

t.test('compare: what cannot be started is told with what it wrote', async (t) => {
  const broken = `b=cmd:echo no model here {port}; exit 3`
  const server = await served(t)
  await t.rejects(benchCompare(['--target', `a=${server.url}`, '--target', broken], commandIo()), {
    code: 'target_unavailable',
    message: /ended with code 3; it wrote:\nno model here \d+/,
  })
  const mute = `b=cmd:exec node -e "require('net').createServer(() => {}).listen({port})"`
  const targets = ['--target', `a=${server.url}`, '--target', mute, '--start-timeout', '500ms']
  await t.rejects(benchCompare(targets, commandIo()), { message: /did not answer within 500 ms/ })
  const leaving = new AbortController()
  const comparison = benchCompare(targets.slice(0, 4), commandIo(leaving.signal))
  leaving.abort('SIGINT')
  t.equal(await comparison.catch((error: unknown) => error), 'SIGINT', 'no failure of a target')
})

t.test('one exit code for several runs', async (t) => {
  const ok = { ok: 3, stopped: null } as const
  t.equal(exitCodeOf([ok, ok]), 0)
  t.equal(exitCodeOf([ok, { ok: 0, stopped: null }]), 1)
  t.equal(exitCodeOf([ok, { ok: 1, stopped: 'target-gone' }]), 3)
  t.equal(exitCodeOf([{ ok: 0, stopped: 'target-gone' }]), 1)
  t.equal(exitCodeOf([ok, { ok: 0, stopped: 'interrupted' }]), 130)
})

const policies = await policiesOf([])

const tuningHost = async () => ({
  openBackend: () => Promise.reject(new Error('no model here')),
  serve: () => Promise.reject(new Error('no model here')),
  policies,
})

const run = async (...argv: string[]) => {
  let stdout = ''
  const output = { write: (text: string) => void (stdout += text) }
  const signal = new AbortController().signal
  const io = { stdout: output, stderr: { write: () => undefined }, env: {}, signal }
  const code = await tune(argv, io, tuningHost)
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
  const csv = join(t.testdir(), 'tried.csv')
  const json = await run(...argv, '--json', '--csv', csv)
  const { front, yaml } = JSON.parse(json.stdout) as { front: SimulationResult[]; yaml: string }
  t.not(front[0]?.policy, 'static+fcfs')
  t.match(yaml, front[0]?.policy)
  t.equal(front[0]?.requests, 80)
  t.same(
    (await readCsv(csv)).map(({ policy, requests }) => `${policy} ${requests}`).toSorted(),
    ['chunked', 'continuous', 'static'].flatMap((name) => [`${name}+fcfs 30`, `${name}+fcfs 80`]),
    'each candidate, with a part of the load and with all of it',
  )
  const ranOf = async (...more: string[]) => {
    const { stdout } = await run(...argv, ...more, '--seeds', '3', '--csv', csv, '--keep', '2')
    t.match(stdout, / [\d.,]+ \([\d.,]+ to [\d.,]+\) │/)
    return (await readCsv(csv)).map(({ requests, seed }) => `${requests} with ${seed}`)
  }
  const whole = ['1', '2', '3'].flatMap((seed) => [`80 with ${seed}`, `80 with ${seed}`])
  t.same(await ranOf(), [...policies.map(() => '30 with 1'), ...whole], 'the best, with each seed')
  t.same(await ranOf('--sample', '80'), ['80 with 1', ...whole], 'nothing runs twice')
  await t.rejects(run('--rate', '1'), { message: /--slo is missing/ })
})

const fake = () => new FakeBackend({ slots: 4, contextSize: 256, batchSize: 128 })

const calibrationHost =
  (backend = fake) =>
  async () => ({
    openBackend: async () => backend(),
    serve: async () => {
      const engine = createEngine({ backend: fake(), policy: createPolicy('adaptive+fcfs') })
      const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
      return { url: new URL('http://nowhere'), client, close: () => client.close() }
    },
    policies,
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
      calibrationHost(() => backend),
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
  await t.rejects(benchCalibrate(['--model', 'fake'], commandIo(), calibrationHost()), {
    message: /--out is missing/,
  })
  await t.rejects(benchCalibrate([], commandIo(), calibrationHost()), {
    message: /--model is missing/,
  })
})

t.test("engine: llama-bench's and llama-batched-bench's formats", async (t) => {
  const run = async (...more: string[]) => {
    const output = commandIo()
    const argv = ['-m', 'fake', '-p', '20', '-n', '5', '--parallel', '1,3', '-r', '2', ...more]
    t.equal(await benchEngine(argv, output, calibrationHost()), 0)
    return output.written.stdout
  }
  const table = await run()
  t.match(table, '| model | size | params | backend | test | t/s |')
  t.match(table, /pp20 \| \d+\.\d\d ± \d+\.\d\d \|/)
  t.match(table, /tg5 @ d20 × 3 \|/)
  t.match(JSON.parse(await run('-o', 'json')), [
    { n_prompt: 20, n_gen: 0, n_depth: 0, n_parallel: 1, samples_ns: { length: 2 } },
    { n_prompt: 0, n_gen: 5, n_depth: 20, n_parallel: 1 },
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

  const loads = calibrationHost(() => fail('a model is loaded for a policy that there is not'))
  await t.rejects(benchEngine(['-m', 'fake', '--policy', 'none'], commandIo(), loads), {
    code: 'invalid_policy',
  })

  const backend = fake()
  const steps: number[] = []
  const step = backend.step.bind(backend)
  backend.step = async (items, ...more) => {
    steps.push(items.reduce((sum, { tokens }) => sum + tokens.length, 0))
    return await step(items, ...more)
  }
  const argv = ['-m', 'fake', '-p', '20', '-n', '2', '-r', '1']
  t.equal(
    await benchEngine(
      argv,
      commandIo(),
      calibrationHost(() => backend),
    ),
    0,
  )
  t.same(steps, [20, 1, 1, 20, 1, 1], 'as many passes as tokens, as llama-bench has')
})

t.test(
  'policies are measured with the engine of a server, all else with as little as can be',
  (t) => {
    const model = { name: 'tiny', path: '/tiny.gguf', spec: '/tiny.gguf' }
    const sizes = { slots: 3, contextSize: undefined, batchSize: 64, threads: 2 }
    const asked = { model: model.spec, ...sizes, gpu: 'off', policy: 'adaptive+fcfs' } as const
    const settingsOf = (loaded: LoadedConfig) =>
      toEngineSettings(loaded, { ...model, settings: {} })
    const served = settingsOf(loadConfig({ argv: ['--model', model.spec], env: {} }))
    const { options, cache, backend } = settingsOf(hostedConfig({ ...asked, asServed: true }, []))
    t.same([options, cache], [served.options, served.cache])
    t.match(options, { speculative: 'auto' })
    t.same(backend, { ...served.backend, slots: 3, batchSize: 64, threads: 2, gpu: 'off' })
    const bare = settingsOf(hostedConfig(asked, []))
    t.match([bare.options, bare.cache], [{ speculative: 'off' }, { ram: 0 }])
    const guessing = settingsOf(hostedConfig({ ...asked, speculates: true }, []))
    t.match([guessing.options, guessing.cache], [{ speculative: 'auto' }, { ram: 0 }])
    t.end()
  },
)
