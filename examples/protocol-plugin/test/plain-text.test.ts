import { createServer, loadPlugins, PluginRegistry } from '@cllm/core'
import { FakeBackend } from '@cllm/core/testing'
import { koaTransport, nativeProtocol } from '@cllm/http-koa'
import { createPolicy } from '@cllm/scheduler'
import t from 'tap'
import { fileURLToPath } from 'node:url'

t.test('a protocol from a plugin beside the native one', async (t) => {
  const registry = new PluginRegistry()
  const from = fileURLToPath(new URL('..', import.meta.url))
  await loadPlugins([{ use: './plain-text.js' }], { from, registry })
  const server = createServer({
    backend: new FakeBackend(),
    policy: createPolicy(),
    transports: [
      koaTransport({ port: 0, protocols: [nativeProtocol(), ...registry.createProtocols()] }),
    ],
  })
  t.teardown(() => server.close())
  const [address] = await server.listen()

  const said = await fetch(`${address?.url}/say`, { method: 'POST', body: 'Once upon a time' })
  t.equal(said.headers.get('content-type'), 'text/plain; charset=utf-8')
  const text = await said.text()
  const generated = await fetch(`${address?.url}/generate`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt: 'Once upon a time' }),
  })
  t.equal(generated.status, 200)
  t.ok(text.length > 10)

  const empty = await fetch(`${address?.url}/say`, { method: 'POST', body: '' })
  t.equal(empty.status, 400)
  t.match(await empty.json(), { success: false, error: /prompt/ })
})
