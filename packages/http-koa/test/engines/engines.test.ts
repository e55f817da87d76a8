import {
  CllmError,
  type EngineClient,
  PluginRegistry,
  type Recording,
  createEngine,
  silentLogger,
  systemClock,
  systemRandom,
} from '@cllm/core'
import { LocalEngineClient, ModelPool, createServer } from '@cllm/host'
import { FakeBackend, testEngineClient, testEngineDirectory } from '@cllm/testing'
import { koaTransport, watchEngines } from '@cllm/http-koa'
import t from 'tap'
import { wrappedPool } from '../conformance-engines.js'
import { addressOf, ask as askFor, errorShape, everyProtocol, everyRoute } from '../every-route.js'
import { runAll } from '../serve.js'

/** Two models, one of which fits, whose engines have a recorder that says which engine it is. */
async function servePool() {
  const loads: string[] = []
  const load = async (name: string) => {
    loads.push(name)
    const engine = createEngine({ backend: new FakeBackend({ id: name }), policy: runAll })
    const registry = new PluginRegistry()
    registry.registerPolicy({ name: 'run-all', doc: 'All at once.', create: () => runAll })
    const client: EngineClient = new LocalEngineClient(engine, registry, systemRandom)
    const nth = loads.length
    client.recording = async () => ({ kind: 'recording', model: name, nth }) as unknown as Recording
    return { client, close: async () => await client.close() }
  }
  const models = ['a', 'b'].map((name) => ({ name, load: async () => await load(name) }))
  const directory = new ModelPool({ models, options: { maxLoaded: 1 } })
  const transports = [koaTransport({ port: 0, protocols: everyProtocol })]
  const server = createServer({ directory, transports })
  const [address] = await server.listen()
  const ask = async (path: string, asked: Parameters<typeof askFor>[1] = {}) => {
    const { status, text } = await askFor(`${address?.url}${path}`, asked)
    return { status, text, json: () => JSON.parse(text) as object }
  }
  return { loads, directory, ask, close: () => server.close() }
}

const looks = [
  ...everyRoute.filter(({ method }) => method === 'get').map(addressOf),
  '/health?level=full',
  '/health?level=detailed',
]

t.test('looking never loads a model', async (t) => {
  const { loads, directory, ask, close } = await servePool()
  t.teardown(close)
  const lookAtAll = async () => {
    for (const path of looks) {
      for (const model of ['', 'a', 'b']) {
        const query = model === '' ? '' : `${path.includes('?') ? '&' : '?'}model=${model}`
        for (const method of ['GET', 'HEAD']) {
          const { status, text } = await ask(path + query, { method })
          t.ok(status < 400 || [400, 404, 503].includes(status), `${path}${query}: ${status}`)
          if (status >= 400 && text !== '') t.match(JSON.parse(text), errorShape(path), path)
        }
      }
    }
    for (const model of ['a', 'b']) {
      const body = JSON.stringify({ model })
      t.equal((await ask('/api/show', { method: 'POST', body })).status, 200)
    }
  }
  await lookAtAll()
  t.same(loads, [], 'none was needed')
  for (const path of ['/admin/scheduler', '/admin/recorder', '/props?model=a', '/model/info']) {
    const { status, text } = await ask(path)
    t.equal(status, 503, path)
    t.match(text, /The model a is not in memory.*no engine is loaded/)
  }
  t.match(
    (await ask('/props')).json(),
    { role: 'router', models_autoload: true, max_instances: 1 },
    'of all models',
  )
  const recorded = async (model: string) => (await ask(`/admin/recorder?model=${model}`)).json()

  await directory.load('b')
  await lookAtAll()
  t.same([loads, directory.status('b').state], [['b'], 'loaded'], 'the one in use stays')
  t.match((await ask('/admin/scheduler')).text, /a is not in memory.*\?model= takes b"/)
  t.match((await ask('/admin/scheduler?model=b')).json(), { data: { policy: 'run-all' } })
  t.same(await recorded('b'), { kind: 'recording', model: 'b', nth: 1 })

  await directory.load('a')
  await lookAtAll()
  t.same([loads, directory.status('b').state], [['b', 'a'], 'unloaded'])
  t.same(await recorded('b'), { kind: 'recording', model: 'b', nth: 1 }, 'it outlives its model')
  t.match((await ask('/admin/scheduler?model=b')).json(), {
    data: { policy: 'run-all', policyFaults: 0, available: [{ name: 'run-all' }] },
  })
  t.match((await ask('/props?model=b')).json(), { is_sleeping: true })

  await directory.load('b')
  t.same(await recorded('b'), { kind: 'recording', model: 'b', nth: 3 }, 'now it is another one')
  t.same(await recorded('a'), { kind: 'recording', model: 'a', nth: 2 })
})

t.test('a front whose workers are all of another version says so', async (t) => {
  const { directory, ask, close } = await servePool()
  t.teardown(close)
  t.equal((await ask('/health')).status, 200, 'a model that is not there yet may come')
  t.equal((await ask('/health/ready')).status, 200, 'as a front is without workers')
  const status = directory.status.bind(directory)
  const error = new CllmError('cluster_unavailable', 'No worker can be used: WHY')
  directory.status = (id) => ({ ...status(id), error })
  for (const path of ['/health', '/health/ready', '/health?level=detailed', '/health?level=full']) {
    const { status: code, text } = await ask(path)
    t.equal(code, 503, path)
    t.match(text, 'No worker can be used: WHY', path)
  }
  t.match((await ask('/health?level=detailed')).json(), {
    data: { healthy: false, components: { model_executor: false, tokenizer: true } },
  })
  t.equal((await ask('/health/live')).status, 200)
  await directory.load('b')
  directory.status = (id) => (id === 'a' ? { ...status(id), error } : status(id))
  t.equal((await ask('/health')).status, 200, 'another model can be used')
})

t.test('an engine that does not give its recording is unloaded all the same', async (t) => {
  const { directory, ask, close } = await servePool()
  t.teardown(close)
  await directory.load('b')
  directory.open('b', { peek: true }).recording = async () => {
    throw new Error('no')
  }
  await directory.unload('b')
  t.equal(directory.status('b').state, 'unloaded')
  t.equal((await ask('/admin/recorder?model=b')).status, 400)
})

t.test('who was told of a request that a later observer refuses hears of its end', async (t) => {
  const refusal = new CllmError('rate_limited', 'no more today')
  const heard: unknown[] = []
  const told = {
    onSubmit: () => ({ onEvent() {}, onEnd: (_: number, e?: Error) => heard.push(e) }),
  }
  const refusing = {
    onSubmit: () => {
      throw refusal
    },
  }
  const { client, dispose } = wrappedPool((all) =>
    watchEngines(all, { observers: [told, refusing], clock: systemClock }),
  )
  t.teardown(dispose)
  t.throws(() => client.submit({ prompt: { text: 'The' } }), refusal)
  t.same(heard, [refusal])
})

t.test('an observer that fails keeps a request from nobody, and is logged once', async (t) => {
  const defect = new Error('a defect of a plug-in')
  const [heard, log]: [unknown[], object[]] = [[], []]
  const failing = () => {
    throw defect
  }
  const watches = [
    { onEvent: failing, onEnd: failing },
    { onEvent() {}, onEnd: () => heard.push('end') },
  ]
  const observers = watches.map((watch) => ({ onSubmit: () => watch }))
  const logger = { ...silentLogger, error: (line: object) => void log.push(line) }
  const { client, dispose } = wrappedPool((all) =>
    watchEngines(all, { clock: systemClock, observers, logger }),
  )
  t.teardown(dispose)
  const types: string[] = []
  for await (const { type } of client.submit({ prompt: { text: 'The' }, maxTokens: 1 })) {
    types.push(type)
  }
  t.equal(types.at(-1), 'end')
  t.same(heard, ['end'])
  t.match(log, [{ err: defect }])
  t.equal(log.length, 1)
})

/** Embeds an input of 7 tokens; these observers hear of it, as plain JavaScript may have them. */
async function embedWith(...observers: readonly object[]) {
  const onSubmit = () => ({ onEvent() {}, onEnd() {} })
  const client = { embed: async () => ({ vector: [1], promptTokens: 7 }) }
  const engines = { nameOf: () => 'fake', open: () => client } as never
  const watch = { clock: systemClock, observers: observers.map((one) => ({ onSubmit, ...one })) }
  return await watchEngines(engines, watch).open().embed({ text: 'a' })
}

t.test('an observer that refuses inputs in a promise lets none of them in', async (t) => {
  const onEmbed = async () => await Promise.reject(new Error('no luck'))
  const message = 'onEmbed returned a promise: it is synchronous'
  await t.rejects(embedWith({ onEmbed }), { message })
})

t.test('who hears of an input hears of it once, though a later observer fails', async (t) => {
  const heard: number[] = []
  const failing = (): void => {
    throw new Error('no luck')
  }
  const embedding = embedWith(
    { onEmbedded: ({ tokens }: { tokens: number }) => void heard.push(tokens) },
    { onEmbedded: failing },
  )
  t.same((await embedding).vector, [1], 'and it was embedded')
  t.same(heard, [7])
})

let submitted = 0
let ended = 0
const observer = {
  onSubmit: () => {
    submitted++
    return { onEvent: () => {}, onEnd: () => void ended++ }
  },
}
const observed = () =>
  wrappedPool((directory) => watchEngines(directory, { observers: [observer], clock: systemClock }))

await testEngineClient(t, 'observed', observed)
await testEngineDirectory(t, 'observed', observed)
t.ok(submitted > 50, `${submitted} requests were observed`)
t.equal(ended, submitted, 'each of them to its end')
