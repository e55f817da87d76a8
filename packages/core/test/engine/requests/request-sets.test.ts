import { runUntilIdle } from '@cllm/testing'
import * as fc from 'fast-check'
import t from 'tap'
import {
  type Answer,
  collect,
  expectedTokens,
  greedy,
  isDone,
  promptOf,
  rig,
  type Rig,
} from '../../rig.js'
import { WaitingQueue } from '../../../src/engine/requests/request-sets.js'
import { sequenceOf } from '../../sequences.js'

/** Samples of one request, with an answer of so many tokens each. */
function samples({ client }: Rig, count: number, maxTokens: number, family = 0) {
  return Array.from({ length: count }, (_, sample) =>
    collect(client.submit({ ...greedy(promptOf(8, family), maxTokens), sample })),
  )
}

const firstTokenMs = ({ end }: Answer): number => end?.timings.firstTokenMs ?? Infinity

t.test('samples have all slots while nobody else wants any', async (t) => {
  const made = rig({ slots: 4 })
  const all = samples(made, 8, 20)
  await made.run(Promise.all(all))
  t.ok(made.clock.now() < 1000 + 2 * 20 * 10 + 100, `${made.clock.now() - 1000} ms for two rounds`)
  t.ok(made.backend.steps.some(({ batch }) => batch.length === 4))
  await isDone(t, made)
})

t.test('a request that comes beside 128 samples has its turn at once', async (t) => {
  const made = rig({ slots: 4 })
  const all = samples(made, 128, 100)
  await runUntilIdle(made.clock, 1300)
  const canaries = [1, 2].map((family) =>
    collect(made.client.submit(greedy(promptOf(8, family), 2))),
  )
  for (const canary of await made.run(Promise.all(canaries))) {
    t.ok(firstTokenMs(canary) <= 60, `${firstTokenMs(canary)} ms`)
  }
  const expected = expectedTokens(made.backend, promptOf(8), 100)
  const answers = await made.run(Promise.all(all))
  for (const { tokens } of answers) t.strictSame(tokens, expected)
  const preempted = answers.filter(({ end }) => (end?.timings.preemptions ?? 0) > 0)
  t.equal(preempted.length, 1, 'one sample has made room')
  await isDone(t, made)
})

t.test('two clients with many samples, and others all the time: each goes on', async (t) => {
  const made = rig({ slots: 3 })
  const all = [...samples(made, 10, 30), ...samples(made, 10, 30, 1)]
  const over = new AbortController()
  const others: Promise<Answer>[] = []
  const keepAsking = async (family: number) => {
    while (!over.signal.aborted) {
      const other = collect(made.client.submit(greedy(promptOf(8, family), 10)))
      others.push(other)
      await other
    }
  }
  const asking = [2, 3].map(keepAsking)
  for (const { tokens } of await made.run(Promise.all(all))) t.equal(tokens.length, 30)
  over.abort()
  await made.run(Promise.all(asking))
  t.ok(others.length > 20, `${others.length} others`)
  const waits = (await Promise.all(others.slice(2))).map(firstTokenMs)
  t.ok(Math.max(...waits) < 500, `${Math.max(...waits)} ms at most`)
  await isDone(t, made)
})

t.test('with one slot, others go between two samples', async (t) => {
  const made = rig({ slots: 1 })
  const all = samples(made, 4, 10)
  await runUntilIdle(made.clock, 1050)
  const canary = await made.run(collect(made.client.submit(greedy(promptOf(8, 1), 2))))
  t.ok(firstTokenMs(canary) <= 100, `${firstTokenMs(canary)} ms`)
  for (const { tokens, end } of await made.run(Promise.all(all))) {
    t.same([tokens.length, end?.timings.preemptions], [10, 0])
  }
  await isDone(t, made)
})

t.test('a sample is behind requests that came before its turn, however late they join', (t) => {
  const waiting = new WaitingQueue()
  const [first, sample, late] = [5, 1, 10].map((arrival) =>
    sequenceOf([5], { id: `at ${arrival}`, arrival }),
  )
  for (const one of [first!, sample!]) waiting.add(one)
  waiting.hold(sample!)
  waiting.unhold([sample!], 12)
  t.same([...waiting], [first, sample])
  waiting.add(late!)
  t.same(
    Array.from(waiting, ({ id }) => id),
    ['at 5', 'at 10', 'at 1'],
  )
  t.end()
})

t.test('samples that are cancelled leave the queue', async (t) => {
  const made = rig({ slots: 2 })
  const left = new AbortController()
  const all = Array.from({ length: 6 }, (_, sample) =>
    collect(made.client.submit({ ...greedy(promptOf(8), 50), sample }, { signal: left.signal })),
  )
  await runUntilIdle(made.clock, 1050)
  left.abort()
  for (const { error } of await made.run(Promise.all(all))) t.match(error, { code: 'cancelled' })
  await isDone(t, made)
  const wrong = await made.ask({ ...greedy(promptOf(8), 5), sample: -1 })
  t.match(wrong.error, { code: 'invalid_request', details: { field: 'sample' } })
})

const several = fc.array(
  fc.record({ at: fc.nat(400), count: fc.integer({ min: 1, max: 6 }), tokens: fc.nat(20) }),
  { minLength: 1, maxLength: 6 },
)

t.test('whoever comes when: further samples have all slots for one step at most', async (t) => {
  const property = async (slots: number, groups: readonly Asked[], others: readonly Asked[]) => {
    const made = rig({ slots })
    const { clock, engine, client } = made
    const waiting = new Set<string>()
    let [inARow, most] = [0, 0]
    engine.observe({
      onQueued: ({ id }) => void (id.startsWith('other') && waiting.add(id)),
      onAdmitted: ({ id }) => void waiting.delete(id),
      onFinished: ({ id }) => void waiting.delete(id),
      onStepStart(parts) {
        const running = parts.map(({ request }) => request.id)
        const areSamples = running.length === slots && running.every((id) => id.startsWith('n'))
        const isFurther = running.some((id) => !id.endsWith('-0'))
        inARow = waiting.size > 0 && areSamples && isFurther ? inARow + 1 : 0
        most = Math.max(most, inARow)
      },
    })
    const answers: Promise<Answer>[] = []
    const ask = ({ at, tokens }: Asked, id: string, sample?: number) => {
      clock.at(1000 + at, () => {
        const more = sample === undefined ? {} : { sample }
        const request = { ...greedy(promptOf(8, id.length % 3), 1 + tokens), id, ...more }
        answers.push(collect(client.submit(request)))
      })
    }
    for (const [index, group] of groups.entries()) {
      for (let sample = 0; sample < group.count; sample++) {
        ask(group, `n${index}-${sample}`, sample)
      }
    }
    for (const [index, other] of others.entries()) ask(other, `other${index}`)
    await runUntilIdle(clock, 20_000)
    const ended = await Promise.all(answers)
    if (ended.some(({ end }) => end === undefined)) throw new Error('one has no end')
    if (most > 1) throw new Error(`samples had all slots for ${most} steps while others waited`)
    await made.run(client.close())
  }
  const slots = fc.integer({ min: 2, max: 4 })
  await fc.assert(fc.asyncProperty(slots, several, several, property), { numRuns: 30 })
  t.end()
})

interface Asked {
  readonly at: number
  readonly count: number
  readonly tokens: number
}
