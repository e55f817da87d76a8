import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createServer } from '@cllm/host'
import { koaTransport, Services } from '@cllm/http-koa'
import { createPolicy } from '@cllm/scheduler'
import { FakeBackend } from '@cllm/testing'
import { myPlugin } from './my-plugin.js'

void test('my-plugin: a text is counted', async () => {
  const protocol = myPlugin.create({ path: '/my-plugin' }, new Services())
  const server = createServer({
    backend: new FakeBackend(),
    policy: createPolicy('chunked+fcfs'),
    transports: [koaTransport({ port: 0, protocols: [protocol] })],
  })
  try {
    const [{ url }] = await server.listen()
    const answer = await fetch(`${url}/my-plugin?text=Hello`)
    assert.equal(answer.status, 200)
    assert.ok((await answer.json()).tokens > 0)
  } finally {
    await server.close()
  }
})
