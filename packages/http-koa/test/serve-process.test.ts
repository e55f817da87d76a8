import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { createServer, type FromEngine, RemoteEngineClient } from '@cllm/host'
import { systemRandom } from '@cllm/core'
import { koaTransport } from '@cllm/http-koa'
import t, { type Test } from 'tap'
import {
  addressOf,
  errorShape,
  everyProtocol,
  everyRoute,
  takeBodies,
  validBodies,
  validQueries,
} from './every-route.js'
import { until } from './serve.js'

const entry = fileURLToPath(new URL('engine-process.mjs', import.meta.url))

/** Every protocol in front of an engine in a child process, as a user starts it. */
async function serveProcess(t: Test) {
  const child = fork(entry, { execArgv: [], env: { PATH: process.env['PATH'] } })
  const client = new RemoteEngineClient(
    {
      send: (message) => child.connected && child.send(message),
      onMessage: (listener) => child.on('message', (message) => listener(message as FromEngine)),
      onClose: (listener) => child.once('exit', () => listener('its process has ended')),
    },
    systemRandom,
  )
  await client.ready()
  const transports = [koaTransport({ port: 0, protocols: everyProtocol })]
  const server = createServer({ engines: { fake: client }, transports })
  const [address] = await server.listen()
  t.teardown(async () => {
    await server.close()
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill('SIGKILL')
    await once(child, 'exit')
  })
  const ask = async (path: string, init?: RequestInit) => {
    const answer = await fetch(`${address?.url}${path}`, init)
    return { status: answer.status, text: await answer.text() }
  }
  const post = (path: string, body: object, more: RequestInit = {}) =>
    ask(path, { method: 'POST', body: JSON.stringify(body), ...more })
  return { child, client, ask, post }
}

t.test('every route works with an engine in another process', async (t) => {
  const { client, ask, post } = await serveProcess(t)
  for (const route of takeBodies) {
    const { path, method } = route
    const answer = await post(path, validBodies[path]!, { method: method.toUpperCase() })
    t.equal(answer.status, 200, `${path}: ${answer.text}`)
  }
  for (const route of everyRoute.filter(({ method }) => method === 'get')) {
    const { path } = route
    const { status, text } = await ask(`${addressOf(route)}${validQueries[path] ?? ''}`)
    const isEmpty = ['/admin/recorder', '/v1/stream', '/api/blobs/:digest'].includes(path)
    const hasNone = isEmpty || path.startsWith('/requests')
    t.ok(hasNone || status === 200, `${route.path}: ${status}: ${text}`)
  }
  const infill = { input_prefix: 'a', input_suffix: 'b', n_predict: 3 }
  t.match(JSON.parse((await post('/infill', infill)).text), { tokens_predicted: 3 })
  const streamed = await post('/infill', { ...infill, stream: true })
  t.equal(streamed.text.match(/^data: /gm)?.length, 4, streamed.text)
  const bias = { prompt: 'a', n_predict: 2, logit_bias: [[65, false]], t_max_predict_ms: -1 }
  t.equal((await post('/completion', bias)).status, 200, 'infinite and false values arrive')

  const leaving = new AbortController()
  const long = { prompt: 'a', max_tokens: 900_000 }
  const left = post('/generate_stream', long, { signal: leaving.signal }).catch(() => undefined)
  await until(async () => (await client.statistics()).running === 1)
  leaving.abort()
  await left
  await until(async () => (await client.statistics()).running === 0)
  t.match(await client.statistics(), { requests: { cancelled: 1 } })
})

t.test('a process that ends', async (t) => {
  const { child, client, post } = await serveProcess(t)
  const asked = post('/generate', { prompt: 'a', max_tokens: 900_000 })
  await until(async () => (await client.statistics()).running === 1)
  child.kill('SIGKILL')
  t.match(await asked, { status: 503, text: /engine_unavailable/ })
  for (const path of ['/v1/chat/completions', '/api/chat', '/infill', '/generate']) {
    const { status, text } = await post(path, validBodies[path]!)
    t.equal(status, 503, path)
    t.match(JSON.parse(text), errorShape(path))
  }
})
