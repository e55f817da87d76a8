import { readFileSync } from 'node:fs'
import { type PartToken, PluginRegistry, definePlugin, token } from '@cllm/core'
import { registerPlugin } from '@cllm/host'
import { testProtocol } from '@cllm/testing'
import {
  API_DEFAULTS,
  LOG_LEVEL,
  type KoaProtocolsOptions,
  Services,
  createKoaProtocols,
  defineProtocol,
  protocolsPlugin,
} from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { clientKind, testEach } from '../each-client.js'
import { serveDirectory } from '../serve-directory.js'
import { serve } from '../serve.js'
import { messagesProtocol } from './messages-protocol.js'

type Definitions = Parameters<PluginRegistry['registerProtocol']>[0][]

const path = '/v1/answers'
const user = (content: string) => ({ messages: [{ role: 'user', content }] })

/** The built-in protocols, then those of a plug-in. */
async function registryWith(...definitions: Definitions): Promise<PluginRegistry> {
  const registry = new PluginRegistry()
  await registerPlugin(protocolsPlugin, registry)
  const plugin = definePlugin({
    name: 'mine',
    apiVersion: 1,
    register(host) {
      for (const definition of definitions) host.registerProtocol(definition)
    },
  })
  await registerPlugin(plugin, registry)
  return registry
}

async function serveNamed(t: Test, registry: PluginRegistry, options: KoaProtocolsOptions = {}) {
  const protocols = createKoaProtocols(registry, options)
  const server = await serve({ protocols, backend: { endProbability: 0 } })
  t.teardown(() => server.close())
  return server
}

testEach('a protocol of a plug-in passes the suite', async (t) => {
  const registry = await registryWith(messagesProtocol)
  const create = () => createKoaProtocols(registry, { names: ['answers'] })[0]!
  await testProtocol(t, serveDirectory(create), {
    client: clientKind(),
    request: (prompt, max_tokens, stream) => ({
      path,
      body: JSON.stringify({ ...user(prompt), max_tokens, stream }),
    }),
  })
})

t.test('it is served and described beside the built-in ones, with errors of its own', async (t) => {
  const registry = await registryWith(messagesProtocol)
  const server = await serveNamed(t, registry, { options: { answers: { max_tokens: 3 } } })
  t.match(await (await server.post(path, user('a'))).json(), {
    type: 'message',
    content: [{ type: 'text', text: /./ }],
    usage: { output_tokens: 3 },
  })
  const stream = await (await server.post(path, { ...user('a'), stream: true })).text()
  t.match(stream, /^event: message_start\n/)
  t.match(stream, /event: message_stop\ndata: .*\n\n$/)

  const wrong = await server.post(path, { messages: [] })
  t.equal(wrong.status, 400)
  t.match(await wrong.json(), { type: 'error', error: { message: /at least one message/ } })
  const elsewhere = await server.post('/v1/nothing', {})
  t.match(await elsewhere.json(), { error: { code: 'not_found', param: null } }, "OpenAI's words")

  const { paths } = (await (await server.get('/openapi.json')).json()) as { paths: object }
  t.hasProps(paths, [path, '/v1/chat/completions', '/metrics', '/docs'])
})

t.test('the protocols are made by name, with checked options', async (t) => {
  const registry = await registryWith(messagesProtocol)
  const names = (options?: KoaProtocolsOptions) =>
    createKoaProtocols(registry, options).map(({ name }) => name)
  t.same(names(), registry.protocolNames(), 'every registered one')
  t.same(names({ names: ['answers', 'native', 'native'] }), ['answers', 'native'])
  const code = 'invalid_configuration'
  t.throws(() => names({ names: ['answer'] }), { code, message: /did you mean "answers"/ })
  t.throws(() => names({ options: { openapi: { a: 1 } } }), { code, message: /it has no options/ })
  t.throws(() => names({ options: { anwers: {} } }), {
    code,
    message: /protocol_options: .*anwers/,
  })
  t.throws(() => names({ options: { native: { top_p: 2 } } }), {
    code,
    message: /protocol "native": option "top_p": a number from 0 to 1/,
  })
})

t.test('a protocol in plain JavaScript that would serve nothing is told', async (t) => {
  for (const made of [{}, { route: [] }, { routes: {} }]) {
    const create = () => ({ name: 'mute', ...made }) as never
    const registry = await registryWith(defineProtocol({ name: 'mute', doc: '-', create }))
    const message = /protocol "mute": create made one without a list of `routes`/
    t.throws(() => createKoaProtocols(registry), { code: 'plugin_invalid', message })
  }
})

t.test('a built-in protocol is replaced on purpose only', async (t) => {
  const mine = (replaces: boolean) =>
    defineProtocol({
      name: 'openai',
      doc: 'Lists one model.',
      replaces,
      create: () => ({
        name: 'openai',
        mount(router) {
          router.get('/v1/models', (ctx) => void (ctx.body = ['mine']))
        },
      }),
    })
  await t.rejects(registryWith(mine(false)), { code: 'plugin_conflict', message: /replaces: true/ })
  const server = await serveNamed(t, await registryWith(mine(true)))
  t.same(await (await server.get('/v1/models')).json(), ['mine'])
  t.equal((await server.post('/v1/completions', { prompt: 'a' })).status, 404)
})

t.test("the operator's defaults, and those of one protocol's options", async (t) => {
  const server = await serveNamed(t, await registryWith(), {
    services: new Services().set(API_DEFAULTS, { maxTokens: 5 }),
    options: { openai: { max_tokens: 2 }, ollama: { max_tokens: 4, temperature: 0 } },
  })
  const ask = async (path: string, body: object) => await (await server.post(path, body)).json()
  t.match(await ask('/generate', { prompt: 'a' }), { data: { generated_tokens: 5 } })
  t.match(await ask('/v1/completions', { prompt: 'a' }), { usage: { completion_tokens: 2 } })
  const raw = { model: 'fake', prompt: 'a', raw: true, stream: false }
  t.match(await ask('/api/generate', raw), { eval_count: 4 })
})

t.test('a protocol gets services by token, its own as well', async (t) => {
  const GREETING: PartToken<string> = token('Greeting')
  const greeting = defineProtocol({
    name: 'greeting',
    doc: 'Greets.',
    create: (_options, services) => ({
      name: 'greeting',
      routes: [
        {
          method: 'get',
          path: '/greeting',
          access: 'open',
          summary: 'A greeting',
          handle: () => [services.get(GREETING), services.get(LOG_LEVEL)?.level ?? 'none'],
        },
      ],
    }),
  })
  const services = new Services().set(GREETING, 'Hello')
  const server = await serveNamed(t, await registryWith(greeting), { services })
  t.same(await (await server.get('/greeting')).json(), ['Hello', 'none'])
})

const root = new URL('../../../..', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')

t.test('the code of the README is that of the tested examples', (t) => {
  const blocks = Array.from(
    read('packages/http-koa/README.md').matchAll(/```js\n([^]*?)```/g),
    ([, code]) => code,
  )
  const examples = ['examples/compose-server/server.js', 'examples/protocol-plugin/plain-text.js']
  t.same(
    blocks,
    examples.map((path) => read(path).replace('// @ts-check\n', '')),
  )
  t.end()
})
