import { writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { recordedLoad, simulatePolicy, syntheticDataset, type SimulationResult } from '@cllm/bench'
import type { Recording } from '@cllm/core'
import { createPolicy } from '@cllm/scheduler'
import { builtInMachines, type MachineModel, recordedMachine } from '@cllm/simulation'
import { run as simulate } from '../../../src/commands/bench/simulate.js'
import { readCsv } from '../../../../bench/test/read-csv.js'
import { commandIo } from '../../inside.js'

const run = async (argv: string[]) => {
  const output = commandIo()
  const code = await simulate(argv, output)
  return { code, ...output.written }
}

const results = ({ stdout }: { stdout: string }) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as SimulationResult)

const azure = `TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:00:00.0000000,300,20
2023-11-16 18:00:00.0100000,90,10
2023-11-16 18:00:00.5000000,20,1
2023-11-16 18:00:01.0000000,700,30
`

/** Two that share 1,024 tokens, and another one. */
const mooncake = [
  { timestamp: 0, input_length: 1100, output_length: 5, hash_ids: [1, 2, 3] },
  { timestamp: 5000, input_length: 1200, output_length: 5, hash_ids: [1, 2, 4] },
  { timestamp: 9000, input_length: 600, output_length: 5, hash_ids: [7, 8] },
]
  .map((line) => JSON.stringify(line))
  .join('\n')

const files = (t: Test) => {
  const folder = t.testdir({ 'a.csv': azure, 'm.jsonl': mooncake })
  return { azure: join(folder, 'a.csv'), mooncake: join(folder, 'm.jsonl'), folder }
}

/** Steps of 10 ms, and 1 ms for each token. */
const plain: MachineModel = {
  name: 'plain',
  about: 'for a test',
  stepMs: (shares) => 10 + shares.reduce((sum, { tokens }) => sum + tokens, 0),
  copyMs: () => 1,
  chunkMultiple: 1,
}

const setup = {
  machine: plain,
  slots: 4,
  contextSize: 1024,
  batchSize: 512,
  machines: 1,
  router: 'round-robin',
}

const lengths = (tokens: number) => ({ kind: 'fixed', tokens }) as const

t.test('a trace through several policies, the same each time', async (t) => {
  const { azure } = files(t)
  const argv = ['--trace', azure, '--json', '--slo', 'ttft:1s']
  for (const name of ['adaptive+fcfs', 'continuous+sjf', 'chunked+fcfs:{"tokenBudget":64}']) {
    argv.push('--policy', name)
  }
  const first = await run(argv)
  t.equal(first.code, 0)
  t.equal(first.stderr, '')
  const lines = results(first)
  t.match(lines, [
    { policy: 'adaptive+fcfs', load: { kind: 'trace' }, dataset: 'azure', slots: 16, seed: 1 },
    { policy: 'continuous+sjf', cost: { name: 'gpu-8b' }, contextSize: 1024, requests: 4 },
    { policy: 'chunked+fcfs', policyOptions: { tokenBudget: 64 } },
  ])
  for (const { summary } of lines) {
    t.match(summary.requests, { total: 4, ok: 4, failed: 0 })
    t.equal(summary.generatedTokens, 61)
    t.equal(summary.promptTokens, 1110)
    t.ok(summary.goodput)
  }
  const again = await run(argv)
  const withoutWall = (text: string) => text.replaceAll(/"wall_[a-z]+":[\d.]+/g, '')
  t.equal(withoutWall(again.stdout), withoutWall(first.stdout))
})

t.test('times are those of the cost model', async (t) => {
  const load = {
    shape: { kind: 'closed', concurrency: 1, rampMs: 0 } as const,
    dataset: syntheticDataset({ inputLengths: lengths(50), outputLengths: lengths(3), seed: 1 }),
    seed: 1,
    requests: 2,
  }
  const { records } = await simulatePolicy({
    ...setup,
    load,
    policy: 'continuous+fcfs',
    createPolicy: () => createPolicy('continuous+fcfs'),
  })
  t.match(records, [
    { sentMs: 0, arrivalsMs: [60, 71, 82], endMs: 82, outcome: 'ok' },
    { sentMs: 82, arrivalsMs: [142, 153, 164], endMs: 164 },
  ])
})

t.test('shared blocks of a Mooncake trace are computed once', async (t) => {
  const { mooncake } = files(t)
  const argv = ['--trace', mooncake, '--json', '--policy', 'adaptive+fcfs']
  const [alone] = results(await run(argv))
  t.equal(alone?.summary.cachedTokens, 1024)
  const on = async (router: string) => {
    const [result] = results(await run([...argv, '--machines', '2', '--router', router]))
    return result?.summary.cachedTokens
  }
  t.equal(await on('round-robin'), 0, 'the second goes to the other machine')
  t.equal(await on('prefix-wait'), 1024)
  t.equal(await on('least-loaded'), 0, 'both are idle: each in its turn')
})

t.test('a trace that is asked for more begins anew, later and with other prompts', async (t) => {
  const { mooncake } = files(t)
  const [result] = results(await run(['--trace', mooncake, '--requests', '6', '--json']))
  t.equal(result?.summary.cachedTokens, 2048)
  t.ok((result?.summary.durationMs ?? 0) > 20_000)
  t.match(result?.warnings, [/began anew 1 times/])
})

t.test('what does not fit a slot is counted and told', async (t) => {
  const { azure } = files(t)
  const argv = ['--trace', azure, '--ctx-size', '305']
  const [result] = results(await run([...argv, '--json']))
  t.match(result?.summary.requests, { ok: 3, failed: 1, errors: { prompt_too_long: 1 } })
  t.match(result?.warnings, [/1 prompts are longer than a slot/, /1 answers were cut/])
  const { stdout } = await run(argv)
  t.match(stdout, '16 slots of 305 tokens')
  t.match(stdout, 'failed with prompt_too_long')
})

t.test('the help names the loads that a simulation has', async (t) => {
  const { stdout } = await run(['--help'])
  t.match(stdout, /--concurrency N +Closed loop: number of clients \(.*else 32\)\n/)
  t.match(stdout, /--rate R +Open loop: requests per second\n/)
  t.match(await run(['--output-len', '1']), { stdout: /^1000 requests of synthetic, 32 clients, / })
})

t.test('wrong input', async (t) => {
  const { azure, mooncake, folder } = files(t)
  const bad = join(t.testdir({ 'bad.csv': `${azureHead}x,1,2\n`, 'cost.json': '{"schema":2}' }))
  const cases: [string[], string | RegExp][] = [
    [['--trace', join(bad, 'bad.csv')], 'bad.csv:2: TIMESTAMP'],
    [['--trace', join(folder, 'none')], 'there is no such file'],
    [['--trace', azure, '--dataset', 'synthetic'], '--trace and --dataset'],
    [['--rate', '1', '--concurrency', '2'], '--concurrency and --rate'],
    [['--rate', '1,2'], 'expected one value'],
    [['--requests', '1e9'], '--requests: expected a whole number from 1 to 1000000, got "1e9"'],
    [['--input-len', '900000000'], 'of synthetic: expected .* at most 10000000 tokens, got 9000'],
    [['--output-len', 'lognormal:9,90'], 'at most 10000000 tokens, got 512 and'],
    [['--trace', mooncake, '--policy', 'chunked'], 'There is no policy "chunked"'],
    [['--policy', 'chunked+fcfs:{x'], 'expected NAME or NAME:{JSON}'],
    [['--policy', 'chunked+fcfs:{"x":1}'], 'Wrong options for'],
    [['--cost', join(bad, 'cost.json')], 'cost.json: kind'],
    [['--cost', 'fast'], 'fast: there is no such file: expected gpu-8b, h200-8b, two-cores, or'],
    [['--router', 'best'], 'router: expected one of prefix-wait, round-robin, least-loaded'],
    [['--router', 'kv:{"scale":"x"}'], 'router "kv": option "scale"'],
    [['--router', 'kv:{"scales":1}'], 'there is no option "scales" .*; did you mean "scale"'],
    [['--machines', '2', '--drain', '2@5'], 'expected machines from 0 to 1, got 2'],
    [['--drain', 'x'], 'expected a machine and seconds, such as 3@60'],
    [['--draft', '0.1'], 'expected --speculative SHARE with it'],
    [['--images', '2,100,50'], 'expected a share, tokens and milliseconds'],
    [['--images', '0.5,100,Infinity'], 'expected a share, tokens and milliseconds'],
    [['--images', '0.5,100,50,1'], 'expected a share, tokens and milliseconds'],
  ]
  for (const [argv, message] of cases) await t.rejects(run(argv), { message: new RegExp(message) })
})

const azureHead = 'TIMESTAMP,ContextTokens,GeneratedTokens\n'

t.test('a policy that fails is told and counted', async (t) => {
  const load = {
    shape: { kind: 'closed', concurrency: 2, rampMs: 0 } as const,
    dataset: syntheticDataset({ inputLengths: lengths(5), outputLengths: lengths(3), seed: 1 }),
    seed: 1,
    requests: 2,
  }
  const createPolicy = () => ({
    name: 'broken',
    plan() {
      throw new Error('no plan')
    },
  })
  const { result } = await simulatePolicy({ ...setup, load, policy: 'broken', createPolicy })
  t.match(result, {
    summary: { requests: { ok: 0, failed: 2, errors: { policy_failed: 2 } } },
    failures: { policy_failed: /broken.*no plan/ },
    warnings: ['no request succeeded'],
  })
})

t.test('open loop, tenants, report and timeline', async (t) => {
  const folder = t.testdir()
  const [report, trace] = [join(folder, 'r.html'), join(folder, 't.json')]
  const load = ['--rate', '20', '--requests', '60', '--tenants', '3', '--output-len', '8']
  const out = ['--report', report, '--trace-out', trace, '--policy', 'adaptive+fair']
  t.equal((await run([...load, ...out])).code, 0)
  const html = await readFile(report, 'utf8')
  t.match(html, 'gpu-8b')
  t.equal(html.match(/<figure/g)?.length, 8)
  const { traceEvents } = JSON.parse(await readFile(trace, 'utf8')) as {
    traceEvents: { ph: string; name: string }[]
  }
  t.equal(traceEvents.filter(({ name }) => name.startsWith('request ')).length, 60)
  t.ok(traceEvents.some(({ ph }) => ph === 'C'))
})

t.test('several seeds and policies: a row for each policy, with intervals, and CSV', async (t) => {
  const folder = t.testdir()
  const [csv, every] = [join(folder, 'r.csv'), join(folder, 'q.csv')]
  const load = ['--rate', '20', '--requests', '40', '--output-len', '8', '--seed', '5']
  const named = ['--policy', 'chunked+fcfs', '--policy', 'chunked+sjf']
  const tables = ['--csv', csv, '--requests-csv', every]
  const { stdout, stderr } = await run([...load, ...named, '--seeds', '3', ...tables])
  t.equal(stderr, '')
  t.match(stdout, /│ chunked\+fcfs +│ +40 │ +0 │ +[\d.,]+ \([\d.,]+ to [\d.,]+\) │/)
  const rows = await readCsv(csv)
  t.same(
    rows.map((row) => [row['policy'], row['options'], row['rate /s'], row['seed'], row['ok']]),
    ['fcfs', 'sjf'].flatMap((order) =>
      ['5', '6', '7'].map((seed) => [`chunked+${order}`, '{}', '20', seed, '40']),
    ),
  )
  t.equal(new Set(rows.slice(0, 3).map((row) => row['TTFT p90 ms'])).size, 3, 'each seed differs')
  t.ok(rows.every((row) => Number(row['busy %']) > 0))
  t.match(Object.keys(rows[0]!).slice(-2), ['errors', 'options'], 'what has commas stands last')
  const requests = await readCsv(every)
  t.equal(requests.length, 2 * 3 * 40)
  const own = requests.filter((one) => one['policy'] === 'chunked+sjf' && one['seed'] === '6')
  t.same([...new Set(own.map((one) => one['outcome']))], ['ok'])
  const worst = Math.max(...own.map((one) => Number(one['E2E ms'])))
  t.equal(worst, Number(rows[4]?.['E2E max ms']), 'both files tell the same')
  const same = await run(['--trace', files(t).azure, ...named, '--seeds', '2'])
  t.match(same.stderr, /^note: every seed gave the same figures/)
  const interrupted = commandIo(AbortSignal.abort())
  await simulate([...load, '--seeds', '3', '--json'], interrupted)
  t.equal(interrupted.written.stderr, '', 'seeds that did not run are not compared')
})

t.test('the built-in machines get slower with work', (t) => {
  for (const { stepMs, copyMs } of builtInMachines.values()) {
    const share = { slot: 0, tokens: 1, context: 100 }
    const one = stepMs([share])
    t.ok(stepMs([share, { ...share, slot: 1 }]) > one)
    t.ok(stepMs([{ ...share, context: 5000 }]) > one)
    t.ok(stepMs([{ ...share, tokens: 512 }]) > one)
    t.ok(copyMs(1000) > copyMs(1))
  }
  t.end()
})

/** Steps of 10 ms and 1 ms for each token, and what came meanwhile. */
function recording(): Recording {
  const steps: Recording['steps'][number][] = []
  let atMs = 0
  const step = (decode: number, chunks: [number, number][]) => {
    const ms = 10 + decode + chunks.reduce((sum, [tokens]) => sum + tokens, 0)
    steps.push({ atMs, ms, decodeMs: ms, sampleMs: 0, decode, context: 50 * decode, chunks })
    atMs += ms + 2
  }
  for (let round = 0; round < 20; round++) {
    step(0, [[40 + 8 * (round % 5), 0]])
    step(1 + (round % 4), [])
    step(4, [])
  }
  const asked = { maxTokens: 30, tenant: 'a' }
  const done = { end: 'done', endMs: 500 }
  return {
    schema: 1,
    kind: 'recording',
    reason: 'asked',
    beginsAt: 1_700_000_000_000,
    durationMs: 5000,
    model: 'tiny',
    limits: { slots: 2, contextSize: 256, batchSize: 64 },
    policy: 'chunked+fcfs',
    policyOptions: { tokenBudget: 32 },
    blockTokens: 16,
    engine: [{ atMs: 0, change: 'ready' }],
    steps,
    arrivals: [
      { id: 'old', atMs: -100, promptTokens: 40, ...asked, blocks: [0, 1], tokens: 4, ...done },
      { id: 'same', atMs: 900, promptTokens: 45, ...asked, blocks: [0, 1], tokens: 6, ...done },
      { id: 'refused', atMs: 950, blocks: [], tokens: 0, end: 'queue_full', endMs: 1 },
      {
        id: 'left',
        atMs: 2000,
        promptTokens: 20,
        ...asked,
        tenant: 'b',
        blocks: [2],
        tokens: 3,
        end: 'cancelled',
        endMs: 100,
      },
      {
        id: 'late',
        atMs: 3000,
        promptTokens: 20,
        ...asked,
        blocks: [3],
        tokens: 3,
        end: 'timeout',
        endMs: 80,
      },
      { id: 'open', atMs: 4000, promptTokens: 9, ...asked, blocks: [], tokens: 2 },
    ],
  }
}

t.test('a recording is replayed, the same to the byte', async (t) => {
  const original = recording()
  const broken = { ...original, arrivals: [{ id: 'x' }] }
  const few = { ...original, steps: original.steps.slice(0, 5) }
  const none = { ...original, arrivals: original.arrivals.filter(({ id }) => id === 'refused') }
  const folder = t.testdir({
    'r.json': JSON.stringify(original),
    'broken.json': JSON.stringify(broken),
    'few.json': JSON.stringify(few),
    'none.json': JSON.stringify(none),
    'next.json': JSON.stringify({ ...original, schema: 2 }),
  })
  const file = join(folder, 'r.json')
  const first = await run(['--replay', file, '--json'])
  t.equal(first.code, 0, first.stderr)
  t.equal((await run(['--replay', file, '--json'])).stdout, first.stdout)
  const [result] = results(first)
  t.match(result, {
    policy: 'chunked+fcfs',
    policyOptions: { tokenBudget: 32 },
    load: { kind: 'trace' },
    requests: 5,
    slots: 2,
    contextSize: 256,
    batchSize: 64,
    cost: { name: 'recorded', about: /60 steps of tiny/ },
    failures: { timeout: /./ },
  })
  t.notOk('wall_ms' in result!)
  t.match(result?.summary.requests, { ok: 3, failed: 1, cancelled: 1 })
  t.notOk('cancelled' in result!.failures, 'its client left')
  t.equal(result?.summary.cachedTokens, 32, 'two blocks were shared')
  t.same(
    result?.summary.tenants.map(({ tenant }) => tenant),
    ['a', 'b'],
  )

  const machine = recordedMachine(original, file)
  const share = (tokens: number) => [{ slot: 0, tokens, context: 50 }]
  t.ok(Math.abs(machine.stepMs(share(60)) - 72) < 2, String(machine.stepMs(share(60))))
  t.ok(Math.abs(machine.stepMs(share(1)) - 13) < 1, String(machine.stepMs(share(1))))

  const two = {
    ...original,
    engines: 2,
    steps: original.steps.flatMap((step) => [
      { ...step, engine: 0 },
      { ...step, atMs: step.atMs + 1, engine: 1 },
    ]),
  }
  const apart = recordedMachine(two, file).stepMs(share(60)) - machine.stepMs(share(60))
  t.ok(Math.abs(apart) < 0.1, 'the pauses between steps are those of each engine')
  const twoFile = join(folder, 'two.json')
  writeFileSync(twoFile, JSON.stringify(two))
  t.match(results(await run(['--replay', twoFile, '--json'])), [{ machines: 2, slots: 2 }])
  t.match(results(await run(['--replay', twoFile, '--json', '--machines', '1'])), [{ machines: 1 }])

  const dataset = recordedLoad(original, file)
  const { request } = dataset.item(2)
  t.same(request, { tenant: 'b', cancelAfterMs: 100 })
  t.same(
    [0, 1, 2, 3, 4].map((index) => dataset.item(index).atMs),
    [0, 1000, 2100, 3100, 4100],
  )

  const others = ['--policy', 'continuous+sjf', '--policy', 'adaptive+edf', '--slots', '1']
  const more = results(await run(['--replay', file, '--json', ...others, '--cost', 'two-cores']))
  t.same(
    more.map(({ policy, slots, cost }) => [policy, slots, cost.name]),
    [
      ['continuous+sjf', 1, 'two-cores'],
      ['adaptive+edf', 1, 'two-cores'],
    ],
  )
  const wrong: [string, RegExp][] = [
    ['broken.json', /broken\.json: arrivals\.0\.atMs: /],
    ['few.json', /few\.json: has 5 steps, too few.*--cost/],
    ['none.json', /none\.json: has no request that was taken in/],
    ['next.json', /next\.json: schema: .*1/],
    ['missing.json', /missing\.json: there is no such file/],
  ]
  for (const [name, message] of wrong) {
    const asked = run(['--replay', join(folder, name)])
    await t.rejects(asked, { code: 'invalid_dataset', message }, name)
  }
  const both = run(['--replay', file, '--dataset', 'synthetic'])
  await t.rejects(both, { code: 'invalid_configuration' })
})

t.test(
  "a replay has the server's pool of cells, and warns of drafts that it leaves out",
  async (t) => {
    const original = recording()
    const [first, second, ...more] = original.steps
    const drafts = { sequences: 1, tokens: 8, accepted: 6 }
    const [, one] = original.arrivals
    const pooled = {
      ...original,
      limits: { ...original.limits, kvTokens: 256 },
      steps: [first!, { ...second!, drafts }, ...more],
      arrivals: ['a', 'b'].map((id) => ({
        ...one!,
        id,
        atMs: 0,
        blocks: [],
        promptTokens: 150,
        tokens: 60,
        endMs: 2000,
        end: 'done',
      })),
    }
    const { limits: _, ...rest } = pooled
    const folder = t.testdir({
      'pooled.json': JSON.stringify(pooled),
      'apart.json': JSON.stringify({ ...rest, limits: original.limits }),
    })
    const of = async (name: string, ...flags: string[]) =>
      results(await run(['--replay', join(folder, name), '--json', ...flags]))[0]!
    const [pool, apart] = [await of('pooled.json'), await of('apart.json')]
    t.match(pool, { kvTokens: 256, warnings: [/try --speculative 0\.75$/] })
    t.notOk('kvTokens' in apart)
    t.ok(pool.summary.durationMs > 1.3 * apart.summary.durationMs, 'one waits for the other')
    t.same((await of('pooled.json', '--speculative', '0.75')).warnings, [])
    t.match(await of('pooled.json', '--kv-tokens', '400'), { kvTokens: 400 })
  },
)

t.test('several models in turns', async (t) => {
  const argv = ['--dataset', 'agents', '--requests', '10', '--rate', '0.3', '--cost', 'gpu-8b']
  const on = async (scheduler: string) => {
    const flags = ['--models', '3', '--load-ms', '4000', '--model-scheduler', scheduler, '--json']
    const [result] = results(await run([...argv, ...flags]))
    return result!
  }
  const [lru, turns, again] = [await on('lru'), await on('turns'), await on('turns')]
  t.match(lru.models, { scheduler: 'lru', maxLoaded: 2 })
  for (const { summary } of [lru, turns]) t.equal(summary.requests.failed, 0)
  const [full] = results(await run(['--models', '2', '--requests', '60', '--json']))
  const { utilization } = full!
  t.ok(utilization > 0.5 && utilization <= 1, 'of both engines')
  t.ok((turns.swaps ?? 0) < 0.6 * (lru.swaps ?? 0), `${turns.swaps} swaps, ${lru.swaps} with lru`)
  t.same({ ...again, wall_ms: 0 }, { ...turns, wall_ms: 0 })
  const plugin = `import { defineModelScheduler, definePlugin } from '@cllm/core'
const moody = (name, decide) => defineModelScheduler({ name, doc: '-', create: () => ({ decide }) })
export default definePlugin({ name: 'moody', apiVersion: 1, register(host) {
  host.registerModelScheduler(moody('thrower', () => { throw new Error('boom') }))
  host.registerModelScheduler(moody('late', async () => { throw new Error('late') }))
  host.registerModelScheduler(moody('idler', () => ({ holdMs: Infinity })))
} })`
  const file = join(t.testdir({ 'moody.mjs': plugin }), 'moody.mjs')
  for (const [scheduler, message] of [
    ['thrower', /^The model scheduler failed: boom$/],
    ['late', /^The model scheduler failed: decide returned a promise/],
    ['idler', /^\d+ requests did not end, and nothing is ahead: /],
  ] as const) {
    const flags = ['--models', '3', '--plugin', file, '--model-scheduler', scheduler]
    await t.rejects(run([...argv, ...flags]), { code: 'policy_failed', message })
  }
  const wrong = run([...argv, '--models', '3', '--model-scheduler', 'best'])
  await t.rejects(wrong, { message: /^model scheduler: expected one of lru, turns/ })
})

t.test('images are encoded beside the steps', async (t) => {
  const load = ['--requests', '40', '--rate', '4', '--input-len', '100', '--output-len', '10']
  const of = async (...more: string[]) => results(await run([...load, '--json', ...more]))[0]!
  const plain = await of()
  const seen = await of('--images', '0.5,300,150')
  t.same(seen.images, { share: 0.5, tokens: 300, encodeMs: 150, lostShare: 0 })
  t.equal(plain.images, undefined)
  const some = (seen.summary.promptTokens - plain.summary.promptTokens) / 300
  t.ok(some > 12 && some < 28 && Number.isInteger(some), `${some} of 40 have one`)
  const added = seen.summary.ttftMs!.mean - plain.summary.ttftMs!.mean
  t.ok(added > 60 && added < 300, `${added} ms`)
  const { stdout } = await run([...load, '--images', '0.5,300,150'])
  t.match(stdout, /50 % of the requests have an image of 300 tokens, encoded in 150 ms/)
})
