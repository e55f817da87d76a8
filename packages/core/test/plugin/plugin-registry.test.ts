import {
  type BackendContext,
  CllmError,
  createEngine,
  defineBackend,
  defineBatching,
  defineOrder,
  definePolicy,
  type PartChoice,
  PluginRegistry,
  type SchedulerPolicy,
  silentLogger,
  SimulatedClock,
  TOKENIZER,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { drive, FakeBackend, firstComeFirstServed } from '@cllm/testing'
import t from 'tap'
import { z } from 'zod'

const nothing = { admit: [], preempt: [], reject: [], run: [] }
const policy = (name: string): SchedulerPolicy => ({ name, plan: () => nothing })
const whole = (name: string) =>
  definePolicy({ name, doc: 'Plans nothing.', create: () => policy(name) })

const order = (name: string, shape: z.ZodRawShape = {}) =>
  defineOrder({
    name,
    doc: 'As they came.',
    options: z.object(shape),
    create: () => ({ next: ({ waiting }) => waiting }),
  })
const batching = (name: string, shape: z.ZodRawShape = {}) =>
  defineBatching({
    name,
    doc: 'Plans nothing.',
    options: z.object(shape),
    create: () => ({ plan: () => ({ admit: [], run: [] }) }),
  })

function errorOf(act: () => unknown): CllmError {
  try {
    act()
  } catch (error) {
    if (CllmError.isInstance(error)) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

t.test('policies by name', async (t) => {
  const registry = new PluginRegistry()
  t.throws(() => registry.createPolicy('fcfs'), {
    code: 'invalid_policy',
    message: 'There is no policy "fcfs": none is registered',
  })
  const seen: unknown[] = []
  registry.registerPolicy(
    definePolicy({
      name: 'turns',
      doc: 'By turns.',
      options: z.object({ quantum: z.number().default(2) }),
      create(options) {
        seen.push(options)
        return policy('turns')
      },
    }),
  )
  registry.registerPolicy(whole('lottery'))
  t.same(registry.policyNames(), ['lottery', 'turns'])
  t.equal(registry.createPolicy('turns', { quantum: 3 }).name, 'turns')
  registry.createPolicy('turns')
  t.same(seen, [{ quantum: 3 }, { quantum: 2 }])

  const error = (name: string) => errorOf(() => registry.createPolicy(name))
  const expected = 'expected one of lottery, turns'
  t.match(error('turn'), {
    code: 'invalid_policy',
    message: `There is no policy "turn": ${expected}; did you mean "turns"?`,
    details: { field: 'policy', valid: { policies: ['lottery', 'turns'] } },
  })
  t.match(error('TURNS').message, `"TURNS": ${expected}; did you mean "turns"?`)
  for (const name of ['priority', '', '__proto__']) {
    t.equal(error(name).message, `There is no policy "${name}": ${expected}`)
  }

  t.throws(() => registry.registerPolicy(whole('turns')), {
    code: 'plugin_conflict',
    message: 'A policy named "turns" is registered already',
  })
  const wrong = [
    undefined,
    () => policy('x'),
    { ...whole('x'), name: '' },
    { ...whole('x'), doc: '' },
    { ...whole('x'), create: policy('x') },
    { ...whole('x'), options: {} },
    { ...whole('x'), options: { parse: () => ({}) } },
  ]
  for (const definition of wrong) {
    const message = 'A policy is registered as { name, doc, options, create }'
    const thrown = errorOf(() => registry.registerPolicy(definition as never))
    t.match(thrown, { code: 'plugin_invalid', message: new RegExp(message) })
  }
})

t.test('an order goes with every batching, whatever comes first', async (t) => {
  const registry = new PluginRegistry()
  registry.registerOrder(order('fcfs'))
  t.same(registry.policyNames(), [])
  registry.registerBatching(batching('chunked', { budget: z.number().default(8) }))
  registry.registerBatching(batching('static'))
  registry.registerOrder(order('sjf', { aging: z.number().default(1) }))
  registry.registerPolicy(whole('turns'))
  const names = ['chunked+fcfs', 'chunked+sjf', 'static+fcfs', 'static+sjf', 'turns']
  t.same(registry.policyNames(), names)
  t.same(
    [registry.batchings, registry.orders].map((halves) => halves.map(({ name }) => name)),
    [
      ['chunked', 'static'],
      ['fcfs', 'sjf'],
    ],
  )
  const { name, options } = registry.createPolicy('chunked+sjf', { aging: 3 })
  t.same({ name, options }, { name: 'chunked+sjf', options: { budget: 8, aging: 3 } })
  t.same(registry.policies()[1], { name: 'chunked+sjf', options: { budget: 8, aging: 1 } })

  const error = (policy: string, given = {}) => errorOf(() => registry.createPolicy(policy, given))
  t.match(error('chunked+sfj'), {
    message:
      'There is no policy "chunked+sfj": expected batching+order, of the batchings chunked, static ' +
      'and the orders fcfs, sjf, or one of turns; did you mean "chunked+sjf"?',
    details: {
      valid: { batchings: ['chunked', 'static'], orders: ['fcfs', 'sjf'], policies: ['turns'] },
    },
  })
  t.equal(
    error('chunked+sjf', { aging: 'x', budget: 'y', agin: 1, toString: 1 }).message,
    'Wrong options for "chunked+sjf": budget: Invalid input: expected number, received string; ' +
      'aging: Invalid input: expected number, received string; Unrecognized keys: "agin", "toString" ' +
      '(its options are budget, aging); did you mean "aging"?',
  )
  t.match(error('static+fcfs', { aging: 1 }), {
    code: 'invalid_policy',
    message: 'Wrong options for "static+fcfs": Unrecognized key: "aging" (it has no options)',
    details: { policy: 'static+fcfs', valid: [] },
  })
})

t.test(
  'nothing is replaced silently, and a half is there with all its pairs or not at all',
  (t) => {
    const registry = new PluginRegistry()
    registry.registerBatching(batching('chunked', { budget: z.number().default(8) }))
    registry.registerBatching(batching('static'))
    registry.registerOrder(order('fcfs'))
    registry.registerPolicy(whole('static+mine'))
    const before = registry.policyNames()
    const cases: [() => unknown, string][] = [
      [() => registry.registerOrder(order('fcfs')), 'An order named "fcfs" is registered already'],
      [
        () => registry.registerBatching(batching('static')),
        'A batching named "static" is registered already',
      ],
      [
        () => registry.registerPolicy(whole('chunked+fcfs')),
        'A policy named "chunked+fcfs" is registered already',
      ],
      [
        () => registry.registerOrder(order('mine')),
        'A policy named "static+mine" is registered already',
      ],
      [
        () => registry.registerOrder(order('rich', { budget: z.number() })),
        'The order "rich" makes the policy "chunked+rich", whose halves both have an option "budget"',
      ],
    ]
    for (const [act, message] of cases) {
      t.match(errorOf(act), { code: 'plugin_conflict', message }, message)
      t.same(registry.policyNames(), before)
    }
    for (const name of ['a+b', 'a b', ' ']) {
      const message = /expected neither "\+" nor spaces/
      t.throws(() => registry.registerOrder(order(name)), { code: 'plugin_invalid', message })
      t.throws(() => registry.registerBatching(batching(name)), { code: 'plugin_invalid', message })
    }
    registry.registerOrder(order('static'))
    t.ok(registry.policyNames().includes('static+static'), 'an order may be named like a batching')
    t.end()
  },
)

t.test('what a definition does wrong is said', async (t) => {
  const registry = new PluginRegistry()
  registry.registerPolicy({
    name: 'broken',
    doc: 'Throws.',
    create() {
      throw new TypeError('out of luck')
    },
  })
  registry.registerPolicy({ name: 'empty', doc: 'None.', create: () => ({}) as SchedulerPolicy })
  registry.registerPolicy({ name: 'nothing', doc: 'None.', create: () => undefined as never })
  t.throws(() => registry.createPolicy('broken'), {
    code: 'invalid_policy',
    message: 'policy "broken": out of luck',
    cause: TypeError,
  })
  t.throws(() => registry.createPolicy('empty'), { code: 'plugin_invalid', message: /"empty"/ })
  t.throws(() => registry.createPolicy('nothing'), { code: 'plugin_invalid', message: /"nothing"/ })
})

t.test('backends and protocols by name', async (t) => {
  const registry = new PluginRegistry()
  const seen: BackendContext[] = []
  const fake = defineBackend({
    name: 'fake',
    doc: 'Nothing real.',
    options: z.object({ id: z.string(), slots: z.int().default(3) }),
    async create({ id, slots }, context) {
      seen.push(context)
      return new FakeBackend({ id, slots })
    },
  })
  registry.registerBackend(fake)
  t.equal((await registry.createBackend('fake', { id: 'mine' })).model.id, 'mine')
  await t.rejects(registry.createBackend('fake', {}), {
    code: 'invalid_configuration',
    message: 'backend "fake": option "id": expected string, received undefined',
  })
  await t.rejects(registry.createBackend('fakes'), {
    code: 'invalid_configuration',
    message: 'backend: expected one of fake, instead got "fakes"; did you mean "fake"?',
  })
  t.throws(() => registry.registerBackend(fake), { code: 'plugin_conflict' })
  const nameless = { ...fake, name: '' }
  t.throws(() => registry.registerBackend(nameless), { code: 'plugin_invalid' })
  t.same(registry.checkBackend('fake', { id: 'mine' }), { id: 'mine', slots: 3 })
  const context = { clock: new SimulatedClock(0), logger: { ...silentLogger } }
  const mine = await registry.createBackend('fake', { id: 'mine' }, context)
  t.equal(mine.limits.slots, 3, 'its defaults are filled in')
  t.equal(seen.at(-1), context, 'it gets the clock and the logger of its process')
  const { options: _, ...unchecked } = fake
  registry.registerBackend({ ...unchecked, name: 'raw' })
  t.equal((await registry.createBackend('raw', { id: 'raw' })).model.id, 'raw')

  const protocol = { name: 'plain', mount() {} }
  registry.registerProtocol({ name: 'plain', doc: 'Plain.', create: () => protocol })
  registry.registerPolicy(whole('plain'))
  t.same(registry.policyNames(), ['plain'], 'kinds do not get in each other’s way')
})

t.test('protocols by name, with options and a context', async (t) => {
  const registry = new PluginRegistry()
  const named = (name: string, more: object = {}) => ({
    name,
    doc: 'A protocol.',
    create: (_options: unknown, context: unknown) => ({ name, mount() {}, context }),
    ...more,
  })
  registry.registerProtocol(named('plain'))
  const options = z.object({ prefix: z.string().default('/plain') })
  registry.registerProtocol({
    ...named('rich'),
    options,
    create: (options, context) => ({ name: 'rich', mount() {}, options, context }),
  })
  t.same(registry.protocolNames(), ['plain', 'rich'])
  const context = { started: 1 }
  t.match(registry.createProtocol('rich', {}, context), { options: { prefix: '/plain' }, context })
  t.match(registry.createProtocol('rich', { prefix: '/x' }), { options: { prefix: '/x' } })

  const refused = { code: 'invalid_configuration' }
  t.throws(() => registry.createProtocol('plane'), {
    ...refused,
    message: 'protocols: expected one of plain, rich, instead got "plane"; did you mean "plain"?',
  })
  t.throws(() => registry.createProtocol('plain', { a: 1 }), {
    ...refused,
    message: 'protocol "plain": there is no option "a" (it has no options)',
    cause: TypeError,
  })
  t.throws(() => registry.createProtocol('rich', { prefx: '/x' }), {
    ...refused,
    message: /"prefx" \(its options are prefix\); did you mean "prefix"/,
  })
  t.throws(() => registry.createProtocol('rich', { prefix: 1 }), {
    ...refused,
    message: /^protocol "rich": option "prefix": expected string/,
  })

  t.throws(() => registry.registerProtocol(named('plain')), { code: 'plugin_conflict' })
  registry.registerProtocol(
    named('plain', { replaces: true, create: () => ({ name: 'new', mount() {} }) }),
  )
  t.match(registry.createProtocol('plain'), { name: 'new' }, 'the replacement')
  t.same(registry.protocolNames(), ['plain', 'rich'], 'in the place of the first one')
  t.throws(() => registry.registerProtocol(named('plain', { replaces: true })), {
    code: 'plugin_conflict',
    message: /replaced already/,
  })
  registry.registerProtocol(named('only', { replaces: true }))
  t.equal(registry.createProtocol('only').name, 'only', 'an engine’s process has no built-in ones')

  registry.registerProtocol(named('none', { create: () => ({}) }))
  t.throws(() => registry.createProtocol('none'), { code: 'plugin_invalid' })
  for (const wrong of [named('a,b'), named('a b'), named('c', { doc: '' }), named('')]) {
    t.throws(() => registry.registerProtocol(wrong), { code: 'plugin_invalid' })
  }
})

t.test(
  'what create throws is told by its kind and name, and is no rejection of nobody',
  async (t) => {
    const registry = new PluginRegistry()
    const throwing = (name: string) => ({
      name,
      doc: 'Cannot be made.',
      create(): never {
        throw new Error('no luck')
      },
    })
    registry.registerRouter(throwing('lost'))
    registry.registerModelScheduler(throwing('full'))
    registry.registerProposer(throwing('mute'))
    registry.registerProtocol(throwing('deaf'))
    const rejecting = async () => await Promise.reject(new Error('no luck'))
    registry.registerRouter({ ...throwing('late'), create: rejecting as never })
    const told = (message: string) => ({ code: 'invalid_configuration', message })
    t.throws(() => registry.routers.create('lost'), told('router "lost": no luck'))
    t.throws(() => registry.modelSchedulers.create('full'), told('model scheduler "full": no luck'))
    t.throws(() => registry.proposers.create('mute'), told('proposer "mute": no luck'))
    t.throws(() => registry.createProtocol('deaf'), told('protocol "deaf": no luck'))
    t.throws(() => registry.routers.create('late'), { code: 'plugin_invalid', message: /"late"/ })
  },
)

t.test('a create that returns nothing is told by its kind and name', async (t) => {
  const registry = new PluginRegistry()
  const empty = (name: string) => ({ name, doc: 'Made of nothing.', create: () => ({}) as never })
  const fcfs = { name: 'mine', doc: 'A half.', create: () => ({ plan() {}, next() {} }) as never }
  registry.registerBatching(fcfs)
  registry.registerOrder(empty('nothing'))
  registry.registerOrder({ ...fcfs, name: 'order' })
  registry.registerBatching({ ...empty('none'), create: () => undefined as never })
  registry.registerProposer(empty('silent'))
  registry.registerBackend({ ...empty('void'), create: () => undefined as never })
  const told = (message: string) => ({ code: 'plugin_invalid', message })
  t.throws(
    () => registry.createPolicy('mine+nothing'),
    told('order "nothing": create made no order, which has a next method'),
  )
  t.throws(
    () => registry.createPolicy('none+order'),
    told('batching "none": create made no batching, which has a plan method'),
  )
  t.throws(
    () => registry.proposers.create('silent'),
    told('proposer "silent": create made no proposer, which has a begin method'),
  )
  await t.rejects(
    registry.createBackend('void'),
    told('backend "void": create made no backend, which has a step method'),
  )
})

t.test("what a plug-in's backend or tokenizer throws is told with its name and call", async (t) => {
  const boom = () => {
    throw new Error('boom')
  }
  const clock = new SimulatedClock(0)
  let made: FakeBackend
  const create = () => (made = new FakeBackend({ clock, stepMs: () => 10, embeddingSize: 4 }))
  const registry = new PluginRegistry()
  registry.registerBackend({ name: 'mine', doc: 'Fails.', create })
  registry.provide(TOKENIZER, 'mine', () => create().tokenizer)
  const ask = async (fail: (made: FakeBackend) => unknown = () => {}, use: PartChoice = {}) => {
    const own = async () => await registry.createBackend('mine')
    const backend = 'tokenizer' in use ? new FakeBackend({ clock }) : await own()
    const engine = createEngine({ backend, policy: firstComeFirstServed, clock, registry, use })
    // Not before, as tokenizers are checked at the start.
    fail(made)
    const client = new LocalEngineClient(engine, registry, { uint32: () => 1 })
    const stream = client.submit({ prompt: { text: 'hello' }, logprobs: 1, maxTokens: 2 })
    const answer = async () => {
      for await (const { type } of stream) if (type === 'end') break
      return (await client.embed({ text: 'hello' })).vector.length
    }
    return await drive(clock, answer())
  }
  t.equal(await ask(), 4, 'what works is not changed')
  const mine = (await registry.createBackend('mine')).tokenizer
  t.same(Object.keys(mine), Object.keys(new FakeBackend().tokenizer), 'and can be spread')
  for (const call of ['step', 'preferSlot', 'createSampler', 'embed'] as const) {
    const message = `backend "mine": ${call}: boom`
    const told = { code: 'backend_failed', message, details: { backend: 'mine', call } }
    await t.rejects(
      ask((one) => Object.assign(one, { [call]: boom })),
      told,
    )
  }
  const decoder = () => ({ push: boom, end: () => '' })
  for (const [call, key, method] of [
    ['encode', 'encode', boom],
    ['createDecoder', 'createDecoder', boom],
    ['push', 'createDecoder', decoder],
    ['bytesOf', 'bytesOf', boom],
    ['isEndOfGeneration', 'isEndOfGeneration', boom],
  ] as const) {
    const broken = ({ tokenizer }: FakeBackend) => Object.assign(tokenizer, { [key]: method })
    const message = (kind: string) => `${kind} "mine": ${call}: boom`
    await t.rejects(ask(broken), { code: 'backend_failed', message: message('backend') })
    const replaced = ask(broken, { tokenizer: 'mine' })
    await t.rejects(replaced, { code: 'plugin_invalid', message: message('tokenizer') })
  }
})
