import { createServer, LocalEngineClient } from '@cllm/host'
import {
  type EngineClient,
  PluginRegistry,
  SimulatedClock,
  systemClock,
  type TransportContext,
  type TransportFactory,
} from '@cllm/core'
import {
  drive,
  FakeBackend,
  FakeTokenizer,
  runUntilIdle,
  firstComeFirstServed,
} from '@cllm/testing'
import t from 'tap'
import { collect, counting, greedy, promptOf, rig } from '../../../core/test/rig.js'

/** Transports that remember what was asked of them. */
function transports() {
  const contexts: TransportContext[] = []
  const closed: number[] = []
  const transport =
    (name: string, failure?: Error): TransportFactory =>
    (context) => {
      contexts.push(context)
      return {
        name,
        listen: async () => ({ url: `test://${name}` }),
        close: async (deadline) => {
          closed.push(deadline)
          if (failure !== undefined) throw failure
        },
      }
    }
  return { contexts, closed, transport }
}

function inProcess(options: { readonly failure?: Error } = {}) {
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ id: 'tiny', clock, stepMs: () => 10 })
  const made = transports()
  const registry = new PluginRegistry()
  const create = () => ({ ...firstComeFirstServed, name: 'other' })
  registry.registerPolicy({ name: 'other', doc: 'Another one.', create })
  const server = createServer({
    backend,
    policy: firstComeFirstServed,
    clock,
    random: counting(),
    registry,
    transports: [made.transport('one', options.failure), made.transport('two')],
  })
  return { ...made, clock, backend, server }
}

t.test('a server in this process', async (t) => {
  const { clock, server, contexts, closed, backend } = inProcess()
  t.same(await server.listen(), [{ url: 'test://one' }, { url: 'test://two' }])
  for (const context of contexts) {
    // the same engines; presets can name them, too
    t.equal(context.directory.open(), server.directory.open())
    t.same(context.directory.presets?.list(), [])
    t.equal(context.clock, clock)
  }
  t.same(server.directory.list(), ['tiny'])
  const client = server.directory.open()
  t.equal(server.directory.open('tiny'), client)
  t.throws(() => server.directory.open('big'), {
    code: 'model_not_found',
    status: 404,
    message: /expected one of tiny, instead got "big"/,
  })
  t.equal((await drive(clock, collect(client.submit(greedy([5], 3))))).tokens.length, 3)
  t.same(await client.setScheduler('other'), { policy: 'other', options: {} })

  const last = collect(client.submit(greedy([5], 5)))
  await runUntilIdle(clock, clock.now() + 5)
  const from = clock.now()
  const closing = server.close(1000)
  t.match((await collect(client.submit(greedy([5], 5)))).error, { code: 'shutting_down' })
  await drive(clock, closing)
  t.same(closed, [from + 2045, from + 2045], 'with time for the last events')
  t.equal((await last).tokens.length, 5, 'what runs may finish')
  t.equal(clock.now(), from + 45, 'and no longer is waited')
  t.equal(clock.nextTimer(), undefined)
  await t.rejects(backend.step([]), { message: /disposed/ })
  await drive(clock, server.close())
})

t.test('the time to finish is limited', async (t) => {
  for (const graceMs of [undefined, 0, 25]) {
    const { clock, server } = inProcess()
    const answer = collect(server.directory.open().submit(greedy([5], 50)))
    await runUntilIdle(clock, 1015)
    await drive(clock, server.close(graceMs))
    t.match((await answer).error, { code: 'shutting_down' })
    t.equal(clock.now(), graceMs === 25 ? 1040 : 1020)
  }
})

t.test('a transport that fails to close is heard of, after all else is closed', async (t) => {
  const { clock, server, backend } = inProcess({ failure: new Error('stuck') })
  const answer = collect(server.directory.open().submit(greedy([5], 5)))
  await runUntilIdle(clock, 1005)
  await t.rejects(drive(clock, server.close(1000)), { message: 'stuck' })
  t.equal((await answer).tokens.length, 5)
  await t.rejects(backend.step([]), { message: /disposed/ })
})

t.test('a transport that is none, or does not drain or close, is named', async (t) => {
  const clock = new SimulatedClock(1000)
  const backend = () => new FakeBackend({ id: 'tiny', clock })
  const serve = (...given: unknown[]) =>
    createServer({
      backend: backend(),
      policy: firstComeFirstServed,
      clock,
      transports: given.map((one) => () => one) as TransportFactory[],
    })
  const message = /^transport ".*": create made no transport, which has a name and a listen method/
  for (const wrong of [undefined, {}, { name: 'deaf', close: async () => {} }]) {
    t.throws(() => serve(wrong), { code: 'plugin_invalid', message })
  }
  const closed: string[] = []
  const listen = async () => ({ url: 'test://' })
  const good = { name: 'good', listen, close: async () => void closed.push('good') }
  const boom = () => {
    throw new Error('boom')
  }
  const endless = () => new Promise<never>(() => {})
  for (const [wrong, problem] of [
    [{ drain: boom }, 'boom'],
    [{ drain: async () => boom() }, 'boom'],
    [{ close: boom }, 'boom'],
    [{ close: endless }, 'transport "bad": it is not closed 2 s after its deadline'],
  ] as const) {
    const server = serve({ ...good, name: 'bad', close: async () => {}, ...wrong }, good)
    await server.listen()
    await t.rejects(drive(clock, server.close()), { message: problem })
    const { error } = await collect(server.directory.open().submit(greedy([5], 1)))
    t.equal(error?.code, 'shutting_down')
    t.same(closed.splice(0), ['good'])
  }
  await serve({ ...good, drain: endless }).close()
  t.same(closed, ['good'], 'nobody waits for its drain')
})

t.test('a server on several engines', async (t) => {
  const first = rig({ id: 'first' })
  const second = rig({ id: 'second' })
  const { transport, contexts } = transports()
  const engines: Record<string, EngineClient> = { b: first.client, a: second.client }
  const server = createServer({ engines, transports: [transport('only')] })
  t.same(server.directory.list(), ['b', 'a'], 'the first one is the default')
  t.equal(server.directory.open(), first.client)
  t.equal(server.directory.open('a'), second.client)
  t.equal(contexts[0]?.clock, systemClock, 'real time by default')
  const [one, two] = [
    await first.ask(greedy(promptOf(9), 5)),
    await second.ask(greedy(promptOf(9), 5)),
  ]
  t.notSame(one.tokens, two.tokens)
  await server.close()
  for (const { client } of [first, second]) {
    t.match((await collect(client.submit(greedy([5], 1)))).error, { code: 'shutting_down' })
  }
})

t.test('on real time, and with all the time in the world', async (t) => {
  const warnings: string[] = []
  const onWarning = (warning: Error): void => void warnings.push(warning.message)
  process.on('warning', onWarning)
  const backend = new FakeBackend()
  const server = createServer({ backend, policy: firstComeFirstServed, transports: [] })
  const answer = collect(server.directory.open().submit(greedy([5], 200)))
  await server.close(Infinity)
  t.equal((await answer).tokens.length, 200)
  await new Promise((resolve) => setImmediate(resolve))
  process.off('warning', onWarning)
  t.same(warnings, [], 'no timer is longer than timers can be')
})

t.test('a tokenizer of one’s own', async (t) => {
  class Loud extends FakeTokenizer {
    override encode(text: string): number[] {
      return super.encode(text.toUpperCase())
    }
  }
  const clock = new SimulatedClock()
  const backend = new FakeBackend({ clock, stepMs: () => 10 })
  const tokenizer = new Loud()
  const server = createServer({
    backend,
    tokenizer,
    clock,
    policy: firstComeFirstServed,
    transports: [],
  })
  const client = server.directory.open()
  t.ok(client instanceof LocalEngineClient)
  t.same(await client.tokenize('abc'), backend.tokenizer.encode('ABC'))
  const answer = await drive(clock, collect(client.submit({ prompt: { text: 'abcd' } })))
  t.equal(answer.end?.usage.promptTokens, 5)
  await drive(clock, server.close())
})

t.test('what JavaScript has wrong is named', async (t) => {
  const backend = new FakeBackend()
  const wrong: readonly [object | undefined, RegExp][] = [
    [undefined, /^createServer: backend or engines or directory is missing$/],
    [{ backend, transports: [] }, /policy is missing/],
    [{ backend, policy: firstComeFirstServed }, /transports is missing: .*\[koaTransport\(/],
    [{ backend, polcy: 'x', transports: [] }, /no part "polcy" .*did you mean "?policy"?\?$/],
    [{ engines: {}, transports: [{}] }, /transports: expected a list such as/],
    [
      { model: 'stories15m', transports: [] },
      /no part "model" .*; a model's name is for serve of cllm$/,
    ],
  ]
  for (const [parts, message] of wrong) {
    const create = () => createServer(parts as Parameters<typeof createServer>[0])
    t.throws(create, { code: 'invalid_configuration', message }, String(message))
  }
})
