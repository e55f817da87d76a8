import {
  type Backend,
  type BatchItem,
  createEngine,
  type Plan,
  PluginRegistry,
  type SchedulerPolicy,
  SimulatedClock,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import {
  drive,
  FakeBackend,
  type FakeBackendOptions,
  firstComeFirstServed,
  runUntilIdle,
} from '@cllm/testing'
import t from 'tap'
import { collect, counting, loggerOf, policyOf } from '../../rig.js'

const sizeOf = (batch: readonly BatchItem[]) =>
  batch.reduce((sum, { tokens }) => sum + tokens.length, 0)

/** A word in five differs from what the small model would say. */
const served = (content: readonly number[]) => 20 + ((content.length * 7) % 11)
const guessed = (content: readonly number[]) => (content.length % 5 === 0 ? 40 : served(content))

interface Rig {
  readonly draft?: FakeBackendOptions | false
  readonly draftMs?: number
  readonly served?: FakeBackendOptions
  /** What becomes of each plan. */
  readonly policy?: (plan: Plan) => Plan
}

/** A model whose steps take 20 ms, however many drafts they verify, and a smaller one beside it. */
function rig({ draft = {}, draftMs = 1, served: more = {}, policy: change }: Rig = {}) {
  const clock = new SimulatedClock(0)
  const backend = new FakeBackend({ clock, stepMs: () => 20, script: served, ...more })
  const small = { clock, stepMs: () => draftMs, script: guessed, ...(draft === false ? {} : draft) }
  const draftBackend = new FakeBackend(small)
  const { errors, logger } = loggerOf()
  const plan: SchedulerPolicy['plan'] = (state) => {
    const made = firstComeFirstServed.plan(state)
    return change?.(made) ?? made
  }
  const parts = { backend, policy: policyOf(plan), clock, random: counting(), logger }
  const registry = new PluginRegistry()
  const engine = createEngine({
    ...parts,
    registry,
    ...(draft === false ? {} : { draftBackend }),
    options: { speculative: draft === false ? 'off' : 'draft' },
  })
  const client = new LocalEngineClient(engine, registry, counting())
  const ask = async (count: number, more = {}) => {
    const answers = Array.from({ length: count }, (_, index) => {
      const prompt = { tokens: Array.from({ length: 80 + index }, (_, at) => 3 + (at % 90)) }
      return collect(client.submit({ prompt, maxTokens: 150, ...more }))
    })
    return await drive(clock, Promise.all(answers))
  }
  return { backend, draftBackend, engine, clock, errors, ask }
}

t.test('a draft model makes answers come in fewer steps, and no others', async (t) => {
  for (const sampling of [{ temperature: 0 }, { temperature: 1, seed: 5 }]) {
    const [off, on] = [rig({ draft: false }), rig()]
    const request = { sampling }
    const [plain, drafted] = [await off.ask(3, request), await on.ask(3, request)]
    const tokensOf = (answers: typeof plain) => answers.map(({ tokens }) => tokens)
    t.same(tokensOf(drafted), tokensOf(plain))
    t.same(on.backend.violations.concat(on.draftBackend.violations), [])
    t.ok(on.backend.steps.length < 0.3 * off.backend.steps.length, `${on.backend.steps.length}`)
    t.ok(on.clock.now() < 0.8 * off.clock.now(), `${on.clock.now()} of ${off.clock.now()} ms`)
    const { draftTokens = 0, acceptedTokens = 0 } = drafted[0]!.end!.timings
    t.ok(acceptedTokens > 20 && acceptedTokens < draftTokens, `${acceptedTokens} of ${draftTokens}`)
    t.equal(on.engine.info().draftModel?.id, 'fake')
    t.equal(on.draftBackend.samplers.size, 0, 'its samplers are disposed of')
  }
})

t.test('a request has one end, whatever fails after it was told', async (t) => {
  const { backend, engine, clock, ask } = rig({
    policy: (plan) => {
      if (engine.statistics().requests.done + told.filter((type) => type === 'end').length > 0) {
        throw new Error('no plan')
      }
      return plan
    },
  })
  const told: string[] = []
  const ended: string[] = []
  engine.observe({
    onEvents: (events) => {
      for (const { event } of events) if (event.type !== 'token') told.push(event.type)
    },
    onEnded: (_, { state }) => void ended.push(state),
  })
  const [plain] = await rig().ask(1, { sampling: { temperature: 0 } })
  const stop = [plain?.text.slice(20, 23) ?? '']
  const [answer] = await ask(1, { sampling: { temperature: 0 }, stop })
  await runUntilIdle(clock)
  t.match(answer?.end, { reason: 'stop' })
  t.same(told, ['start', 'end'])
  t.same(ended, ['done'])
  t.match(engine.statistics().requests, { done: 1, failed: 0 })
  t.same(backend.violations, [])
})

t.test('guesses that cost more than they save are hardly made', async (t) => {
  // As on a CPU, where a draft takes half as long as a step.
  const stepMs: FakeBackendOptions['stepMs'] = (batch) =>
    20 + 10 * batch.reduce((sum, { tokens }) => sum + tokens.length - 1, 0)
  const [off, on] = [
    rig({ draft: false, served: { stepMs } }),
    rig({ draftMs: 5, served: { stepMs } }),
  ]
  for (const { ask } of [off, on]) for (let round = 0; round < 4; round++) await ask(3)
  t.ok(on.draftBackend.steps.length > 0, 'it is tried')
  t.ok(on.clock.now() < 1.03 * off.clock.now(), `${on.clock.now()} of ${off.clock.now()} ms`)
})

t.test('what drafts cost before the step counts, too', async (t) => {
  const [off, on] = [rig({ draft: false }), rig({ draftMs: 19 })]
  for (const { ask } of [off, on]) for (let round = 0; round < 4; round++) await ask(3)
  t.ok(on.clock.now() < 1.05 * off.clock.now(), `${on.clock.now()} of ${off.clock.now()} ms`)
})

t.test('a policy that wants no drafts has none', async (t) => {
  const { backend, ask } = rig({
    policy: ({ run, ...plan }) => ({ ...plan, run: run.map((one) => ({ ...one, drafts: 0 })) }),
  })
  const [answer] = await ask(1)
  t.equal(answer?.end?.timings.draftTokens, undefined)
  t.equal(backend.steps.filter(({ batch }) => sizeOf(batch) === 1).length, 149)
})

t.test('a request without speculation has none', async (t) => {
  const { draftBackend, ask } = rig()
  const [answer] = await ask(1, { speculative: false })
  t.equal(answer!.tokens.length, 150)
  t.equal(draftBackend.steps.length, 0)
})

t.test('a slot is taken over with what it holds', async (t) => {
  const { draftBackend, ask } = rig({ draft: { slots: 1 } })
  await ask(2)
  await ask(1)
  t.same(draftBackend.violations, [])
  const starts = draftBackend.steps.flatMap(({ batch }) =>
    batch.filter(({ position }) => position === 0),
  )
  t.equal(starts.length, 1, 'a prompt was begun once')
})

t.test('the slot that was not used for longest is taken over', async (t) => {
  const { draftBackend, ask } = rig({ draft: { slots: 2 } })
  const say = async (first: number) => {
    const before = draftBackend.steps.length
    await ask(1, { prompt: { tokens: Array.from({ length: 40 }, (_, at) => first + (at % 9)) } })
    const later = draftBackend.steps.slice(before).flatMap(({ batch }) => batch)
    return later.some(({ position }) => position === 0)
  }
  const begun: boolean[] = []
  for (const first of [10, 30, 50, 30, 10]) begun.push(await say(first))
  t.same(begun, [true, true, true, false, true])
})

t.test('a slot is taken over empty where nothing may be shared', async (t) => {
  const { draftBackend, ask } = rig({ draft: { slots: 1 } })
  await ask(1)
  await ask(1, { cache: false })
  t.same(draftBackend.violations, [])
  const starts = draftBackend.steps.flatMap(({ batch }) =>
    batch.filter(({ position }) => position === 0),
  )
  t.equal(starts.length, 2)
})

t.test('what the small model cannot have is generated without it', async (t) => {
  const short = rig({ draft: { contextSize: 90 } })
  const [answer] = await short.ask(1)
  t.equal(answer!.tokens.length, 150)
  const ends = short.draftBackend.steps.flatMap(({ batch }) =>
    batch.map(({ position, tokens }) => position + tokens.length),
  )
  t.ok(ends.length > 0 && Math.max(...ends) <= 90, 'up to the end of its slots')
  t.same(short.draftBackend.violations, [])
})

t.test('a draft model that fails is left out, and no request fails', async (t) => {
  const { draftBackend, errors, ask } = rig()
  await draftBackend.dispose()
  const [one, other] = await ask(2)
  t.equal(one!.tokens.length + other!.tokens.length, 300)
  t.equal(one!.error, undefined)
  t.match(errors, [{ message: /the draft model failed/ }])
  t.equal(errors.length, 1)
})

t.test('where the draft model makes one sampler of several, it is disposed of', async (t) => {
  const { draftBackend, errors, ask } = rig()
  const { samplers } = draftBackend
  const create = draftBackend.createSampler.bind(draftBackend)
  draftBackend.createSampler = (...of) => {
    if (samplers.size > 0) throw new Error('one is enough')
    return create(...of)
  }
  await ask(2)
  t.match(errors, [{ message: /the draft model failed/ }])
  t.equal(samplers.size, 0)
})

t.test('those that run when it fails are offered no drafts any more', async (t) => {
  const offered: (number | undefined)[] = []
  const made: ReturnType<typeof rig> = rig({
    policy: (plan) => {
      if (made.errors.length === 0) return plan
      const run = plan.run.map(({ id, tokens }) => ({ id, tokens, drafts: 15 }))
      return { ...plan, run }
    },
  })
  made.engine.observe({
    onStepStart: (parts) => {
      if (made.errors.length > 0) offered.push(...parts.map(({ request }) => request.draft?.tokens))
    },
  })
  made.clock.at(500, () => void made.draftBackend.dispose())
  const [one] = await made.ask(1)
  t.equal(one!.tokens.length, 150)
  t.ok(made.errors.length === 1 && offered.length > 20)
  t.ok(offered.every((drafts) => drafts === undefined))
})

t.test('a draft model that cannot take tokens back is refused', async (t) => {
  t.throws(() => rig({ draft: { keepMultipleOf: 8 } }), {
    code: 'invalid_configuration',
    message: /cannot take back single tokens/,
  })
})

t.test('a draft model of another vocabulary is refused', async (t) => {
  const backend = new FakeBackend()
  const like = (more: PropertyDescriptorMap) => Object.create(new FakeBackend(), more) as Backend
  const create = (draftBackend: Backend) =>
    createEngine({
      backend,
      draftBackend,
      policy: firstComeFirstServed,
      options: { speculative: 'draft' },
    })
  const larger = { ...backend.model, vocabularySize: 1000 + backend.model.vocabularySize }
  t.throws(() => create(like({ model: { value: larger } })), {
    code: 'invalid_configuration',
    message: /its vocabulary has \d+ tokens, expected about \d+$/,
  })
  const decode = () => 'x'
  t.throws(() => create(like({ tokenizer: { value: { decode } } })), {
    code: 'invalid_configuration',
    message: /token 0 is "x", expected /,
  })
})
