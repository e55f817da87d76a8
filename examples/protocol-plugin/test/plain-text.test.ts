import { createServer, loadPlugins, registerPlugin } from '@cllm/host'
import { PluginRegistry } from '@cllm/core'
import { FakeBackend } from '@cllm/testing'
import { createKoaProtocols, koaTransport, protocolsPlugin } from '@cllm/http-koa'
import { createPolicy } from '@cllm/scheduler'
import t from 'tap'
import { fileURLToPath } from 'node:url'

const registry = new PluginRegistry()
await registerPlugin(protocolsPlugin, registry)
const from = fileURLToPath(new URL('..', import.meta.url))
await loadPlugins([{ use: './plain-text.js' }], { from, registry })

t.test('a protocol from a plugin beside the built-in ones', async (t) => {
  const protocols = createKoaProtocols(registry, { options: { 'plain-text': { path: '/tell' } } })
  const server = createServer({
    backend: new FakeBackend(),
    policy: createPolicy(),
    transports: [koaTransport({ port: 0, protocols })],
  })
  t.teardown(() => server.close())
  const [address] = await server.listen()
  const post = async (path: string, body: object) =>
    await fetch(`${address?.url}${path}`, { method: 'POST', body: JSON.stringify(body) })

  const said = await post('/tell', { prompt: 'Once upon a time' })
  t.equal(said.headers.get('content-type'), 'text/plain; charset=utf-8')
  t.ok((await said.text()).length > 10)
  t.equal((await post('/generate', { prompt: 'Once upon a time' })).status, 200)

  const empty = await post('/tell', {})
  t.equal(empty.status, 400)
  t.match(await empty.json(), { success: false, error: /prompt/ })
})
