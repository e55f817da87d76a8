import {
  defineModelScheduler,
  lru,
  type ModelDecision,
  type ModelScheduler,
  type ModelView,
} from '@cllm/core'
import { modelSchedulers, turns, turnsPatienceMs } from '@cllm/scheduler'
import { testModelScheduler } from '@cllm/testing'
import t from 'tap'
import { failuresOf } from './failures-of.js'

t.same(
  modelSchedulers.map(({ name }) => name),
  ['lru', 'turns'],
)
await testModelScheduler(t, lru)
for (const options of [{}, { patience: 1, linger: 2 }, { patience: 0, linger: 0 }]) {
  const { patience = 4 } = options as { readonly patience?: number }
  await testModelScheduler(t, turns, {
    options,
    // The slots of its test hold two seconds of prompts at most.
    maxHoldMs: (swapMs, priority) => turnsPatienceMs(swapMs + 2000, priority, patience),
  })
}

t.test('the suite finds what is wrong with a model scheduler', async (t) => {
  const usual = lru.create({})
  const broken = (name: string, decide: ModelScheduler['decide']) =>
    defineModelScheduler({ name, doc: 'Broken.', create: () => ({ decide }) })
  const others = (name: string, change: (decision: ModelDecision) => ModelDecision) =>
    broken(name, (models, now) => change(usual.decide(models, now)))
  const loaded = (models: readonly ModelView[]) => models.filter(({ state }) => state === 'loaded')
  let asked = 0
  const defects = [
    broken('idle', () => ({ holdMs: Infinity })),
    broken('unknown', () => ({ load: 'none' })),
    broken('crowding', (models) => ({
      load: models.find(({ state }) => state === 'unloaded')?.name ?? '',
    })),
    others('ruthless', (one) => ('drain' in one ? { unload: one.drain } : one)),
    others('without a word', (one) => ('drain' in one ? ({} as ModelDecision) : one)),
    others('polite', (one) => ('drain' in one ? { holdMs: Infinity } : one)),
    others('moody', (one) => (asked++ % 7 === 6 ? { holdMs: 10 } : one)),
    broken('last come', (models, now) => {
      const [one] = loaded(models)
      const waiting = models.filter(({ state }) => state === 'unloaded')
      const latest = Math.max(...waiting.map((model) => model.waiting.at(-1)?.since ?? 0))
      const order = waiting.toSorted(
        (a, b) => (b.waiting.at(-1)?.since ?? 0) - (a.waiting.at(-1)?.since ?? 0),
      )
      if (order[0]?.fits === true) return { load: order[0].name }
      if (one === undefined || now - latest < 10_000) return { holdMs: 10_000 }
      return one.users === 0 ? { unload: one.name } : { drain: one.name }
    }),
    broken('draining what is unused', (models, now) => {
      const decision = usual.decide(models, now)
      return 'unload' in decision ? { drain: decision.unload } : decision
    }),
    broken('changing', (models, now) => {
      for (const model of models) (model.waiting as unknown[]).length = 0
      return usual.decide(models, now)
    }),
  ]
  for (const defect of defects) {
    const failures = await failuresOf(async (t) => {
      await testModelScheduler(t, defect, { runs: 5 })
    })
    t.ok(failures.length > 0, `${defect.name}: ${failures[0]}`)
  }
})

const view = (name: string, more: Partial<ModelView>): ModelView => ({
  name,
  state: 'loaded',
  isDraining: false,
  users: 0,
  lastUsed: 0,
  loadMs: 1000,
  lostMs: 0,
  fits: false,
  waiting: [],
  ...more,
})
const waits = (since: number, priority = 0, deadline?: number) => ({ since, priority, deadline })

t.test('turns', (t) => {
  const scheduler = turns.create({ patience: 4, linger: 0.75 })
  const decide: ModelScheduler['decide'] = (...views) => scheduler.decide(...views)
  const wanted = (...waiting: ModelView['waiting']) => view('c', { state: 'unloaded', waiting })
  const busy = [view('a', { users: 2, lastUsed: 90 }), view('b', { users: 1, lastUsed: 99 })]
  const c = wanted(waits(0))
  t.same(decide([c, ...busy], 100), { holdMs: 7900 }, 'four times the loads of both models')
  t.same(decide([c, ...busy], 8000), { drain: 'b' }, 'then the one with the fewest users leaves')
  const draining = [{ ...busy[0]!, isDraining: true }, busy[1]!]
  t.same(decide([c, ...draining], 8000), { drain: 'a' }, 'and no other instead')
  t.same(decide([wanted(waits(0, 2)), ...busy], 100), { holdMs: 1900 }, 'urgent: sooner')
  t.same(decide([wanted(waits(0, -9)), ...busy], 0), { holdMs: 128_000 }, 'batches: later')
  t.same(decide([wanted(waits(0, 0, 5000)), ...busy], 100), { holdMs: 2900 }, 'by its deadline')
  const idle = [view('a', { lastUsed: 0 }), view('b', { lastUsed: 400, lostMs: 0 })]
  t.same(decide([wanted(waits(490)), ...idle], 500), { holdMs: 1000 }, 'it may be used again soon')
  t.same(decide([wanted(waits(490), waits(495)), ...idle], 500), { holdMs: 250 }, 'two wait: less')
  t.same(decide([wanted(waits(490)), ...idle], 1500), { unload: 'a' })
  const dear = [view('a', { lastUsed: 0, lostMs: 4000 }), view('b', { lastUsed: 400 })]
  t.same(decide([wanted(waits(0)), ...dear], 2000), { unload: 'b' }, 'what it holds would be lost')
  const two = [c, view('d', { state: 'unloaded', waiting: [waits(5), waits(6)], fits: true })]
  t.same(
    decide(
      two.map((one) => ({ ...one, fits: true })),
      10,
    ),
    { load: 'd' },
    'most for its load',
  )
  t.same(
    decide(
      two.map((one) => ({ ...one, fits: true })),
      8000,
    ),
    { load: 'c' },
    'the overdue first',
  )
  t.end()
})
