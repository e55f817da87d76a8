import type { CllmError, Forecast, GenerateRequest } from '@cllm/core'
import { runUntilIdle } from '@cllm/testing'
import t from 'tap'
import { collect, greedy, promptOf, rig } from '../../rig.js'

const stepMs = (batch: readonly { readonly tokens: readonly number[] }[]): number =>
  12 + batch.reduce((sum, { tokens }) => sum + (tokens.length === 1 ? 1 : tokens.length * 0.8), 0)

const percentile = (values: readonly number[], share: number): number =>
  [...values].toSorted((a, b) => a - b)[Math.floor(share * (values.length - 1))] ?? NaN

interface Outcome {
  readonly arrival: number
  readonly forecast: Forecast | undefined
  readonly firstTokenMs: number | undefined
  readonly error: CllmError | undefined
}

/** Requests that come one every `everyMs`, and what became of them. */
async function load(
  made: ReturnType<typeof rig>,
  count: number,
  everyMs: number,
  requestOf: (index: number) => GenerateRequest,
) {
  const { clock, client, engine } = made
  const outcomes: Promise<Outcome>[] = []
  let mostWaiting = 0
  for (let index = 0; index < count; index++) {
    clock.at(clock.now() + index * everyMs, () => {
      const arrival = clock.now()
      const answer = collect(client.submit({ ...requestOf(index), forecast: true }))
      mostWaiting = Math.max(mostWaiting, engine.statistics().waiting)
      outcomes.push(
        answer.then(({ events: [start], end, error }) => ({
          arrival,
          forecast: start?.type === 'start' ? start.forecast : undefined,
          firstTokenMs: end?.timings.firstTokenMs,
          error,
        })),
      )
    })
  }
  await runUntilIdle(clock)
  return { outcomes: await Promise.all(outcomes), mostWaiting }
}

/** Actual over predicted time to first token of those that came after `from`. */
const ratios = (outcomes: readonly Outcome[], from: number): number[] =>
  outcomes.flatMap(({ arrival, forecast, firstTokenMs }) =>
    arrival < from || forecast === undefined || firstTokenMs === undefined
      ? []
      : [firstTokenMs / forecast.firstTokenMs],
  )

/** Another prompt each time, so that nothing is found in a slot. */
const fresh = (index: number, length: number): readonly number[] => [
  4 + (index % 250),
  4 + (Math.floor(index / 250) % 250),
  ...promptOf(length - 2, index % 7),
]

t.test('at ten times the capacity, accepted requests start when predicted', async (t) => {
  const made = rig({ slots: 8, stepMs, options: { maxQueueWaitMs: 3000 } })
  // A request takes 3 steps of 8, of 20 ms, and 32 ms for its prompt: 10 a second can be served.
  const { outcomes, mostWaiting } = await load(made, 3000, 10, (index) =>
    greedy(fresh(index, 40), 24),
  )
  const accepted = outcomes.filter(({ error }) => error === undefined)
  const refused = outcomes.filter(({ error }) => error !== undefined)
  t.ok(accepted.length > 250 && accepted.length < 450, `${accepted.length} are served`)
  t.ok(mostWaiting < 50, `${mostWaiting} wait at most`)
  const after = ratios(outcomes, 5000)
  t.ok(percentile(after, 0.9) < 1.1, `p90 of actual over predicted ${percentile(after, 0.9)}`)
  t.ok(percentile(after, 0.1) > 0.9, `p10 ${percentile(after, 0.1)}`)
  const waits = accepted.map(({ forecast }) => forecast?.queueMs ?? NaN)
  t.ok(Math.max(...waits) <= 3000 && Math.max(...waits) > 2500, 'up to the limit')
  for (const { error } of refused) {
    const { queueMs, retryAfterMs } = error!.details as Record<string, number>
    if (error?.code !== 'wait_too_long' || error.status !== 429) t.fail(`${error?.code}`)
    if (retryAfterMs !== queueMs! - 3000 || !(retryAfterMs > 0)) t.fail(`retry ${retryAfterMs}`)
  }
})

t.test('answers that end by themselves are predicted from those before', async (t) => {
  const made = rig({ slots: 4, stepMs, endProbability: 0.05, contextSize: 1000 })
  const sampling = { temperature: 1 }
  const { outcomes } = await load(made, 400, 60, (index) => ({
    prompt: { tokens: fresh(index, 40) },
    maxTokens: 900,
    sampling: { ...sampling, seed: index },
  }))
  const after = ratios(outcomes, 3000)
  t.ok(after.length > 200, `${after.length} of them waited`)
  const middle = percentile(after, 0.5)
  t.ok(middle > 0.75 && middle < 1.33, `the median is ${middle} of what was predicted`)
})

t.test('the place in the queue, and when the queue has room again', async (t) => {
  const made = rig({ slots: 2, stepMs, options: { maxQueuedRequests: 3 } })
  await made.ask(greedy(promptOf(10), 20))
  const { outcomes } = await load(made, 7, 0, (index) => greedy(fresh(index, 10), 20))
  t.same(
    outcomes.map(({ forecast }) => forecast?.position),
    [0, 0, 1, 2, 3, undefined, undefined],
  )
  const [, , third, , , sixth] = outcomes
  const { retryAfterMs } = sixth!.error!.details as Record<string, number>
  t.equal(sixth!.error!.code, 'queue_full')
  t.ok(Math.abs(retryAfterMs! - third!.forecast!.queueMs) < 50, 'when the first of it is admitted')
  t.equal((await made.ask(greedy([5], 2))).events[0]?.type, 'start')
  t.notOk('forecast' in (await made.ask(greedy([5], 2))).events[0]!, 'only told when asked')
})

t.test('the waiting tokens are bounded, but one request may always wait', async (t) => {
  const made = rig({ slots: 1, stepMs, options: { maxQueuedTokens: 100 } })
  const prompts = [10, 150, 60, 40, 41, 39]
  const { outcomes } = await load(made, prompts.length, 0, (index) =>
    greedy(fresh(index, prompts[index]!), 20),
  )
  t.same(
    outcomes.map(({ error }) => error?.code),
    [undefined, undefined, 'queue_full', 'queue_full', 'queue_full', 'queue_full'],
  )
  const small = await load(made, 5, 1, (index) =>
    greedy(fresh(index, [9, 60, 40, 1, 1][index]!), 9),
  )
  t.same(
    small.outcomes.map(({ error }) => error?.code),
    [undefined, undefined, undefined, 'queue_full', 'queue_full'],
  )
  const error = small.outcomes[3]!.error!
  t.match(error, { message: /100 tokens of prompts are waiting/, details: { limit: 100 } })
  const { retryAfterMs } = error.details as Record<string, number>
  t.ok(retryAfterMs! > 0 && retryAfterMs! < 1000, `${retryAfterMs}`)
})
