import {
  CllmError,
  type EngineStatistics,
  type GenerateRequest,
  type Recording,
  SimulatedClock,
  SupervisedEngineClient,
} from '@cllm/core'
import { drive, runUntilIdle } from '@cllm/core/testing'
import * as fc from 'fast-check'
import t from 'tap'
import { FakeProcess, type FakeProcessOptions } from '../fake-process.js'
import { collect, counting, greedy, promptOf } from '../rig.js'

function watched(options: Partial<FakeProcessOptions> = {}, recorder = {}) {
  const clock = new SimulatedClock(1000)
  const crashes: Recording[] = []
  let last: FakeProcess | undefined
  const start = () => (last = new FakeProcess({ clock, ...options }))
  const onCrash = (recording: Recording) => crashes.push(recording)
  const client = new SupervisedEngineClient({
    start,
    clock,
    random: counting(),
    recorder: { onCrash, ...recorder },
  })
  const run = async <T>(promise: Promise<T>): Promise<T> => await drive(clock, promise)
  const submit = (request: GenerateRequest) => collect(client.submit(request))
  const kill = () => last?.kill()
  return { clock, client, crashes, run, submit, kill }
}

/** The counters that only rise. */
const totals = (statistics: EngineStatistics): number[] => [
  ...Object.values(statistics.requests),
  statistics.promptTokens,
  statistics.cachedTokens,
  statistics.generatedTokens,
  statistics.preemptions,
  statistics.policyFaults,
  statistics.steps,
  statistics.prefillTokens,
  statistics.decodeTokens,
  statistics.decodeMs,
  statistics.sampleMs,
  statistics.busyMs,
  ...statistics.stepMs.counts,
  ...statistics.stepTokens.counts,
  ...statistics.stepSequences.counts,
]

const load = fc.array(
  fc.record({
    at: fc.integer({ min: 0, max: 300 }),
    length: fc.integer({ min: 1, max: 60 }),
    tokens: fc.integer({ min: 1, max: 20 }),
    leavesAfter: fc.option(fc.integer({ min: 0, max: 10 }), { nil: undefined, freq: 2 }),
  }),
  { minLength: 1, maxLength: 10 },
)

t.test('counters go on over restarts and add up to what clients were told', async (t) => {
  let restarts = 0
  let cut = 0
  await fc.assert(
    fc.asyncProperty(
      load,
      fc.array(fc.integer({ min: 5, max: 150 }), { maxLength: 4 }),
      async (requests, deaths) => {
        const { clock, client, run, kill } = watched({ slots: 3, loadMs: 7, batchSize: 16 })
        await run(client.ready())
        let at = clock.now()
        for (const wait of deaths) clock.at((at += wait), kill)
        const told = { prompt: 0, cached: 0, generated: 0, done: 0, cut: 0, blamed: 0 }
        const ask = async (index: number): Promise<void> => {
          const { length, tokens, leavesAfter = Infinity } = requests[index]!
          let heard = 0
          let isOver = false
          const request = { ...greedy(promptOf(length, index % 3), tokens), id: `r${index}` }
          try {
            for await (const event of client.submit(request)) {
              if (event.type === 'token' && ++heard > leavesAfter) break
              if (event.type !== 'end') continue
              isOver = true
              told.prompt += event.usage.promptTokens
              told.cached += event.usage.cachedTokens
              told.generated += event.usage.generatedTokens
            }
          } catch (error) {
            // Two engines in a row were killed before its first token: it is taken for the reason.
            if (!CllmError.isInstance(error) || error.code !== 'engine_crashed') throw error
            told.blamed++
          }
          if (isOver) told.done++
          else told.cut++
        }
        const begin = clock.now()
        const answers = requests.map(
          ({ at: wait }, index) =>
            new Promise<void>((resolve) => {
              clock.at(begin + wait, () => resolve(ask(index)))
            }),
        )
        const all = Promise.all(answers)
        let before: number[] = []
        const open = new Set([all])
        void all.then(() => open.clear())
        while (open.size > 0) {
          await runUntilIdle(clock, clock.now() + 20)
          const now = await run(client.statistics()).then(totals, () => before)
          t.ok(now.every((value, index) => value >= (before[index] ?? 0), 'never less'))
          before = now
        }
        await all
        await runUntilIdle(clock, clock.now() + 1000)
        const statistics = await run(client.statistics())
        const { done, cancelled, failed } = statistics.requests
        t.equal(done + cancelled + failed, requests.length)
        t.equal(failed, told.blamed)
        t.ok(failed === 0 || deaths.length > 1, `${failed} failed`)
        // One that is left when all is said was done all the same.
        if (told.cut === 0) {
          t.equal(done, told.done)
          t.equal(statistics.promptTokens, told.prompt)
          t.equal(statistics.cachedTokens, told.cached)
          t.equal(statistics.generatedTokens, told.generated)
        }
        t.ok(statistics.generatedTokens >= told.generated)
        const sum = statistics.stepTokens.sum
        t.equal(sum, statistics.prefillTokens + statistics.decodeTokens)
        for (const { counts } of [statistics.stepMs, statistics.stepTokens]) {
          t.equal(
            counts.reduce((total, count) => total + count, 0),
            statistics.steps,
          )
        }
        restarts += client.restarts
        cut += told.cut
      },
    ),
    { numRuns: 30 },
  )
  t.ok(restarts > 15, `${restarts} restarts`)
  t.ok(cut > 5, `${cut} requests were cut off`)
})

t.test('what fails for lack of an engine is counted too', async (t) => {
  const { clock, client, run, submit, kill } = watched({ slots: 1, loadMs: 500 })
  await run(client.ready())
  const answer = submit({ ...greedy(promptOf(9), 50), timeoutMs: 200 })
  await runUntilIdle(clock, clock.now() + 55)
  kill()
  const { tokens, error } = await run(answer)
  t.equal(error?.code, 'timeout')
  const statistics = await run(
    (async () => {
      await runUntilIdle(clock, clock.now() + 1000)
      return await client.statistics()
    })(),
  )
  t.match(statistics, { requests: { timed_out: 1 }, generatedTokens: tokens.length })
  t.equal(statistics.promptTokens, 9)
})
