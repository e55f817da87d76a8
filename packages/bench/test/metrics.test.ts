import {
  type RunRecord,
  type RunResult,
  blockMeans,
  chromeTrace,
  compareRuns,
  compareTable,
  csvOf,
  distributionOf,
  estimate,
  estimateRatio,
  estimateSlope,
  jainIndex,
  machineWarnings,
  meetsSlo,
  randomSource,
  summarize,
  warningsOf,
} from '@cllm/bench'
import { parse } from 'csv-parse/sync'
import * as fc from 'fast-check'
import t, { type Test } from 'tap'

const record = (more: Partial<RunRecord> = {}): RunRecord => ({
  index: 0,
  tenant: '',
  intendedMs: 0,
  sentMs: 1,
  arrivalsMs: [101, 111, 131],
  endMs: 141,
  outcome: 'ok',
  arrivedTokens: 3,
  usage: { promptTokens: 10, generatedTokens: 3 },
  asked: { inputTokens: 10, outputTokens: 3 },
  slowReader: false,
  ...more,
})

const near = (t: Test, actual: number | undefined, expected: number, what?: string) =>
  t.ok(Math.abs(actual! - expected) < 1e-6, `${what ?? ''} ${actual}`)

t.test('the figures of a request', async (t) => {
  const summary = summarize([record()])
  t.match(summary, {
    requests: { total: 1, ok: 1, failed: 0, cancelled: 0, interrupted: 0 },
    durationMs: 140,
    ttftMs: { count: 1, mean: 100, max: 100 },
    tpotMs: { mean: 15 },
    itlMs: { count: 2, mean: 15, max: 20 },
    e2eMs: { mean: 140 },
    sendLagMs: { mean: 1 },
    promptTokens: 10,
    generatedTokens: 3,
    stability: 1,
  })
  near(t, summary.outputTokensPerSecond, 3000 / 140)
  near(t, summary.totalTokensPerSecond, 13_000 / 140)
  // Two tokens in a chunk: ITL sees chunks, TPOT the tokens that the server told.
  const chunky = summarize([record({ usage: { generatedTokens: 7 } })])
  t.match(chunky, { itlMs: { mean: 15 }, tpotMs: { mean: 5 }, generatedTokens: 7 })
  // Nothing is made up where nothing was measured.
  t.match(summarize([]), { durationMs: 0, requestsPerSecond: 0, ttftMs: undefined })
  t.equal(summarize([record({ arrivalsMs: [101], arrivedTokens: 1, usage: {} })]).tpotMs, undefined)
})

t.test('counts add up, whatever happened', async () => {
  const outcomes = ['ok', 'failed', 'cancelled', 'interrupted'] as const
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...outcomes)), (all) => {
      const { requests, tenants } = summarize(
        all.map((outcome, index) =>
          record({
            outcome,
            tenant: String(index % 2),
            ...(outcome === 'failed'
              ? { failure: { kind: `http_${index % 3}`, message: '' } }
              : {}),
          }),
        ),
      )
      const { total, ok, failed, cancelled, interrupted, errors } = requests
      const kinds = Object.values(errors).reduce((sum, count) => sum + count, 0)
      const own = tenants.reduce((sum, tenant) => sum + tenant.requests, 0)
      return total === ok + failed + cancelled + interrupted && kinds === failed && own === total
    }),
  )
})

t.test('percentiles, and slow readers apart', async (t) => {
  const values = Array.from({ length: 1000 }, (_, index) => 1000 - index)
  const { p50, p90, p99, max, mean, count } = distributionOf(values)!
  t.same([p50, p90, p99, max, mean, count], [500.5, 900.1, 990.01, 1000, 500.5, 1000])
  t.equal(distributionOf([]), undefined)
  const slow = record({ slowReader: true, arrivalsMs: [101, 1101, 2101] })
  t.match(summarize([record(), slow]), {
    itlMs: { count: 2, max: 20 },
    ttftMs: { count: 2 },
    e2eMs: { count: 1 },
  })
})

t.test('conversations, and what is asked beside them', async (t) => {
  t.equal(summarize([record(), record({ index: 1 })]).programMs, undefined, 'there is none')
  const calls = [
    record({ program: 0 }),
    record({ index: 1, program: 0, sentMs: 500, endMs: 600 }),
    record({ index: 2, program: 2, sentMs: 50, endMs: 70 }),
    record({ index: 3, program: 3 }),
    record({ index: 4, program: 3, outcome: 'failed' }),
    record({ index: 5, program: 5 }),
    record({ index: 6, program: 5, endMs: 150, goesOn: true }),
    record({ index: 7, program: 7, goesOn: true }),
    record({ index: 8, program: 8, slowReader: true }),
  ]
  const { programMs, aloneMs } = summarize(calls)
  t.match(programMs, { count: 1, mean: 599 }, 'from its first call to the end of its last one')
  t.equal(
    summarize(calls.slice(5), {}).programMs,
    undefined,
    'what the run cut off is no whole one',
  )
  t.match(aloneMs, { count: 1, mean: 20 })
})

t.test('service levels', async (t) => {
  t.equal(meetsSlo(record(), { ttft: 100, itl: 20, tpot: 15, e2e: 140 }), true)
  for (const slo of [{ ttft: 99 }, { itl: 19 }, { tpot: 14 }, { e2e: 139 }]) {
    t.equal(meetsSlo(record(), { ttft: 100, ...slo }), false, JSON.stringify(slo))
  }
  t.equal(meetsSlo(record({ outcome: 'failed' }), { ttft: 1e9 }), false)
  const slow = record({ slowReader: true })
  t.equal(meetsSlo(slow, { itl: 1, tpot: 1, e2e: 1 }), true, 'its own reading is no fault')
  t.equal(meetsSlo(slow, { ttft: 1 }), false)
  const { goodput } = summarize([record(), record({ outcome: 'failed' })], { ttft: 500 })
  t.match(goodput, { share: 0.5 })
  t.equal(summarize([], { ttft: 500 }).goodput!.share, 0)
  near(t, goodput!.requestsPerSecond, 1000 / 140)
})

t.test("a tenant's latencies are of requests that succeeded, as those of all", (t) => {
  const { ttftMs, tenants } = summarize([record(), record({ outcome: 'failed', sentMs: 50 })])
  t.same(tenants[0]?.ttftMs, ttftMs)
  t.equal(ttftMs?.count, 1)
  t.end()
})

t.test("Jain's index", async (t) => {
  const of = (tenant: string, arrivalsMs: number[], sentMs = 0) =>
    record({ tenant, arrivalsMs, sentMs, endMs: arrivalsMs.at(-1) ?? 40 })
  t.equal(jainIndex([of('a', [1, 2, 3])]), undefined, 'one tenant has nobody to be unfair to')
  t.equal(jainIndex([of('a', [1, 2, 3]), of('b', [1, 2, 3])]), 1)
  t.equal(jainIndex([of('a', [1, 2, 3]), of('b', [3])]), 16 / (2 * 10))
  // What a does after b has everything is no unfairness.
  t.equal(jainIndex([of('a', [1, 2, 30, 31, 32]), of('b', [1, 2])]), 1)
  t.equal(jainIndex([of('a', [1, 2, 30, 31, 32]), of('b', [30, 31, 32], 29)]), 1, 'or before')
  t.equal(jainIndex([of('a', [1, 2, 30, 31, 32]), of('b', [])]), 0.5, 'b got nothing in 40 ms')
})

t.test('intervals', async (t) => {
  t.same(estimate([]), undefined)
  t.same(estimate([3]), { mean: 3, count: 1 })
  // t of 2 degrees of freedom is 4.302653; the deviation of 9, 10, 11 is 1.
  const { low, high } = estimate([9, 10, 11])!
  near(t, Math.round(low! * 1e5) / 1e5, 10 - Math.round((4.302653 / Math.sqrt(3)) * 1e5) / 1e5)
  near(t, low! + high!, 20)
  t.equal(estimate([0, 10])!.low, 0, 'times and rates are never below 0')
  const ratio = estimateRatio([2, 4, 8], [1, 2, 4])!
  for (const value of [ratio.mean, ratio.low, ratio.high]) near(t, value, 2, 'drift cancels out')
  near(t, estimateRatio([1, 4], [1, 1])!.mean, 2, 'the geometric mean')
  t.equal(estimateRatio([NaN, 0], [1, 0]), undefined)
  t.equal(estimateRatio([1, 2], [0, 0]), undefined)
  const some = estimateRatio([0, 0, 0, 2, 2.5], [2, 2, 2, 2, 2])
  t.same(some, { mean: 0.45, count: 5 }, 'rounds with nothing count')
  fc.assert(
    fc.property(
      fc.array(fc.double({ min: 0.1, max: 1e4, noNaN: true }), { minLength: 2 }),
      (values) => {
        const { mean, low, high } = estimate(values)!
        return low! <= mean && mean <= high!
      },
    ),
  )
})

const runsOf = (throughputs: number[]): RunResult[] =>
  throughputs.map(
    (outputTokensPerSecond) =>
      ({ summary: { ...summarize([record()]), outputTokensPerSecond } }) as RunResult,
  )

t.test('verdicts', async (t) => {
  const verdict = (a: number[], b: number[]) => {
    const runs = new Map([
      ['a', runsOf(a)],
      ['b', runsOf(b)],
    ])
    const compared = compareRuns({ kind: 'trace' }, runs)
    const { verdict } = compared.ratios.b!.output!
    t.equal(/^.*output .* within the noise /m.test(compareTable(compared)), verdict === 'noise')
    return verdict
  }
  t.equal(verdict([10, 11, 10], [20, 21, 20]), 'better')
  t.equal(verdict([20, 21, 20], [10, 11, 10]), 'worse')
  t.equal(verdict([10, 12, 11], [11, 10, 12]), 'noise')
  t.equal(verdict([10], [20]), 'unknown')
  t.equal(verdict([2, 2, 2, 2, 2], [0, 0, 0, 2, 2.1]), 'unknown')
})

t.test('warnings', async (t) => {
  const warn = (records: RunRecord[]) => warningsOf(records, summarize(records), 0)
  t.same(warn([record()]), [])
  t.match(warn([record({ usage: {} })]), [/^the server gave no token count in 1 of 1 answers/])
  t.match(warn([record({ asked: { inputTokens: 10, outputTokens: 9 } })]), [/1 of 1 .* shorter/])
  t.match(warn([record({ asked: { inputTokens: 20, outputTokens: 3 } })]), [/have 10 tokens .* 20/])
  t.match(warn([record({ sentMs: 9 })]), [/sent late, p99 9.0 ms/])
  const state = { cpu: 'x', cores: 2, loadBefore: 0.5, busyInPauses: 0.05, steal: 0 }
  t.same(machineWarnings(state), [])
  const busy = machineWarnings({ ...state, loadBefore: 1.5, busyInPauses: 0.3, steal: 0.05 })
  t.match(busy, [/load average 1.5 on 2 cores/, /processes used 30.0 %/, /5.0 % .* \(steal\)/])
  t.same(machineWarnings({ ...state, steal: null }), [])
})

t.test('a timeline has a line for each request under way', async (t) => {
  const result = {
    target: { name: 'a' },
    load: { kind: 'closed', concurrency: 2 },
    repeat: 1,
  } as RunResult
  const records = [record(), record({ index: 1 }), record({ index: 2, sentMs: 150, endMs: 160 })]
  const { traceEvents } = chromeTrace([{ result, records }])
  const requests = traceEvents.filter(({ name }) => name.startsWith('request'))
  t.match(requests, [
    { ts: 1000, dur: 140_000, tid: 0 },
    { tid: 1 },
    { tid: 0, ts: 150_000, dur: 10_000 },
  ])
  t.match(traceEvents[0], { ph: 'M', args: { name: 'a, 2 clients, run 1' } })
})

t.test('the slope of a line with noise lies within its interval 19 times of 20', async (t) => {
  let hits = 0
  for (let seed = 0; seed < 400; seed++) {
    const random = randomSource(seed, 'slope')
    const points = Array.from({ length: 30 }, (_, x): [number, number] => [
      x,
      2 - 0.5 * x + random() + random() + random(),
    ])
    const { low, high } = estimateSlope(points)!
    if (low! <= -0.5 && -0.5 <= high!) hits++
  }
  t.ok(hits > 365 && hits < 395, `${hits} of 400`)
  t.match(estimateSlope([1, 2, 3].map((x) => [x, 3 * x])), { mean: 3, low: 3, high: 3, count: 3 })
  t.equal(estimateSlope([[1, 2]]), undefined)
  t.equal(estimateSlope([1, 2, 3].map((y) => [1, y])), undefined)
})

t.test('blocks', async (t) => {
  const points = Array.from({ length: 7 }, (_, x): [number, number] => [x, 10 * x])
  t.same(blockMeans(points, 3), [
    [0.5, 5],
    [2.5, 25],
    [4.5, 45],
  ])
  t.same(blockMeans(points.slice(0, 2), 3), points.slice(0, 2))
})

t.test('CSV: what is written is read back, and only what must be is quoted', async (t) => {
  const rows = [
    { name: 'a "b", c', ms: 1.5, none: undefined },
    { name: 'two\nlines', ms: 0, none: null },
  ]
  const text = csvOf(rows)
  t.equal(text, 'name,ms,none\n"a ""b"", c",1.5,\n"two\nlines",0,\n')
  t.same(parse(text, { columns: true }), [
    { name: 'a "b", c', ms: '1.5', none: '' },
    { name: 'two\nlines', ms: '0', none: '' },
  ])
  const texts = fc.array(fc.tuple(fc.string({ unit: 'binary' }), fc.string()), { minLength: 1 })
  fc.assert(
    fc.property(texts, (values) => {
      const written = csvOf(values.map(([a, b]) => ({ a, b })))
      t.same(parse(written, { record_delimiter: '\n' }).slice(1), values)
    }),
  )
})
