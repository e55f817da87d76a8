import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { GenerateEvent } from '@cllm/core'
import type { ApiKey } from '@cllm/http-koa/protocol'
import { serve } from 'cllm'
import t, { type Test } from 'tap'
import { freePort } from '../../../../cluster/test/free-port.js'
import { inside } from '../../inside.js'
import { localSources } from '../../models/local-sources.js'
import { model } from '../../serve-process.js'
import { start } from '../../start-process.js'

/** A model that must be fetched, from a host that sends half of it and waits. */
async function slowModel(t: Test) {
  const folder = t.testdir({ 'cert.pem': 'no certificate', 'key.pem': 'no key' })
  const sources = await localSources(folder)
  t.teardown(() => sources.close())
  const spec = sources.upload('test/stories', 'stories.gguf', await readFile(model))
  sources.halt()
  const own = { CLLM_CACHE: join(folder, 'models'), CLLM_PORT: '0' }
  const env = { HF_ENDPOINT: sources.env['HF_ENDPOINT'], ...own }
  const usual = ['--threads', '1', '--gpu', 'off', '--log-level', 'silent']
  const argv = ['serve', '--model', spec, ...usual]
  const serving = (...more: readonly string[]) => start(t, [...argv, ...more], env)
  return { folder, sources, argv, env, serve: serving }
}

t.test('wrong settings are reported before the model is fetched', async (t) => {
  const { folder, sources, argv, env } = await slowModel(t)
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const wrong: readonly (readonly [readonly string[], RegExp, number])[] = [
    [['--port', String((taken.address() as AddressInfo).port)], /another program listens/, 1],
    [['--tls-cert', join(folder, 'none.pem'), '--tls-key', key], /none\.pem/, 2],
    [['--tls-cert', cert, '--tls-key', key], /cannot be used for TLS/, 2],
    [['--plugin', './none.js'], /none\.js/, 2],
    [['--speculative', 'ngramm'], /or a model, instead got "ngramm"; did you mean "ngram"/, 2],
    [['--speculative-options', '{"long":3}'], /its options are longest, shortest/, 2],
  ]
  for (const [args, message, code] of wrong) {
    t.match(await inside([...argv, ...args], env), { code, stderr: message })
  }
  t.same(sources.requests, [])
})

t.test('files that cannot be used are told before the model is fetched', async (t) => {
  const file = join(t.testdir({ file: '' }), 'file')
  const wrong: readonly (readonly [flag: string, value: string, message: RegExp])[] = [
    ['--usage', join(file, 'usage'), /usage: the folder cannot be used: .*usage/],
    ['--batches', join(file, 'batches'), /batches: the folder cannot be used/],
    ['--log-file', join(file, 'log'), /the log file cannot be opened/],
    ['--chat-template', './qwen.jinj', /neither a Jinja template nor a file/],
    ['--lora', 'sql=./none.gguf', /the adapter sql, .*none\.gguf, cannot be read: /],
    [
      '--lora',
      'sql=.',
      /the adapter sql, .*, cannot be read: expected a GGUF file, found a folder/,
    ],
  ]
  for (const [flag, value, message] of wrong) {
    const argv = ['serve', '--port', '0', '--model', 'hf:a/none/none.gguf', flag, value]
    const { code, stdout, stderr } = await inside(argv)
    t.equal(code, 2, flag)
    t.match(stderr, message)
    t.ok(stdout === '' && stderr.startsWith('error: '), 'and nothing else is said')
  }
})

t.test('serve says what the 2-bit model is, and what to take instead', async (t) => {
  const cache = t.testdir({ 'tinyllama-1.1b-chat-iq2_xxs.gguf': 'no GGUF' })
  const argv = ['serve', '--port', '0', '--model', 'tinyllama-1.1b-chat']
  const env = { CLLM_CACHE: cache, CLLM_LOG_LEVEL: 'silent' }
  const { code, stderr } = await inside(argv, env)
  t.equal(code, 1)
  t.match(
    stderr,
    /^tinyllama-1\.1b-chat: a 2-bit model .* `cllm pull qwen3-0\.6b`, or --model FILE\n/,
  )
})

t.test('serve: what is wrong is told with what was expected and what came', async (t) => {
  const around: Record<string, unknown> = {}
  around['self'] = around
  const wrong: readonly [unknown, RegExp][] = [
    ['stories15m', /^serve: expected an object, got "stories15m"$/],
    [{ modle: 'a' }, /^serve: there is no option "modle" .*; did you mean "model"\?$/],
    [{ port: '80x' }, /serve: port: expected a whole number from 0 to 65535, got "80x"$/],
    [{ port: 80n }, /serve: port: expected a whole number from 0 to 65535, got 80n$/],
    [
      { model: around },
      /serve: model: expected a model, got <ref \*1> \{ self: \[Circular \*1\] \}$/,
    ],
    [{ policy: 'nope' }, /serve: policy: There is no policy "nope"/],
    [
      { settings: { engine: { gpuu: 1 } } },
      /engine\.gpuu: there is no such .* mean engine\.gpu\?$/,
    ],
    [{ settings: { engine: 3 } }, /serve: settings: engine: expected an object/],
    [{ settings: { engin: {} } }, /engin: there is no such setting; did you mean engine\?/],
    [{ protocols: 3 }, /^serve: protocols: expected a list of protocols, got 3$/],
    [{ protocols: () => [] }, /^serve: protocols: expected a list .*, got "a function"$/],
    [{ protocols: [{}] }, /^serve: protocols: expected a list of protocols, got \[\{\}\]$/],
    [{ protocols: [{ name: 'x', routes: 5 }] }, /^serve: protocols: expected a list of protocols/],
    [{ logger: {} }, /^serve: logger: expected an object with debug, info, .*, got \{\}$/],
    [{ observers: [3] }, /^serve: observers: expected a list of observers, got \[3\]$/],
  ]
  for (const [options, message] of wrong) {
    await t.rejects(
      serve(options as object),
      { code: 'invalid_configuration', message },
      String(message),
    )
  }
})

t.test('serve: all protocols, own routes, events, and text without HTTP', async (t) => {
  const told: string[] = []
  const listeners = process.listenerCount('uncaughtExceptionMonitor')
  const onEvent = ({ type }: GenerateEvent) => void told.push(type)
  const server = await serve({
    model,
    port: 0,
    slots: 1,
    settings: { engine: { threads: 1, gpu: 'off' } },
    observers: [{ onSubmit: () => ({ onEvent, onEnd: () => void told.push('over') }) }],
    protocols: [
      { name: 'own', mount: (router) => router.get('/own', (ctx) => void (ctx.body = 'mine')) },
    ],
  })
  t.teardown(async () => await server.close())
  const now = process.listenerCount('uncaughtExceptionMonitor')
  t.equal(now, listeners, 'what the program does not catch, or does, is its own')
  let text = ''
  const request = { prompt: { text: 'Once upon a time' }, maxTokens: 3 }
  for await (const event of server.generate(request)) if ('text' in event) text += event.text
  t.ok(text.length > 0)
  for (const prompt of [undefined, { messages: [] }] as never[]) {
    const message = /^generate: expected a text, a list of messages, or an object with prompt,/
    t.throws(() => server.generate(prompt), { code: 'invalid_request', message })
  }
  for (const foreign of ['max_tokens', 'temperature']) {
    const message = new RegExp(`^generate: there is no field "${foreign}": .* as maxTokens is,`)
    const misspelt = { ...request, [foreign]: 1 }
    t.throws(() => server.generate(misspelt), { code: 'invalid_request', message })
  }
  for (const [given, options, message] of [
    ['Once', { maxTokens: 3 }, /^generate: there is no option "maxTokens" \(there are model, s/],
    [{ ...request, maxToken: 3 }, {}, /^generate: .* "maxToken" .*; did you mean "maxTokens"\?$/],
    [
      { ...request, sampling: { topp: 1 } },
      {},
      /^generate: sampling: .* "topp" .*; did you mean "topP"\?$/,
    ],
  ] as [never, object, RegExp][]) {
    t.throws(() => server.generate(given, options), { code: 'invalid_request', message })
  }
  t.same(told, [], 'only what comes over HTTP is observed')
  const ask = async (path: string, body?: object) =>
    await fetch(server.url + path, {
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      headers: { 'content-type': 'application/json' },
    })
  t.equal(await (await ask('/own')).text(), 'mine')
  t.equal((await ask('/ui/')).status, 200)
  const answer = await ask('/v1/completions', { prompt: 'Once', max_tokens: 1 })
  t.equal(answer.status, 200)
  t.same(told, ['start', 'token', 'end', 'over'])
  await server.close()
  await server.closed
  await t.rejects(ask('/own'))
})

t.test('tenants by the keys of a protocol share no cached prefixes', async (t) => {
  const keyOf = (name: string): ApiKey => ({ name, tenant: name, role: 'user', hash: name })
  const server = await serve({
    model,
    port: 0,
    slots: 1,
    settings: { engine: { threads: 1, gpu: 'off' } },
    protocols: [{ name: 'signed', keys: { find: keyOf, withHash: keyOf } }],
  })
  t.teardown(async () => await server.close())
  const cachedOf = async (key: string) => {
    const prompt = 'Once upon a time there was a little girl who was called Lily'
    const answer = await fetch(`${server.url}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify({ prompt, max_tokens: 1 }),
    })
    const { usage } = (await answer.json()) as {
      usage: { prompt_tokens_details?: { cached_tokens: number } }
    }
    return usage.prompt_tokens_details?.cached_tokens ?? 0
  }
  t.equal(await cachedOf('ann'), 0)
  t.ok((await cachedOf('ann')) > 0, 'a tenant has its own')
  t.equal(await cachedOf('bob'), 0)
})

t.test('while the model is fetched, requests get 503: loading model', async (t) => {
  const { sources, serve } = await slowModel(t)
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const child = serve('--port', String(port))
  let said = ''
  child.stdout.on('data', (data: Buffer) => (said += String(data)))
  const lines = createInterface(child.stderr)
  await once(lines, 'line') // fetching …
  const status = async (path: string, init?: RequestInit) => (await fetch(url + path, init)).status
  const body = JSON.stringify({ prompt: 'Once', max_tokens: 2 })
  const post = { method: 'POST', headers: { 'content-type': 'application/json' }, body }
  t.equal(await status('/health/live'), 200)
  t.equal(await status('/health'), 503)
  t.equal(await status('/health/ready'), 503)
  t.equal(await status('/v1/completions', post), 503)
  const answer = await fetch(`${url}/completion`, post)
  t.equal(answer.status, 503)
  t.equal(answer.headers.get('retry-after'), '5', 'clients wait, and give up later')
  const error = { code: 503, message: 'Loading model', type: 'unavailable_error' }
  t.same(await answer.json(), { error }, 'as llama-server says it')
  t.equal(said, '', 'it is not ready')
  sources.resume()
  while (!said.endsWith('Ctrl-C\n')) await once(child.stdout, 'data')
  const next = [
    'chat   ' + url + '/',
    'API    ' + url + '/v1',
    'model  \\S+, \\d+ slots × 256 tokens',
  ]
  t.match(said, new RegExp(`^listening on ${url}\n  ${next.join('\n  ')}\n  stop   Ctrl-C\n$`))
  t.equal(await status('/v1/completions', post), 200)
})

t.test('SIGTERM ends it while its model is fetched', async (t) => {
  const { serve } = await slowModel(t)
  const child = serve('--port', '0')
  await once(createInterface(child.stderr), 'line')
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
})
