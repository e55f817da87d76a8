import { FakeTokenizer, scriptAnswers, testProtocol } from '@cllm/core/testing'
import { ollamaProtocol } from '@cllm/http-koa'
import type { Test } from 'tap'
import { clientKind, testEach } from '../each-client.js'
import { serve } from '../serve.js'
import { serveDirectory } from '../serve-directory.js'

type Json = Record<string, unknown>

const turn = (role: string, text: string) => `<|im_start|>${role}\n${text}<|im_end|>\n`
const answers = '<|im_start|>assistant\n'
const parameters = { type: 'object', properties: { city: { type: 'string' } } }
const tool = { type: 'function', function: { name: 'weather', description: 'Says it', parameters } }
const toolSystem =
  `You can call these tools:\n${JSON.stringify(tool.function)}\n` +
  'To call one, answer with nothing but JSON: {"name": "the tool", "arguments": {…}}'
const script = scriptAnswers(new FakeTokenizer(), {
  [turn('user', 'euro') + answers]: 'a€ b',
  [turn('system', 'Be brief.') + turn('user', 'euro') + answers]: 'brief',
  [turn('system', toolSystem) + turn('user', 'euro') + answers]:
    '{"name": "weather", "arguments": {"city": "Paris"}}',
  euro: 'raw',
})

async function start(t: Test, options: Parameters<typeof serve>[0] = {}) {
  const backend = { script, contextSize: 1024 }
  const server = await serve({
    protocols: [ollamaProtocol({ version: '1.2.3' })],
    backend,
    ...options,
  })
  t.teardown(() => server.close())
  const { model } = await server.client.info()
  const ask = async (path: string, body: object) => {
    const response = await server.post(path, { model: model.id, ...body })
    const warning = response.headers.get('x-cllm-warning')
    return { status: response.status, json: (await response.json()) as Json, warning }
  }
  const stream = async (path: string, body: object) => {
    const response = await server.post(path, { model: model.id, ...body })
    t.equal(response.headers.get('content-type'), 'application/x-ndjson')
    const lines = (await response.text()).trimEnd().split('\n')
    return lines.map((line) => JSON.parse(line) as Json)
  }
  return { ...server, id: model.id, ask, stream }
}

testEach('conformance', async (t) => {
  for (const path of ['/api/generate', '/api/chat']) {
    await testProtocol(
      t,
      serveDirectory(() => ollamaProtocol()),
      {
        client: clientKind(),
        request: (prompt, num_predict, stream) => ({
          path,
          body: JSON.stringify({
            model: 'fake',
            prompt,
            ...(path === '/api/chat' ? { messages: [{ role: 'user', content: prompt }] } : {}),
            stream,
            options: { num_predict },
          }),
        }),
      },
    )
  }
})

testEach('what is served', async (t) => {
  const { get, ask, id } = await start(t)
  const json = async (path: string) => (await (await get(path)).json()) as Json
  t.same(await json('/api/version'), { version: '1.2.3' })
  const model = { name: `${id}:latest`, model: `${id}:latest`, digest: /^[0-9a-f]{64}$/ }
  t.match(await json('/api/tags'), { models: [{ ...model, details: { format: 'gguf' } }] })
  t.match(await json('/api/ps'), { models: [{ ...model, size_vram: 0, context_length: 1024 }] })
  t.match((await ask('/api/show', {})).json, { capabilities: ['completion', 'tools'] })
  t.match((await ask('/api/show', { model: `${id}:latest` })).json, { details: { format: 'gguf' } })
  t.equal(await (await get('/')).text(), 'Ollama is running')
  t.equal((await get('/', { method: 'HEAD' })).status, 200)
  const missing = await ask('/api/show', { model: 'none' })
  t.match([missing.status, missing.json], [404, { error: /model 'none' not found/ }])
})

testEach('generate and chat', async (t) => {
  const { ask, stream, id } = await start(t)
  const messages = [{ role: 'user', content: 'euro' }]
  t.match((await ask('/api/generate', { prompt: 'euro', stream: false })).json, {
    model: id,
    created_at: '1970-01-01T00:00:01.000Z',
    response: 'a€ b',
    done: true,
    done_reason: 'stop',
    total_duration: 0,
    eval_count: 4,
  })
  t.match((await ask('/api/generate', { prompt: 'euro', raw: true, stream: false })).json, {
    response: 'raw',
  })
  t.match(
    (await ask('/api/generate', { prompt: 'euro', system: 'Be brief.', stream: false })).json,
    {
      response: 'brief',
    },
  )
  const lines = await stream('/api/generate', { prompt: 'euro', keep_alive: '5m' })
  t.same(
    lines.map(({ response }) => response),
    ['a', '€ ', 'b', ''],
  )
  t.same(
    lines.map(({ done }) => done),
    [false, false, false, true],
  )
  const chat = await stream('/api/chat', { messages, options: { num_predict: 2, stop: null } })
  t.match(
    chat.map(({ message }) => message),
    [
      { role: 'assistant', content: 'a' },
      { role: 'assistant', content: '' },
    ],
  )
  t.match(chat.at(-1), { done: true, done_reason: 'length', eval_count: 2 })
  const function_ = { name: 'weather', arguments: { city: 'Paris' } }
  t.match((await ask('/api/chat', { messages, tools: [tool], stream: false })).json, {
    message: { content: '', tool_calls: [{ function: function_ }] },
  })
  t.match((await stream('/api/chat', { messages, tools: [tool] }))[0], {
    message: { tool_calls: [{ function: function_ }] },
    done: false,
  })
  t.match((await ask('/api/generate', {})).json, { response: '', done: true, done_reason: 'load' })
  t.match((await ask('/api/chat', { keep_alive: 0 })).json, { done_reason: 'unload' })
})

testEach('what Ollama has beside answers', async (t) => {
  const { ask, stream, post, id, backend } = await start(t)
  const served = await serve({ protocols: [ollamaProtocol()] })
  t.teardown(() => served.close())
  t.match(await (await served.get('/api/version')).json(), { version: /^0\.(1[4-9]|[2-9]\d)\./ })

  const first = await ask('/api/generate', { prompt: 'euro', stream: false })
  const context = first.json['context'] as number[]
  t.match(first.json, { response: 'a€ b', load_duration: Number })
  t.ok((first.json['load_duration'] as number) > 0)
  t.ok(context.length > 4)
  const second = await ask('/api/generate', { prompt: 'more', context, stream: false })
  t.same((second.json['context'] as number[]).slice(0, context.length), context)

  const likely = await ask('/api/chat', {
    messages: [{ role: 'user', content: 'euro' }],
    stream: false,
    logprobs: true,
    top_logprobs: 2,
  })
  t.match((likely.json['logprobs'] as Json[])[0], { token: 'a', top_logprobs: [{}, {}] })
  const chunks = await stream('/api/chat', {
    messages: [{ role: 'user', content: 'euro' }],
    logprobs: true,
  })
  t.equal(chunks.flatMap(({ logprobs }) => (logprobs ?? []) as Json[]).length > 2, true)

  const messages = Array.from({ length: 200 }, (_, index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content: `message ${index}`,
  }))
  const long = [
    { role: 'system', content: 'Be brief.' },
    ...messages,
    { role: 'user', content: 'euro' },
  ]
  const cut = await ask('/api/chat', { messages: long, stream: false, options: { num_predict: 1 } })
  t.equal(cut.status, 200)
  t.ok((cut.json['prompt_eval_count'] as number) <= 1024 * (7 / 8), 'the oldest messages are gone')
  t.equal((await ask('/api/chat', { messages: long, truncate: false })).status, 400)

  const modelfile = `# mine\nFROM ${id}\nPARAMETER num_predict 1\nPARAMETER stop x\nSYSTEM """Be brief."""\n`
  const made = await post('/api/create', { model: 'mine', modelfile })
  t.match((await made.text()).trimEnd().split('\n').at(-1), '{"status":"success"}')
  t.equal((await post('/api/copy', { source: 'mine', destination: 'yours' })).status, 200)
  const ofModel = async (model: string) =>
    (await ask('/api/generate', { model, prompt: 'euro', stream: false })).json
  t.match(await ofModel('yours:latest'), { response: 'b', done_reason: 'length', eval_count: 1 })
  t.match((await ask('/api/show', { model: 'yours' })).json, {
    modelfile: /FROM fake[\s\S]*SYSTEM Be brief.[\s\S]*num_predict 1[\s\S]*PARAMETER stop x/,
    capabilities: ['completion', 'tools'],
  })
  await post('/api/create', {
    model: 'own',
    from: id,
    parameters: { num_predict: 2 },
    stream: false,
  })
  t.match(await ofModel('own'), { eval_count: 2 })
  const refused: [path: string, body: object, status: number, error: RegExp][] = [
    ['/api/create', { model: 'm', modelfile: 'FROM none' }, 404, /none/],
    ['/api/create', { model: 'm', modelfile: 'TO x' }, 400, /modelfile: expected FROM/],
    ['/api/create', { model: 'm', modelfile: `FROM ${id}\nADAPTER a` }, 400, /ADAPTER/],
    ['/api/create', { model: id, from: id }, 400, /model: expected a name/],
    ['/api/create', { model: 'm', from: id, quantize: 'q4_0' }, 400, /quantize/],
    ['/api/copy', { source: 'none', destination: 'x' }, 404, /none/],
    ['/api/push', { model: 'mine' }, 404, /nothing at/],
  ]
  for (const [path, body, status, error] of refused) {
    const response = await post(path, body)
    t.match([response.status, await response.json()], [status, { error }], path)
  }
  t.same(backend.violations, [])
})

testEach('num_ctx is clamped, which the log says; unknown options too', async (t) => {
  const { ask, log } = await start(t)
  const options = { num_ctx: 5000, num_predict: 1, num_gpu: 5, penalize_newline: true }
  const answer = await ask('/api/generate', { prompt: 'a', stream: false, options })
  t.match(answer, { status: 200, warning: /num_ctx 5000 .* 1024 tokens are used/ })
  const small = { stream: false, options: { num_ctx: 512, num_predict: 1 } }
  t.match(await ask('/api/chat', { ...small, messages: [{ role: 'user', content: 'a' }] }), {
    status: 200,
    warning: null,
  })
  t.ok(log.some(({ message }) => message.includes('clamped to 1024')))
  t.same(
    log.filter(({ level }) => level === 'warn').map(({ fields }) => fields['field']),
    ['penalize_newline'],
  )
})

testEach('a template of the request', async (t) => {
  const { ask } = await start(t)
  const template =
    '{{- /* of ours */ -}}\n{{ if .System }}<|im_start|>system\n{{ .System }}<|im_end|>\n{{ end }}' +
    '<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n{{ .Response }}<|im_end|>'
  const say = async (body: object) =>
    (await ask('/api/generate', { prompt: 'euro', template, stream: false, ...body })).json
  t.match(await say({}), { response: 'a€ b' })
  t.match(await say({ system: 'Be brief.' }), { response: 'brief' })
  const other = '{{ if .System }}{{ .System }}{{ else }}{{ .Prompt }}{{ end }}'
  t.match(await say({ template: other }), { response: 'raw' })
  const control = await say({ template: '{{ .Prompt }}', prompt: '<|im_end|>' })
  t.ok(Number(control['prompt_eval_count']) >= '<|im_end|>'.length, 'a text, not a control token')
})

testEach('what cannot be done', async (t) => {
  const { ask } = await start(t)
  const cases: [path: string, body: object, error: RegExp][] = [
    ['/api/generate', { model: null }, /model/],
    ['/api/generate', { prompt: 5 }, /prompt: expected a string/],
    ['/api/generate', { prompt: 'a', format: 'json' }, /format/],
    ['/api/generate', { format: 5 }, /format/],
    ['/api/generate', { images: ['aGk='] }, /images/],
    ['/api/generate', { suffix: 'a' }, /suffix: the model .* was not trained/],
    [
      '/api/generate',
      { prompt: 'a', template: '{{ range .Messages }}' },
      /^template: expected .*range/,
    ],
    [
      '/api/generate',
      { prompt: 'a', template: '{{ if .System }}' },
      /^template: .*without {{ end }}/,
    ],
    ['/api/generate', { prompt: 'a', template: 'b {{ end }}' }, /^template: .*without {{ if }}/],
    [
      '/api/generate',
      { options: { temperature: 'hot' } },
      /options.temperature: expected a number/,
    ],
    ['/api/chat', { messages: [{ role: 'king' }] }, /messages.0.role: expected one of system/],
    ['/api/chat', { messages: [{ role: 'user', images: ['a'] }] }, /messages.0.images/],
  ]
  for (const [path, body, error] of cases) {
    const { status, json } = await ask(path, body)
    t.match([status, json], [400, { error }], JSON.stringify(body))
  }
})
