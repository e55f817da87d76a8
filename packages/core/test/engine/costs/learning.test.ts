import {
  createEngine,
  type LearnedStore,
  PluginRegistry,
  type SchedulerPolicy,
  silentLogger,
  SimulatedClock,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { drive, FakeBackend, firstComeFirstServed, runUntilIdle } from '@cllm/testing'
import t from 'tap'
import { collect, counting } from '../../rig.js'

/** A backend that learns, and takes only what it has learned. */
class LearningBackend extends FakeBackend {
  known = 0

  learned() {
    return { steps: this.steps.length + this.known }
  }

  recall({ steps }: { readonly steps: number }) {
    if (typeof steps !== 'number') throw new TypeError('expected steps')
    this.known = steps
  }
}

/** An engine whose store had `known`. */
function learning(
  known: unknown,
  policy: SchedulerPolicy = firstComeFirstServed,
  written: Promise<void> = Promise.resolve(),
) {
  const clock = new SimulatedClock(0)
  const kept: unknown[] = []
  const lines: unknown[] = []
  const keep = async (text: unknown): Promise<void> => {
    kept.push(text)
    await written
  }
  const learned: LearnedStore = { known, keep }
  const logger = { ...silentLogger, debug: (fields: object) => void lines.push(fields) }
  const script = (content: readonly number[]) => 20 + (content.length % 7)
  const stepMs = (batch: readonly { tokens: readonly number[] }[]) => 3 + 2 * batch.length
  const backend = new LearningBackend({ clock, stepMs, script })
  const parts = { backend, policy, clock, random: counting(), logger, learned }
  const engine = createEngine({ ...parts, options: { speculative: 'auto' } })
  const client = new LocalEngineClient(engine, new PluginRegistry(), counting())
  const ask = async (count = 60) => {
    const request = { prompt: { tokens: [5, 6, 7] }, maxTokens: count }
    return await drive(clock, collect(client.submit(request)))
  }
  return { backend, clock, engine, kept, lines, ask }
}

t.test('a later engine begins with what an earlier one had learned', async (t) => {
  const first = learning(undefined)
  const { tokens } = await first.ask()
  t.same(first.kept, [], 'nothing is kept while a request may come')
  await first.engine.close()
  t.equal(first.kept.length, 1)
  const known = JSON.parse(JSON.stringify(first.kept[0]))
  t.match(known, { backend: { steps: first.backend.steps.length }, steps: Array, drafts: Array })
  const second = learning(known)
  await second.engine.close()
  t.same(second.kept, [], 'what was not added to stays as it is')
  t.ok(
    known.drafts[1][1].some((count: number) => count > 0),
    'guesses were made',
  )
  const third = learning(known)
  t.same((await third.ask()).tokens, tokens, 'answers are the same')
  t.ok(third.backend.steps.length <= first.backend.steps.length, 'in no more steps')
  await third.engine.close()
  const [again] = third.kept as [typeof known]
  t.same(again.backend, { steps: third.backend.steps.length + known.backend.steps })
  t.same(
    again.steps.map((ms: number, term: number) => Math.abs(ms - known.steps[term]) < 1),
    known.steps.map(() => true),
  )
  t.same(third.lines, [])
})

t.test('it is kept once a minute', async (t) => {
  const { ask, clock, engine, kept } = learning(undefined)
  await ask()
  t.equal(kept.length, 0)
  await runUntilIdle(clock, 59_999)
  t.equal(kept.length, 0)
  await runUntilIdle(clock, 60_000)
  t.equal(kept.length, 1)
  await runUntilIdle(clock, 600_000)
  t.equal(kept.length, 1, 'while nothing is learned it is not kept again')
  await runUntilIdle(clock, 659_000)
  let last = ask()
  while (clock.now() < 661_000) {
    const next = ask()
    await last
    last = next
  }
  t.equal(kept.length, 2, 'also while there is always something to compute')
  await last
  await engine.close()
  t.equal(clock.nextTimer(), undefined, 'and no more when it is closed')
})

t.test('the end waits for what is being written', async (t) => {
  let write = (): void => {}
  const written = new Promise<void>((resolve) => (write = resolve))
  const { ask, clock, engine, kept } = learning(undefined, firstComeFirstServed, written)
  await ask()
  await runUntilIdle(clock, 60_000)
  let isClosed = false
  const closed = engine.close().then(() => (isClosed = true))
  await runUntilIdle(clock)
  t.equal(isClosed, false)
  write()
  await closed
  t.equal(kept.length, 1)
})

t.test('what does not fit is left, and the rest is used', async (t) => {
  const good = learning(undefined)
  await good.ask()
  await good.engine.close()
  const [known] = good.kept as [{ readonly steps: number[] }]
  const nine = (value: unknown) => Array.from({ length: 9 }, () => value)
  for (const steps of [
    [1, 2],
    nine(0),
    nine(-1),
    nine('1'),
    nine(1e300),
    nine(null),
    {},
    'x',
    null,
  ]) {
    const { engine, lines, kept, ask } = learning({
      ...known,
      steps,
      unknown: 1,
      ['__proto__']: {},
    })
    t.equal(lines.length, 1, JSON.stringify(steps))
    t.equal((await ask()).tokens.length, 60)
    await engine.close()
    const found = (kept[0] as typeof known).steps
    t.ok(
      found.every((ms) => Number.isFinite(ms) && ms >= 0),
      found.join(),
    )
  }
  for (const all of [{ drafts: [[]] }, { drafts: 7 }, { backend: {} }, { backend: null }]) {
    t.equal(learning({ ...known, ...all }).lines.length, 1, JSON.stringify(all))
  }
  for (const all of [null, 7, 'text', [1, 2], undefined]) t.equal(learning(all).lines.length, 0)
})

t.test('a policy that fails at it costs nothing else', async (t) => {
  const fails = () => {
    throw new Error('no')
  }
  // One that is async after all: its rejection would end the process.
  for (const failing of [fails, () => Promise.reject(new Error('no'))]) {
    const policy = { ...firstComeFirstServed, learned: failing, recall: failing }
    const { ask, engine, kept, lines } = learning({ policy: 1 }, policy)
    t.equal((await ask()).tokens.length, 60)
    await engine.close()
    t.match(kept, [{ steps: Array }])
    t.match(lines[0], { part: 'policy' })
  }
})

t.test('what a policy has learned need not be JSON', async (t) => {
  const policy = { ...firstComeFirstServed, learned: () => 1n }
  const { ask, clock, engine, kept, lines } = learning(undefined, policy)
  await ask()
  await runUntilIdle(clock, 60_000)
  await engine.close()
  t.match(kept, [{ steps: Array }])
  t.match(lines[0], { part: 'policy' })
})
