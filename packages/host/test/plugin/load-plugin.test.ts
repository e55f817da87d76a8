import { join } from 'node:path'
import {
  ADMISSION,
  type Admission,
  BACKEND,
  CLOCK,
  CllmError,
  ENGINE_OBSERVER,
  KV_CACHE_MANAGER,
  type KVCacheManager,
  LOGGER,
  type Logger,
  MODEL_SOURCE,
  PREFIX_INDEX,
  type PartChoice,
  PluginRegistry,
  type PrefixIndex,
  SimulatedClock,
  TOKENIZER,
  type Tokenizer,
  WAIT_PREDICTOR,
  createEngine,
  definePlugin,
  replaceableParts,
  silentLogger,
  token,
} from '@cllm/core'
import { LocalEngineClient, type PluginEntry, loadPlugins, registerPlugin } from '@cllm/host'
import { FakeBackend, drive, firstComeFirstServed } from '@cllm/testing'
import t, { type Test } from 'tap'
import { z } from 'zod'
import { collect, counting, greedy, promptOf } from '../../../core/test/rig.js'

/** A module whose plugin registers a policy that is named like its `quantum`. */
const good = (name: string) => `
export default {
  name: ${JSON.stringify(name)},
  apiVersion: 1,
  options: {
    parse(value) {
      const { quantum = 7 } = value
      if (typeof quantum === 'number') return { quantum }
      const issue = { path: ['quantum'], message: 'Invalid input: expected number, received string' }
      throw Object.assign(new Error('wrong'), { issues: [issue] })
    },
  },
  async register(host, { quantum }) {
    const policy = { name: ${JSON.stringify(name)} + quantum, plan() {} }
    host.registerPolicy({ name: policy.name, doc: 'Plans nothing.', create: () => policy })
  },
}
`
const withPlugin = (
  change: string,
) => `${good('changed').replace('export default', 'const plugin =')}
export default ${change}
`

function folder(t: Test): string {
  return t.testdir({
    'package.json': '{ "type": "module" }',
    'my-plugin.js': good('mine'),
    'other.mjs': good('other'),
    'common.cjs': good('common').replace('export default', 'module.exports ='),
    directory: { 'index.js': good('directory') },
    node_modules: {
      'cllm-policy': {
        'package.json': '{ "name": "cllm-policy", "exports": "./main.js", "type": "module" }',
        'main.js': good('packaged'),
      },
      '@team': {
        policy: {
          'package.json': '{ "name": "@team/policy", "main": "lib.cjs" }',
          'lib.cjs': good('scoped').replace('export default', 'module.exports ='),
        },
      },
    },
    'syntax.js': 'export default {',
    'missing.js': `import 'no-such-package'`,
    'throws.js': `throw new Error('not today')`,
    'named.js': 'export const plugin = {}',
    'function.js': 'export default () => {}',
    'old.js': withPlugin('{ ...plugin, apiVersion: 0 }'),
    'nameless.js': withPlugin(`{ ...plugin, name: '' }`),
    'schema.js': withPlugin('{ ...plugin, options: {} }'),
    'unregistered.js': withPlugin('{ ...plugin, register: undefined }'),
    'plain.js': withPlugin('{ ...plugin, options: undefined }'),
    'failing.js': withPlugin(`{ ...plugin, register() { throw new Error('no host') } }`),
    'unfinished.js': withPlugin(
      `{ ...plugin, register: async (host) => host.registerPolicy({ name: 'x' }) }`,
    ),
  })
}

t.test('plugins by path and by package name', async (t) => {
  const from = folder(t)
  const registry = new PluginRegistry()
  await loadPlugins(
    [
      { use: './my-plugin.js', options: { quantum: 3 } },
      { use: './other' },
      { use: './common.cjs', options: {} },
      { use: './directory' },
      { use: 'cllm-policy' },
      { use: '@team/policy' },
      { use: join(from, 'my-plugin.js'), options: { quantum: 4 } },
    ],
    { from, registry },
  )
  t.same(registry.policyNames(), [
    'common7',
    'directory7',
    'mine3',
    'mine4',
    'other7',
    'packaged7',
    'scoped7',
  ])
})

t.test('errors name the entry and what is wrong', async (t) => {
  const from = folder(t)
  const fails = async (entry: PluginEntry, code: string, message: string | RegExp) => {
    const registry = new PluginRegistry()
    const entries = [{ use: './other.mjs' }, entry]
    await t.rejects(loadPlugins(entries, { from, registry }), { code, message }, entry.use)
  }
  const wrong = 'plug-in "./my-plugin.js": option "quantum": expected number, received string'
  await fails({ use: './my-plugin.js', options: { quantum: '3' } }, 'invalid_configuration', wrong)
  await fails(
    { use: './plain.js', options: { quantum: 3 } },
    'invalid_configuration',
    'plug-in "./plain.js": there is no option "quantum" (it has no options)',
  )
  const found = /^plug-in "\.?\/?[\w-]+(\.js)?": there is no such package or file, looked up/
  await fails({ use: './no-such.js' }, 'plugin_not_found', found)
  await fails({ use: 'no-such-package' }, 'plugin_not_found', found)
  const noIndex =
    'plug-in "./node_modules": expected a file, or a folder with index.js, instead got '
  await fails({ use: './node_modules' }, 'plugin_not_found', `${noIndex}a folder without it`)
  await fails({ use: 'my-plugin.js' }, 'plugin_not_found', /did you mean "\.\/my-plugin\.js"\?$/)
  await fails({ use: './syntax.js' }, 'plugin_not_found', /"\.\/syntax.js": it cannot be loaded: /)
  await fails({ use: './missing.js' }, 'plugin_not_found', /cannot be loaded: .*no-such-package/)
  await fails({ use: './throws.js' }, 'plugin_not_found', /cannot be loaded: not today/)
  await fails({ use: './named.js' }, 'plugin_invalid', /expected a default export made with/)
  await fails({ use: './function.js' }, 'plugin_invalid', /expected a default export made with/)
  await fails({ use: './old.js' }, 'plugin_invalid', /expected apiVersion 1, instead got 0/)
  await fails({ use: './nameless.js' }, 'plugin_invalid', /to have a name/)
  await fails({ use: './schema.js' }, 'plugin_invalid', /a schema with a method parse/)
  await fails({ use: './unregistered.js' }, 'plugin_invalid', /register to be a function/)
  await fails({ use: './failing.js' }, 'plugin_invalid', 'plug-in "./failing.js": no host')
  await fails({ use: './unfinished.js' }, 'plugin_invalid', /unfinished.*a function that makes it/)
  await fails(
    { use: './other.mjs' },
    'plugin_conflict',
    'plug-in "./other.mjs": A policy named "other7" is registered already',
  )
})

t.test('a plugin made in code', async (t) => {
  const seen: number[] = []
  const plugin = definePlugin({
    name: 'in-code',
    apiVersion: 1,
    options: z.object({ quantum: z.number().default(5), label: z.string().optional() }),
    register(_, { quantum }) {
      seen.push(quantum)
    },
  })
  await registerPlugin(plugin, new PluginRegistry())
  await registerPlugin(plugin, new PluginRegistry(), { quantum: 6 })
  t.same(seen, [5, 6])
  await t.rejects(registerPlugin(plugin, new PluginRegistry(), { quantum: '6', label: 1 }), {
    code: 'invalid_configuration',
    message:
      'in-code: option "quantum": expected number, received string; ' +
      'option "label": expected string, received number',
    details: { plugin: 'in-code' },
  })
})

/** An engine that uses these parts of a registry. */
function engineWith(registry: PluginRegistry, use: PartChoice) {
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ clock, slots: 2, stepMs: () => 10 })
  const policy = firstComeFirstServed
  const engine = createEngine({ backend, policy, clock, random: counting(), registry, use })
  const client = new LocalEngineClient(engine, registry, counting())
  const ask = async (prompt: readonly number[], more = {}) =>
    await drive(clock, collect(client.submit({ ...greedy(prompt, 4), ...more })))
  return { backend, ask, client, engine }
}

/** The object with other methods before its own. */
const over = <T extends object>(original: T, methods: Partial<T>): T =>
  new Proxy(original, {
    get(target, name) {
      const value: unknown = Reflect.get(methods, name) ?? Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })

t.test('each part can be replaced by name, or added to', async (t) => {
  const registry = new PluginRegistry()
  const checked: string[] = []
  registry.provide(ADMISSION, 'no-threes', ({ original }): Admission => {
    const limits = original()
    return {
      checkCount: (arriving, now) => limits.checkCount(arriving, now),
      check(sequence, now) {
        checked.push(sequence.id)
        if (sequence.promptTokens === 3) throw new CllmError('queue_full', 'no threes')
        limits.check(sequence, now)
      },
    }
  })
  registry.provide(WAIT_PREDICTOR, 'a-minute', ({ get, original }) => {
    t.equal(get(BACKEND).limits.slots, 2)
    const forecast = { position: 7, queueMs: 60_000, firstTokenMs: 60_000 }
    return over(original(), { forecast: () => forecast })
  })
  const acquired: string[] = []
  registry.provide(KV_CACHE_MANAGER, 'listed', ({ original }) => {
    const kv = original()
    return over(kv, {
      async acquire(sequence) {
        acquired.push(sequence.id)
        await kv.acquire(sequence)
      },
    })
  })
  registry.provide(PREFIX_INDEX, 'blind', ({ original }): PrefixIndex => {
    const matches = function* () {}
    return over(original(), { matches })
  })
  const logged: unknown[] = []
  const log = (_: unknown, message?: string): void => void logged.push(message)
  registry.provide(LOGGER, 'kept', (): Logger => ({ debug: log, info: log, warn: log, error: log }))
  registry.provide(TOKENIZER, 'fives', ({ original }): Tokenizer =>
    over(original(), { encode: () => [5, 5, 5, 5, 5] }),
  )

  const prompt = promptOf(100)
  const plain = engineWith(registry, {})
  await plain.ask(prompt)
  const again = await plain.ask(prompt)
  t.ok((again.end?.usage.cachedTokens ?? 0) > 90, 'what is provided and not chosen is not used')
  t.same(checked, [])

  const use = {
    admission: 'no-threes',
    'wait-predictor': 'a-minute',
    'kv-cache-manager': 'listed',
    'prefix-index': 'blind',
    logger: 'kept',
    tokenizer: 'fives',
  }
  const made = engineWith(registry, use)
  await made.ask(prompt, { id: 'a' })
  const second = await made.ask(prompt, { id: 'b', forecast: true })
  t.equal(second.end?.usage.cachedTokens, 0, 'the index finds nothing')
  t.match(await made.client.explain('b'), { forecast: { position: 7 } })
  const text = await made.ask([], { prompt: { text: 'anything' }, id: 'c' })
  t.equal(text.end?.usage.promptTokens, 5)
  t.equal((await made.ask([1, 2, 3], { id: 'd' })).error?.message, 'no threes')
  t.same(checked, ['a', 'b', 'c', 'd'])
  t.same(acquired, ['a', 'b', 'c'])
})

t.test('a part that throws ends the engine with the error, and no request hangs', async (t) => {
  const registry = new PluginRegistry()
  registry.provide(KV_CACHE_MANAGER, 'broken', ({ original }) =>
    over(original(), {
      onAdvanced() {
        throw new Error('broken part')
      },
    }),
  )
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ clock, slots: 1, stepMs: () => 10 })
  const policy = firstComeFirstServed
  const use = { 'kv-cache-manager': 'broken' }
  const engine = createEngine({ backend, policy, clock, random: counting(), registry, use })
  const client = new LocalEngineClient(engine, registry, counting())
  const [first, second] = [greedy([5], 2), greedy([6], 2)].map((ask) => collect(client.submit(ask)))
  t.match((await drive(clock, first!)).error, { message: /broken part/ })
  t.match((await drive(clock, second!)).error, { message: /broken part/ })
  t.match(await engine.failed(), { message: /broken part/ })
  t.match((await collect(client.submit(greedy([7], 1)))).error, { code: 'shutting_down' })
  await client.close()
})

t.test('a KV cache that fails at a request of many leaves none without an answer', async (t) => {
  const engineOver = (methods: Partial<KVCacheManager>) => {
    const registry = new PluginRegistry()
    registry.provide(KV_CACHE_MANAGER, 'broken', ({ original }) => over(original(), methods))
    return engineWith(registry, { 'kv-cache-manager': 'broken' })
  }
  const broken = (): never => {
    throw new Error('broken part')
  }
  const releasing = engineOver({ release: broken })
  const asked = [1, 2, 3, 4].map((count) => releasing.ask([5, count], { maxTokens: count }))
  for (const { end, error } of await Promise.all(asked)) t.ok(end ?? error)
  const full = engineOver({ isPool: true, admits: async () => false })
  t.match((await full.ask([5])).error, { message: /has no room for a request that is alone/ })
  const refusing = engineOver({ onWaiting: ({ id }) => id === 'bad' && broken() })
  const [bad, good] = await Promise.all(['bad', 'good'].map((id) => refusing.ask([5, 6], { id })))
  t.match(bad, { error: { message: 'kv-cache-manager "broken": onWaiting: broken part' } })
  t.equal(good?.tokens.length, 4)
  const sampling = engineOver({ onWaiting: ({ id }) => id === '2' && broken() })
  const samples = [0, 1, 2].map((sample) => sampling.ask([5, 6], { id: `${sample}`, sample }))
  const [first, second, third] = await Promise.all(samples)
  t.match(
    [first?.tokens.length, second?.tokens.length, third?.error],
    [4, 4, { code: 'plugin_invalid' }],
  )
  const onAdvanced = (): never => {
    throw new Error('the first failure')
  }
  const failing = engineOver({ onAdvanced, release: broken })
  t.match((await failing.ask([5])).error, { message: /: onAdvanced: the first failure$/ })
  t.match(await failing.engine.failed(), { message: /: onAdvanced: the first failure$/ })
})

t.test(
  'an observer that empties or sorts what it is told of takes nothing from others',
  async (t) => {
    const registry = new PluginRegistry()
    registry.provide(ENGINE_OBSERVER, 'thief', () => ({
      onEvents: (events) => void (events as unknown[]).splice(0),
      onStepStart: (parts) => void (parts as unknown[]).reverse(),
    }))
    const { ask } = engineWith(registry, {})
    const alone = await Promise.all(
      [1, 2].map((n) => engineWith(new PluginRegistry(), {}).ask([n])),
    )
    const both = await Promise.all([1, 2].map((n) => ask([n])))
    const textsOf = (answers: typeof both) => answers.map(({ tokens }) => tokens)
    t.same(textsOf(both), textsOf(alone))
    t.match(await ask([-1]), { error: { code: 'invalid_token' } })
  },
)

t.test('an admission that is async after all is told, and admits nobody', async (t) => {
  for (const name of ['check', 'checkCount']) {
    const registry = new PluginRegistry()
    registry.provide(ADMISSION, 'late', ({ original }) =>
      over(original(), { [name]: () => Promise.reject(new Error('too late')) }),
    )
    const { ask } = engineWith(registry, { admission: 'late' })
    const message = `${name} of the admission returned a promise: it is synchronous`
    t.equal((await ask([5])).error?.message, message)
  }
})

t.test('a part that create does not make is named', async (t) => {
  for (const made of [undefined, 7, Promise.reject(new Error('async'))]) {
    for (const [part, use] of [
      [ADMISSION, { admission: 'empty' }],
      [ENGINE_OBSERVER, {}],
    ] as const) {
      const registry = new PluginRegistry()
      registry.provide<unknown>(part, 'empty', () => made)
      const message = /(admission|engine-observer) "empty": create made no object, instead got/
      t.throws(() => engineWith(registry, use), { message })
    }
  }
})

t.test('a part that lacks a method is named before it is asked for it', (t) => {
  for (const [part, method] of [
    ['admission', 'checkCount'],
    ['kv-cache-manager', 'lookUp'],
    ['logger', 'debug'],
    ['prefix-index', 'matches'],
    ['tokenizer', 'encode'],
    ['wait-predictor', 'forecast'],
  ] as const) {
    const registry = new PluginRegistry()
    registry.provide<unknown>(replaceableParts[part]!, 'empty', () => ({}))
    const made = `${part} "empty": create made no ${part}, which has `
    const message = new RegExp(`${made}an? ${method} method`)
    t.throws(() => engineWith(registry, { [part]: 'empty' }), { message })
  }
  t.end()
})

t.test('a tokenizer may give the same list again', async (t) => {
  const registry = new PluginRegistry()
  const known = [5, 6, 7]
  registry.provide(TOKENIZER, 'cached', ({ original }) => over(original(), { encode: () => known }))
  const { ask } = engineWith(registry, { tokenizer: 'cached' })
  for (const _ of [1, 2]) {
    const { end } = await ask([], { prompt: { text: 'anything' } })
    t.equal(end?.usage.promptTokens, 3)
  }
  t.same(known, [5, 6, 7])
})

t.test('a logger that fails ends nothing, and loses no line', async (t) => {
  const failing = (): never => {
    throw new Error('disk full')
  }
  const rejecting = async () => failing()
  for (const broken of [failing, rejecting]) {
    const registry = new PluginRegistry()
    const methods = { debug: broken, info: broken, warn: broken, error: broken }
    registry.provide(LOGGER, 'mine', () => methods)
    const told: string[] = []
    const error = (_: unknown, message: string): void => void told.push(message)
    const logger = registry.createLogger({ logger: 'mine' }, { ...silentLogger, error })
    logger.error({}, 'first')
    logger.error({}, 'second')
    await new Promise(setImmediate)
    t.same(told, ['logger "mine" failed; what it does not take goes here', 'first', 'second'])
  }
})

t.test('a plugin that never comes to its end is named', async (t) => {
  const from = t.testdir({ 'endless.mjs': 'await new Promise(() => {})' })
  const clock = new SimulatedClock(0)
  const registry = new PluginRegistry()
  const loading = loadPlugins([{ use: './endless.mjs' }], { from, registry, clock })
  await t.rejects(drive(clock, loading), {
    code: 'plugin_invalid',
    message: /"\.\/endless\.mjs": it is/,
  })
})

t.test('what cannot be provided or chosen is refused with the valid names', (t) => {
  const registry = new PluginRegistry()
  const create = (): Admission => ({ checkCount() {}, check() {} })
  registry.provide(ADMISSION, 'open', create)
  t.throws(() => registry.provide(ADMISSION, 'open', create), { code: 'plugin_conflict' })
  t.throws(() => registry.provide(token('Other'), 'open', create), { code: 'plugin_invalid' })
  t.throws(() => registry.provide(ADMISSION, '', create), { code: 'plugin_invalid' })
  const wrong: [PartChoice, RegExp][] = [
    [
      { admission: 'opem' },
      /use\.admission: expected one of open, instead got "opem"; did you mean/,
    ],
    [{ admision: 'open' }, /use: expected one of admission, .*instead got "admision"/],
    [{ 'prefix-index': 'x' }, /use\.prefix-index: no plug-in provides one, instead got "x"/],
  ]
  for (const [use, message] of wrong) {
    t.throws(() => engineWith(registry, use), { code: 'invalid_configuration', message })
  }
  t.end()
})

t.test('what is made outside of an engine', async (t) => {
  const registry = new PluginRegistry()
  const original = { ...silentLogger }
  const lines: string[] = []
  const mine: Logger = { ...silentLogger, info: (_, message) => void lines.push(message) }
  t.equal(registry.createLogger({}, original), original)
  registry.provide(LOGGER, 'mine', (context) => {
    t.equal(context.original(), original)
    t.type(context.get(CLOCK).now(), 'number')
    t.throws(() => context.get(BACKEND), { code: 'plugin_invalid', message: /CLOCK/ })
    return mine
  })
  registry.createLogger({ logger: 'mine' }, original).info({}, 'a line')
  t.same(lines, ['a line'])
  t.throws(() => registry.createLogger({ logger: 'mein' }, original), {
    code: 'invalid_configuration',
    message: 'use.logger: expected one of mine, instead got "mein"; did you mean "mine"?',
  })
  t.throws(() => registry.parts.check({ tokeniser: 'mine' }), {
    code: 'invalid_configuration',
    message: /^use: expected one of .*tokenizer.* "tokeniser"; did you mean "tokenizer"\?$/,
  })

  const source = { fetch: async (spec: string) => ({ path: `/store/${spec}` }) }
  registry.provide(MODEL_SOURCE, 'store', () => source)
  t.same([...registry.modelSources()], [['store', source]])
  t.throws(() => registry.provide(MODEL_SOURCE, 'store', () => source), { code: 'plugin_conflict' })
  t.throws(() => registry.provide(MODEL_SOURCE, 'hf', () => source), { code: 'plugin_conflict' })
  for (const scheme of ['C', 'My Store', 'a/b']) {
    t.throws(() => registry.provide(MODEL_SOURCE, scheme, () => source), {
      code: 'plugin_invalid',
      message: /scheme/,
    })
  }
})

t.test('a misspelt option is told, though the schema would drop it', async (t) => {
  const options = z.object({ limitMs: z.number().default(1000) })
  const plugin = definePlugin({ name: 'slow', apiVersion: 1, options, register() {} })
  await t.rejects(registerPlugin(plugin, new PluginRegistry(), { limitMS: 500 }), {
    code: 'invalid_configuration',
    message:
      'slow: there is no option "limitMS" (its options are limitMs); did you mean "limitMs"?',
  })
  const loose = definePlugin({ ...plugin, options: z.looseObject(options.shape) })
  await registerPlugin(loose, new PluginRegistry(), { limitMS: 500 })
})
