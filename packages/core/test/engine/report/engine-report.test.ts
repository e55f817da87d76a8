import type { Plan, RequestReport, SchedulerState } from '@cllm/core'
import { runUntilIdle, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import { collect, greedy, policyOf, promptOf, type Rig, rig } from '../../rig.js'

const empty: Plan = { admit: [], preempt: [], reject: [], run: [] }

/** A request's way without what the test does not ask about. */
const wayOf = async ({ client }: Rig, id: string): Promise<RequestReport['timeline']> =>
  (await client.explain(id)).timeline

/** Prompts in chunks of so many tokens. */
const chunked = (size: number) => (state: SchedulerState) => {
  const plan = firstComeFirstServed.plan(state)
  return {
    ...plan,
    run: plan.run.map(({ id, tokens }) => ({ id, tokens: Math.min(tokens, size) })),
  }
}

t.test('the way of a request, live and ended', async (t) => {
  const made = rig({ slots: 1, policy: policyOf(chunked(8)) })
  const { client, clock, run } = made
  const request = { ...greedy(promptOf(20), 4), tenant: 'ann', session: 's', priority: 2 }
  const first = collect(client.submit({ ...request, forecast: true, id: 'first' }))
  const second = collect(client.submit({ ...greedy(promptOf(3, 1), 2), id: 'second' }))
  await runUntilIdle(clock, 1025)
  t.same(await wayOf(made, 'first'), [
    { type: 'queued', atMs: 0 },
    { type: 'admitted', atMs: 0, slot: 0, cachedTokens: 0 },
    { type: 'prefill', atMs: 0, untilMs: 20, chunks: 2, tokens: 16 },
  ])
  t.same(await wayOf(made, 'second'), [
    { type: 'queued', atMs: 0 },
    { type: 'waited', atMs: 0, untilMs: 25, reasons: { slots: 25 } },
  ])
  t.match(await client.explain('first'), { state: 'prefilling', timings: { queueMs: 0 } })

  const [{ end }] = await run(Promise.all([first, second]))
  t.match(end?.timings, { preemptions: 0, prefillChunks: 3 })
  clock.advance(1000)
  const { forecast, ...report } = await client.explain('first')
  t.match(forecast, { position: 0, queueMs: 0, firstTokenMs: Number })
  t.match((await client.explain('second')).forecast, { position: 1 }, 'it had to wait')
  t.same(report, {
    id: 'first',
    state: 'done',
    arrival: 1000,
    priority: 2,
    tenant: 'ann',
    session: 's',
    usage: { promptTokens: 20, cachedTokens: 0, generatedTokens: 4 },
    timings: end?.timings,
    timeline: [
      { type: 'queued', atMs: 0 },
      { type: 'admitted', atMs: 0, slot: 0, cachedTokens: 0 },
      { type: 'prefill', atMs: 0, untilMs: 20, chunks: 2, tokens: 16 },
      { type: 'prefill', atMs: 20, untilMs: 30, chunks: 1, tokens: 4 },
      { type: 'first_token', atMs: 30 },
      { type: 'end', atMs: 60, reason: 'length' },
    ],
  })
  t.same(await wayOf(made, 'second'), [
    { type: 'queued', atMs: 0 },
    { type: 'waited', atMs: 0, untilMs: 60, reasons: { slots: 60 } },
    { type: 'admitted', atMs: 60, slot: 0, cachedTokens: 0 },
    { type: 'prefill', atMs: 60, untilMs: 70, chunks: 1, tokens: 3 },
    { type: 'first_token', atMs: 70 },
    { type: 'end', atMs: 80, reason: 'length' },
  ])
  await t.rejects(client.explain('nobody'), { code: 'request_not_found', status: 404 })
})

t.test('why requests wait', async (t) => {
  const waited = async (made: Rig, id: string) => {
    return (await wayOf(made, id)).flatMap((entry) =>
      entry.type === 'waited' ? [entry.reasons] : [],
    )
  }
  t.test('the step under way, the budget, the policy', async (t) => {
    let holds = true
    const policy = policyOf((state) => {
      const one = { ...state, freeSlots: Math.min(1, state.freeSlots) }
      const isPrefilling = state.running.some(({ remainingTokens }) => remainingTokens > 1)
      if (holds && state.now < 1100)
        return { ...firstComeFirstServed.plan({ ...one, freeSlots: 0 }), wakeAt: 1100 }
      return chunked(8)(isPrefilling ? { ...state, freeSlots: 0 } : one)
    })
    const made = rig({ policy })
    const { client, clock, run } = made
    const first = collect(client.submit({ ...greedy(promptOf(24), 9), id: 'first' }))
    await runUntilIdle(clock, 1105)
    holds = false
    const second = collect(client.submit({ ...greedy(promptOf(24, 1), 2), id: 'second' }))
    await run(Promise.all([first, second]))
    t.same(await waited(made, 'first'), [{ policy: 100 }])
    t.same(await waited(made, 'second'), [{ step: 5, budget: 20 }])
  })

  t.test('later ones that went first', async (t) => {
    const policy = policyOf((state) => {
      const [later] = [...state.waiting].toReversed()
      const admit = later === undefined || state.freeSlots === 0 ? [] : [later]
      const run = [...state.running, ...admit].map(({ id }) => ({ id, tokens: 1 }))
      return { ...empty, admit: admit.map(({ id }) => id), run }
    })
    const made = rig({ slots: 1, policy })
    const { client, clock, run } = made
    const submit = (id: string, more = {}) =>
      collect(client.submit({ ...greedy([5], 4), ...more, id }))
    const answers = [submit('running')]
    await runUntilIdle(clock, 1010)
    answers.push(submit('first'))
    await runUntilIdle(clock, 1020)
    answers.push(submit('second', { deadlineMs: 1000 }))
    await run(Promise.all(answers))
    t.same(await waited(made, 'second'), [{ slots: 20 }])
    t.same(await waited(made, 'first'), [{ step: 10, slots: 20, deadline: 40 }])
  })

  t.test('a prefix that another request computes', async (t) => {
    const made = rig({ slots: 2, contextSize: 1024, policy: policyOf(chunked(64)) })
    const { client, clock, run } = made
    const prompt = promptOf(256)
    const leader = collect(client.submit({ ...greedy(prompt, 4), id: 'leader' }))
    await runUntilIdle(clock, 1005)
    const follower = collect(client.submit({ ...greedy([...prompt, 4], 4), id: 'follower' }))
    await runUntilIdle(clock, 1025)
    t.same((await wayOf(made, 'follower'))[1], {
      type: 'waited',
      atMs: 0,
      untilMs: 20,
      reasons: { prefix: 20 },
    })
    await run(Promise.all([leader, follower]))
    const [reasons] = await waited(made, 'follower')
    t.match(reasons, { prefix: 35 }, 'until the leader has computed it')
  })

  t.test('preempted and paused', async (t) => {
    let step = 0
    const policy = policyOf((state) => {
      step++
      if (step === 3) return { ...empty, preempt: ['kept'], run: [{ id: 'other', tokens: 1 }] }
      if (step === 4) return { ...empty, run: [{ id: 'other', tokens: 1 }] }
      return firstComeFirstServed.plan(step === 5 ? { ...state, freeSlots: 1 } : state)
    })
    const made = rig({ slots: 2, policy })
    const { client, run } = made
    const kept = collect(client.submit({ ...greedy(promptOf(6), 6), id: 'kept' }))
    const other = collect(client.submit({ ...greedy(promptOf(6, 1), 9), id: 'other' }))
    const [{ end }] = await run(Promise.all([kept, other]))
    t.match(end?.timings, { preemptions: 1, prefillChunks: 2 })
    t.match(await wayOf(made, 'kept'), [
      { type: 'queued' },
      { type: 'admitted' },
      { type: 'prefill', tokens: 6 },
      { type: 'first_token' },
      { type: 'preempted', atMs: 20 },
      { type: 'waited', atMs: 20, untilMs: 40, reasons: { policy: 20 } },
      { type: 'admitted', atMs: 40 },
      { type: 'prefill', atMs: 40 },
      { type: 'end' },
    ])
  })
})

t.test('what it keeps of ended requests is bounded', async (t) => {
  let turn = 0
  const alternating = policyOf((state) => {
    const { admit } = firstComeFirstServed.plan(state)
    const ids = [...state.running.map(({ id }) => id), ...admit]
    const id = ids[turn++ % ids.length] ?? ''
    return { ...empty, admit, run: [{ id, tokens: 1 + (turn % 3) }] }
  })
  const made = rig({ slots: 2, policy: alternating })
  const { client, run } = made
  const long = collect(client.submit({ ...greedy(promptOf(200), 9), id: 'long' }))
  const other = collect(client.submit({ ...greedy(promptOf(200, 1), 9), id: 'other' }))
  await run(Promise.all([long, other]))
  const { timeline, timings } = await client.explain('long')
  t.ok(timeline.length <= 64, `${timeline.length} entries`)
  const chunks = timeline.flatMap((entry) => (entry.type === 'prefill' ? [entry] : []))
  t.equal(
    chunks.reduce((sum, entry) => sum + entry.tokens, 0),
    200,
    'no token is missing',
  )
  t.equal(
    chunks.reduce((sum, entry) => sum + entry.chunks, 0),
    timings.prefillChunks,
  )
  t.equal(timeline.at(-1)?.type, 'end')

  const many = rig({ slots: 4 })
  for (let index = 0; index <= 1000; index++) {
    await many.ask({ ...greedy([5], 1), id: `request-${index}` })
  }
  await t.rejects(many.client.explain('request-0'), { code: 'request_not_found' })
  t.match(await many.client.explain('request-1'), { state: 'done' })
})

t.test('what fails is explained too', async (t) => {
  const made = rig({ slots: 1 })
  const { client, clock, run } = made
  const running = collect(client.submit({ ...greedy(promptOf(9), 90), id: 'running' }))
  const late = collect(client.submit({ ...greedy(promptOf(9), 90), id: 'late', timeoutMs: 25 }))
  await runUntilIdle(clock, 1035)
  client.cancel('running')
  await run(Promise.all([running, late]))
  t.match(await client.explain('running'), { state: 'cancelled' })
  t.match(await client.explain('late'), { usage: { promptTokens: 9 } }, 'what it asked')
  t.equal((await client.statistics()).promptTokens, 9, 'what was computed')
  t.match(await wayOf(made, 'running'), { 4: { type: 'end', reason: 'cancelled' } })
  t.match(await client.explain('late'), {
    state: 'timed_out',
    timeline: [
      { type: 'queued' },
      { type: 'waited', reasons: { slots: 30 } },
      { type: 'end', atMs: 30, reason: 'timeout', message: /time limit/ },
    ],
  })
})
