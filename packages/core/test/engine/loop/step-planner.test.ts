import { batchPriority, type TokenId } from '@cllm/core'
import { firstComeFirstServed, runUntilIdle } from '@cllm/testing'
import t from 'tap'
import {
  collect,
  empty,
  expectedTokens,
  greedy,
  isDone,
  policyOf,
  promptOf,
  rig,
} from '../../rig.js'

const [long, short] = [promptOf(200), promptOf(9, 1)]
const ofBatch = (tokens: readonly TokenId[], maxTokens = 5) => ({
  ...greedy(tokens, maxTokens),
  priority: batchPriority,
})
/** A token takes 10 ms. */
const slow = (slots: number) =>
  rig({ slots, stepMs: (batch) => 10 * batch.reduce((sum, { tokens }) => sum + tokens.length, 0) })

t.test('a client does not wait for the end of a step of a batch', async (t) => {
  const made = slow(2)
  const { backend, clock, client, run } = made
  const steps: number[] = []
  made.engine.observe({ onStep: ({ durationMs }) => void steps.push(durationMs) })
  const batch = collect(client.submit(ofBatch(long)))
  await runUntilIdle(clock, clock.now() + 300)
  t.equal(backend.isStepping, true, 'its prompt takes 2 s')
  const asked = await run(collect(client.submit(greedy(short, 5))))
  const { firstTokenMs } = asked.end!.timings
  t.ok(firstTokenMs < 2100, `its first token came after ${firstTokenMs} ms`)
  t.equal(backend.interrupts, 1)
  t.equal(made.engine.statistics().interruptedSteps, 1)
  t.equal(backend.steps[1]!.startedAt, 1300, 'the next step began at once')
  t.same(asked.tokens, expectedTokens(backend, short, 5))
  t.same((await run(batch)).tokens, expectedTokens(backend, long, 5), 'nothing of it is lost')
  t.notOk(steps.includes(300), 'what was not computed teaches nothing')
  await isDone(t, made)
})

t.test(
  'all slots are the batch’s: one that leaves makes way, those that stay are let',
  async (t) => {
    for (const leaves of [true, false]) {
      const made = slow(1)
      const { backend, clock, client, run } = made
      const leaving = new AbortController()
      const batch = collect(client.submit(ofBatch(long), leaving))
      await runUntilIdle(clock, clock.now() + 300)
      if (leaves) leaving.abort()
      const asked = await run(collect(client.submit(greedy(short, 5))))
      t.equal(backend.interrupts, leaves ? 1 : 0)
      t.same(asked.tokens, expectedTokens(backend, short, 5))
      if (leaves) t.equal(asked.end!.timings.firstTokenMs, 90)
      else t.same((await run(batch)).tokens, expectedTokens(backend, long, 5))
      await isDone(t, made)
    }
  },
)

t.test('what clients wait for is not interrupted, nor for a batch', async (t) => {
  for (const [running, comes] of [
    [[greedy(long, 5)], greedy(short, 5)],
    [[ofBatch(long), greedy(promptOf(20, 2), 5)], greedy(short, 5)],
    [[ofBatch(long)], ofBatch(short)],
  ] as const) {
    const made = slow(4)
    const { backend, clock, client, run } = made
    const all = running.map((request) => collect(client.submit(request)))
    await runUntilIdle(clock, clock.now() + 300)
    t.equal(backend.isStepping, true)
    all.push(collect(client.submit(comes)))
    await run(Promise.all(all))
    t.equal(backend.interrupts, 0)
    t.equal(made.engine.statistics().interruptedSteps, 0)
    await isDone(t, made)
  }
})

t.test('one part after another, where the step failed as a whole', async (t) => {
  let steps = 0
  const made = rig({
    slots: 3,
    stepMs: () => 100,
    failWhen: () => (steps++ === 0 ? new Error('a bad day') : undefined),
  })
  const { backend, clock, client, run } = made
  const prompts = [promptOf(20, 3), promptOf(20, 4)]
  const batch = prompts.map((prompt) => collect(client.submit(ofBatch(prompt))))
  await runUntilIdle(clock, clock.now() + 250)
  const asked = await run(collect(client.submit(greedy(short, 5))))
  t.equal(backend.interrupts, 1)
  t.equal(made.engine.statistics().interruptedSteps, 0, 'the step goes on')
  t.same(asked.tokens, expectedTokens(backend, short, 5))
  for (const [index, { tokens }] of (await run(Promise.all(batch))).entries()) {
    t.same(tokens, expectedTokens(backend, prompts[index]!, 5))
  }
  await isDone(t, made)
})

t.test(
  'where what the plan runs has no room, others run before it wants to plan again',
  async (t) => {
    const alone = policyOf((state) => {
      const [next] = state.waiting
      if (next?.id !== 'large' || state.freeSlots === 0) return firstComeFirstServed.plan(state)
      // The loop has not slept since the request came.
      if (state.now < 1100) return { ...empty, wakeAt: 1100 }
      const run = [{ id: 'large', tokens: next.remainingTokens }]
      return { ...empty, admit: ['large'], run, wakeAt: state.now + 10_000 }
    })
    const made = rig({ slots: 2, contextSize: 200, kvTokens: 300, policy: alone })
    const { clock, client, run } = made
    const first = collect(client.submit(greedy(promptOf(150), 20)))
    await runUntilIdle(clock, clock.now() + 35)
    const large = collect(client.submit({ ...greedy(promptOf(180, 1), 5), id: 'large' }))
    const { end } = await run(first)
    t.ok(end!.timings.totalMs < 1000, `it took ${end!.timings.totalMs} ms`)
    t.equal((await run(large)).tokens.length, 5)
    await isDone(t, made)
  },
)
