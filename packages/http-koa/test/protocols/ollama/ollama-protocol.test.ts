import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { CllmError, type GenerateRequest } from '@cllm/core'
import { type ClosableDirectory, overriding } from '@cllm/host'
import { FakeTokenizer, scriptAnswers, testProtocol } from '@cllm/testing'
import {
  anthropicProtocol,
  type BlobStore,
  type KoaProtocol,
  llamaServerProtocol,
  nativeProtocol,
  ollamaProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { clientKind, testEach } from '../../each-client.js'
import { rawRequest, serve, until } from '../../serve.js'
import { serveDirectory } from '../../serve-directory.js'

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
  const { ask, stream, id, clock } = await start(t)
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
  clock.aheadMs = 3_600_000
  const slept = { created_at: '1970-01-01T01:00:01.000Z', total_duration: 0 }
  t.match((await ask('/api/generate', { prompt: 'euro', stream: false })).json, slept)
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
    message: { content: '', tool_calls: [{ id: /^call_/, function: function_ }] },
  })
  t.match((await stream('/api/chat', { messages, tools: [tool] }))[0], {
    message: { tool_calls: [{ id: /^call_/, function: function_ }] },
    done: false,
  })
  t.match((await ask('/api/generate', {})).json, { response: '', done: true, done_reason: 'load' })
  t.match((await ask('/api/chat', { keep_alive: 0 })).json, { done_reason: 'unload' })
})

t.test(
  'a model that cannot be unloaded is told in the log, as the answer is sent before',
  async (t) => {
    const unload = async () => await Promise.reject(new Error('no luck'))
    const directory = (models: ClosableDirectory) => overriding(models, { unload })
    const { ask, log } = await start(t, { directory })
    t.match((await ask('/api/chat', { keep_alive: 0 })).json, { done_reason: 'unload' })
    await until(() => log.some(({ level }) => level === 'error'))
    t.match(
      log.filter(({ level }) => level === 'error'),
      [{ fields: { err: { message: 'no luck' } } }],
    )
  },
)

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
    // it ends within a character, which is never shown
    options: { num_predict: 2 },
  })
  t.match(
    chunks.flatMap(({ logprobs }) => (logprobs ?? []) as Json[]),
    [{ token: 'a' }, { bytes: [0xe2, 0x82] }],
  )

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
  for (const before of [[], [{ role: 'system', content: 'Be brief.' }]]) {
    const alone = [...before, { role: 'user', content: 'long '.repeat(1100) }]
    const { status, json } = await ask('/api/chat', { messages: alone })
    t.match(
      [status, json],
      [400, { error: /tokens, a slot holds/ }],
      'the last message is not left out',
    )
  }

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
  const pushed = await (await post('/api/push', { model: 'mine' })).text()
  t.match(pushed, /retrieving manifest"}\n{"error":".*nowhere/)
  const blob = `sha256:${'0'.repeat(64)}`
  const refused: [path: string, body: object, status: number, error: RegExp][] = [
    ['/api/create', { model: 'm', modelfile: 'FROM none' }, 404, /none/],
    ['/api/create', { model: 'm', modelfile: 'TO x' }, 400, /modelfile: expected FROM/],
    ['/api/create', { model: 'm', modelfile: `FROM ${id}\nADAPTER a` }, 400, /ADAPTER/],
    ['/api/create', { model: id, from: id }, 400, /model: expected a name/],
    ['/api/create', { model: 'm', from: id, quantize: 'q4_0' }, 400, /only supported for F16/],
    ['/api/create', { model: 'm', files: { 'model.safetensors': 'sha256:0' } }, 400, /convert_hf/],
    ['/api/copy', { source: 'none', destination: 'x' }, 404, /none/],
    ['/api/push', { model: 'none' }, 404, /none/],
    ['/api/push', { model: 'mine', stream: false }, 400, /pushes models nowhere/],
    ['/api/create', { model: 'm', files: { a: blob } }, 400, /takes no files/],
    ['/api/create', { model: 'm', files: {} }, 400, /files: .*one GGUF file/],
    ['/api/create', { model: 'm', files: { a: 'b' } }, 400, /files.a: expected sha256/],
    ['/api/create', { model: 'm', files: { a: {} } }, 400, /files.a: expected a string, .* object/],
    ['/api/create', { model: id, files: { a: blob } }, 400, /model: expected a name/],
  ]
  for (const [path, body, status, error] of refused) {
    const response = await post(path, body)
    t.match([response.status, await response.json()], [status, { error }], path)
  }
  t.same(backend.violations, [])
})

testEach('every API knows the models that are made here', async (t) => {
  const { ask, post, get, id } = await start(t, {
    protocols: [nativeProtocol(), openAiProtocol(), ollamaProtocol()],
  })
  await post('/api/copy', { source: id, destination: 'gpt-3.5-turbo' })
  const parameters = { num_predict: 2, stop: ['f'] }
  const own = { model: 'brief', from: 'gpt-3.5-turbo', system: 'Be brief.', parameters }
  t.equal((await ask('/api/create', { ...own, stream: false })).status, 200)
  const messages = [{ role: 'user', content: 'euro' }]
  const chat = async (model: string, more: object = {}) =>
    (await ask('/v1/chat/completions', { model, messages, ...more })).json
  const answered = (content: string) => ({ choices: [{ message: { content } }] })
  t.match(await chat('gpt-3.5-turbo'), { model: 'gpt-3.5-turbo', ...answered('a€ b') })
  t.match(await chat('brief:latest'), answered('br'), 'its parameters count')
  t.match(await chat('brief', { max_tokens: 1, stop: ['x'] }), answered('b'), 'but for those asked')
  const more = [{ role: 'system', content: 'No.' }, ...messages]
  t.notMatch(await chat('brief', { messages: more }), answered('br'), "so does the client's system")
  const { data } = (await (await get('/v1/models')).json()) as { data: Json[] }
  t.match(data, [{ id }, { id: 'gpt-3.5-turbo', parent: id }, { id: 'brief', parent: id }])
  t.match(await (await get('/v1/models/brief')).json(), { id: 'brief' })
  const { models } = (await (await get('/api/tags')).json()) as { models: Json[] }
  t.equal(models.length, 3, 'each once')
  t.equal((await ask('/api/create', { ...own, stream: false })).status, 200, 'made again')
  await fetch(new URL('/api/delete', (await get('/v1/models')).url), {
    method: 'DELETE',
    body: '{"model":"brief"}',
  })
  t.match(await chat('brief'), { error: { code: 'model_not_found' } })
})

testEach('presets of the configuration count in every API', async (t) => {
  const preset = {
    name: 'brief',
    from: 'fake',
    system: 'Be brief.',
    maxTokens: 2,
    sampling: { temperature: 0, repetitionPenalty: 1.5 },
    stop: ['x'],
  }
  const protocols = [openAiProtocol(), anthropicProtocol(), ollamaProtocol(), llamaServerProtocol()]
  const { ask, get } = await start(t, { protocols, presets: [preset] })
  const body = { model: 'brief', messages: [{ role: 'user', content: 'euro' }], stream: false }
  const prompt = turn('system', 'Be brief.') + turn('user', 'euro') + answers
  const length = new FakeTokenizer().encode(prompt).length
  t.match((await ask('/v1/chat/completions', body)).json, {
    model: 'brief',
    usage: { prompt_tokens: length, completion_tokens: 2 },
  })
  t.match((await ask('/v1/messages', { ...body, max_tokens: 9 })).json, {
    usage: { input_tokens: 1, cache_read_input_tokens: length - 1 },
  })
  t.match((await ask('/api/chat', body)).json, { prompt_eval_count: length, eval_count: 2 })
  t.match((await ask('/completion', { model: 'brief', prompt: 'euro' })).json, {
    tokens_predicted: 2,
    generation_settings: { repeat_penalty: 1.5, stop: ['x'] },
  })
  const { json } = await ask('/api/show', { model: 'brief' })
  t.match(json, {
    system: 'Be brief.',
    modelfile: /^FROM fake\nSYSTEM Be brief.\nPARAMETER num_predict 2\nPARAMETER stop x\n/,
  })
  const { data } = (await (await get('/v1/models')).json()) as { data: Json[] }
  t.match(data, [{ id: 'fake' }, { id: 'brief', parent: 'fake' }])
})

/** The same models, and further names of them. */
const serving =
  (names: readonly string[]) =>
  (models: ClosableDirectory): ClosableDirectory => {
    const base = (id: string | undefined) => (names.includes(id ?? '') ? undefined : id)
    return overriding(models, {
      list: () => [...models.list(), ...names],
      nameOf: (id) => (names.includes(id ?? '') ? id! : models.nameOf(id)),
      open: (id, options) => models.open(base(id), options),
      status: (id) => {
        const status = models.status(base(id))
        return names.includes(id ?? '') ? { ...status, name: id! } : status
      },
    })
  }

testEach('a model of a file is asked alike in every API', async (t) => {
  const served: string[] = []
  const stored = (name: string) => void served.push(name)
  const store = {
    blobs: {
      has: async () => true,
      add: async () => {},
      serve: async (name: string) => stored(name),
    },
    pull: async (name: string) => stored(name),
    remove: async (name: string) => void served.splice(served.indexOf(name), 1),
  }
  const { ask, post, get, url, backend, id } = await start(t, {
    protocols: [openAiProtocol(), ollamaProtocol({ store })],
    directory: serving(served),
  })
  const messages = [{ role: 'user', content: 'euro' }]
  const own = {
    files: { 'a.gguf': `sha256:${'0'.repeat(64)}` },
    system: 'Be brief.',
    messages: [{ role: 'user', content: 'no' }],
    parameters: { num_predict: 2 },
    stream: false,
  }
  t.equal((await post('/api/create', { model: 'm', ...own })).status, 200)
  t.equal((await post('/api/copy', { source: 'm', destination: 'n' })).status, 200)
  const prompt = turn('system', 'Be brief.') + turn('user', 'no') + turn('user', 'euro') + answers
  const length = new FakeTokenizer().encode(prompt).length
  for (const model of ['m', 'n']) {
    const body = { model, messages, stream: false }
    const more = { ...body, options: { num_predict: 3 }, max_tokens: 3 }
    const here = (await ask('/api/chat', body)).json
    t.match(here, { prompt_eval_count: length, eval_count: 2 }, 'once')
    t.match((await ask('/api/chat', more)).json, { eval_count: 3 }, 'the client lifts it')
    const usage = { prompt_tokens: length, completion_tokens: 2 }
    t.match((await ask('/v1/chat/completions', body)).json, { usage })
    const lifted = { usage: { completion_tokens: 3 } }
    t.match((await ask('/v1/chat/completions', more)).json, lifted)
    const answer = (await ask('/api/generate', { model, prompt: 'euro', stream: false })).json
    t.match(answer, { prompt_eval_count: length })
    const { context } = answer as { context: number[] }
    const next = { model, prompt: 'euro', context, stream: false }
    // but for the token that begins every text
    const behind = -1 + new FakeTokenizer().encode(turn('user', 'euro') + answers).length
    const { json } = await ask('/api/generate', next)
    t.equal(json['prompt_eval_count'], context.length + behind, 'nothing comes before it again')
  }
  const long = { model: 'long', from: id, parameters: { num_predict: 20 }, stream: false }
  t.equal((await post('/api/create', long)).status, 200)
  const raw = { model: 'long', prompt: 'a', ignore_eos: true }
  t.match((await ask('/v1/completions', raw)).json, { usage: { completion_tokens: 20 } })

  const names = async (path: string) => {
    const response = await get(path)
    t.equal(response.status, 200)
    const { data, models = data } = (await response.json()) as { data?: Json[]; models?: Json[] }
    return models!.map((model) => model['id'] ?? model['name'])
  }
  const drop = async (model: string) =>
    (await fetch(`${url}/api/delete`, { method: 'DELETE', body: JSON.stringify({ model }) })).status
  t.equal(await drop('m'), 200)
  t.same(await names('/v1/models'), [id, 'long'], 'what it was made of is gone')
  t.same(await names('/api/tags'), [`${id}:latest`, 'long:latest'])

  t.equal((await post('/api/pull', { model: 'long', stream: false })).status, 200)
  t.match((await ask('/v1/completions', raw)).json, { usage: { completion_tokens: 16 } })
  t.same(await names('/v1/models'), [id, 'long'], 'the one that the server has itself, once')
  t.match((await ask('/api/show', { model: 'long' })).json, { parameters: '' })
  t.equal(await drop('long'), 200)
  t.same(served, [])
  t.same(await names('/v1/models'), [id])
  t.same(backend.violations, [])
})

/** The protocol, and what its requests ask of the engine. */
function noting(protocol: KoaProtocol) {
  const asked: GenerateRequest[] = []
  const noted: KoaProtocol = {
    ...protocol,
    around: (directory) =>
      overriding(directory, {
        open(id, options) {
          const client = directory.open(id, options)
          const submit: typeof client.submit = (request, more) => {
            asked.push(request)
            return client.submit(request, more)
          }
          return overriding(client, { submit })
        },
      }),
  }
  return { asked, noted }
}

testEach('what a model says of its own counts in full, and gives way to the request', async (t) => {
  const { asked, noted } = noting(ollamaProtocol())
  const { ask, id, backend } = await start(t, { protocols: [noted] })
  const own = {
    from: id,
    system: 'Be brief.',
    messages: [{ role: 'user', content: 'mine' }],
    parameters: { num_ctx: 5000, num_keep: 7, num_predict: 1, temperature: 0.1, stop: ['x'] },
    stream: false,
  }
  await ask('/api/create', { model: 'own', ...own })
  const parameters = { ...own.parameters, stop: ['\nUser:', ' "', '"a"'] }
  await ask('/api/create', { model: 'first', ...own, system: ' a \n\nb', parameters })
  const { modelfile, ...first } = (await ask('/api/show', { model: 'first' })).json
  t.match(first['parameters'], /^stop +"\\nUser:"\nstop +" \\""\nstop +/m, 'a line each')
  await ask('/api/create', { model: 'again', modelfile, stream: false })
  const again = (await ask('/api/show', { model: 'again' })).json
  t.same(again, { ...first, modelfile }, 'what is shown of a model makes the same')
  const say = async (path: string, body: object) => {
    // the engine of this test refuses to shift a context
    const { warning } = await ask(path, { model: 'own', stream: false, ...body })
    return { warning, ...asked.pop()! }
  }
  const messages = [{ role: 'user', content: 'euro' }]
  const system = { role: 'system', content: 'Be brief.' }
  const before = [system, ...own.messages]

  const plain = await say('/api/chat', { messages, shift: true })
  t.match(plain.prompt, { messages: [...before, ...messages] })
  t.match(plain, {
    warning: /num_ctx 5000/,
    contextShift: { keep: 7 },
    maxTokens: 1,
    sampling: { temperature: 0.1 },
    stop: ['x'],
  })
  const options = { num_ctx: 5, num_keep: 2, num_predict: 2, temperature: 0.2, stop: ['y'] }
  t.match(await say('/api/chat', { messages, shift: true, options }), {
    warning: null,
    contextShift: { keep: 2 },
    maxTokens: 2,
    sampling: { temperature: 0.2 },
    stop: ['y'],
  })

  const long = Array.from({ length: 200 }, (_, index) => ({
    role: index % 2 === 0 ? 'user' : 'assistant',
    content: `message ${index}`,
  }))
  const fits = (await say('/api/chat', { messages: [...long, ...messages] })).prompt
  t.match(fits, { messages: [...before, { content: /message/ }] }, 'what is its own stays')
  t.ok('messages' in fits && fits.messages.length < 200)

  const given = { role: 'system', content: 'No.' }
  const generated = async (body: object) =>
    (await say('/api/generate', { prompt: 'euro', ...body })).prompt
  t.match(await generated({}), { messages: [...before, ...messages] })
  const others = [...own.messages, ...messages]
  t.match(await generated({ system: 'No.' }), { messages: [given, ...others] })
  t.match(await generated({ system: '' }), { messages: others })
  t.same(backend.violations, [])
})

testEach('what a model may be made of, and called', async (t) => {
  let hasModels = true
  const { ask, id } = await start(t, {
    bodyLimitBytes: 9 * 1024 * 1024,
    directory: (models) =>
      overriding(models, {
        status: (id) => ({ ...models.status(id), aliases: ['chat'] }),
        adapted: () => [{ name: 'fake:poet', model: 'fake', adapter: 'poet' }],
        list: () => (hasModels ? models.list() : []),
        nameOf(id) {
          if (hasModels) return models.nameOf(id === 'chat' ? 'fake' : id)
          throw new CllmError('engine_unavailable', 'The cluster has no worker yet')
        },
      }),
  })
  const make = async (body: object) => {
    const { status, json } = await ask('/api/create', {
      model: 'own',
      from: id,
      stream: false,
      ...body,
    })
    return [status, json['error'] ?? json['status']]
  }
  for (const model of ['chat', 'chat:latest', 'fake:poet', 'poet', id, '', 'a'.repeat(300)]) {
    t.match(await make({ model }), [400, /model: expected a name that no model/], model)
    const copied = await ask('/api/copy', { source: id, destination: model || ':latest' })
    t.equal(copied.status, 400, model)
  }
  const wrong: [body: object, error: RegExp][] = [
    [{ parameters: { temperature: 'hot' } }, /parameters.temperature: expected a number.*"hot"/],
    [{ parameters: { stop: 42 } }, /parameters.stop: expected a string or up to 32/],
    [{ modelfile: `FROM ${id}\nPARAMETER temperature hot` }, /parameters.temperature: expected/],
    [{ modelfile: `FROM ${id}\n${'PARAMETER stop x\n'.repeat(33)}` }, /parameters.stop/],
  ]
  for (const [body, error] of wrong) t.match(await make(body), [400, error])
  const modelfile = `FROM ${id}\nPARAMETER stop 42\nPARAMETER stop true\nPARAMETER num_predict 2`
  t.same(await make({ modelfile }), [200, 'success'])
  const ofWindows = `# mine\n\n${modelfile}\nSYSTEM a\u2028b\n`.replaceAll('\n', '\r\n')
  t.same(await make({ modelfile: ofWindows }), [200, 'success'])
  const options = { temperature: 0.5, mine: 1 }
  const asked = { model: 'own', prompt: 'euro', stream: false, options }
  t.match(await ask('/api/generate', asked), { status: 200, json: { eval_count: 2 } })

  const system = 'a'.repeat(8 * 1024 * 1024 - 1000)
  t.same(await make({ model: 'one', system }), [200, 'success'])
  t.same(await make({ model: 'one', system }), [200, 'success'], 'in place of the other')
  t.same(await make({ model: 'two', system }), [200, 'success'])
  const full = [400, /models that have 16777216 characters together/]
  t.match(await make({ model: 'three', system }), full)
  t.match(await ask('/api/copy', { source: 'one', destination: 'three' }), { status: 400 })
  t.same(await make({ model: 'two' }), [200, 'success'])
  t.same(await make({ model: 'three', system }), [200, 'success'], 'there is room again')

  hasModels = false
  for (const path of ['/api/chat', '/api/generate', '/api/show', '/api/embed']) {
    const { status, json } = await ask(path, { messages: [], prompt: 'a', input: 'a' })
    t.match([status, json], [503, { error: /no worker yet/ }], path)
  }
})

testEach('a model is made of a file that a client sends', async (t) => {
  const files = new Map<string, Buffer>()
  const served: string[] = []
  const blobs: BlobStore = {
    has: async (digest) => files.has(digest),
    async add(digest, bytes) {
      const chunks: Uint8Array[] = []
      for await (const chunk of bytes) chunks.push(chunk)
      const content = Buffer.concat(chunks)
      if (createHash('sha256').update(content).digest('hex') !== digest) {
        throw new CllmError('invalid_request', 'digest: expected other bytes')
      }
      files.set(digest, content)
    },
    serve: async (name) => void served.push(name),
  }
  const store = {
    blobs,
    pull: async () => {},
    async remove(name: string, { keepsFile = false } = {}) {
      served.splice(served.indexOf(name), 1)
      if (!keepsFile) files.delete(digest)
    },
  }
  const { url, post, ask } = await start(t, {
    protocols: [ollamaProtocol({ store })],
    directory: serving(served),
  })
  const content = Buffer.from('GGUF, says it')
  const digest = createHash('sha256').update(content).digest('hex')
  const path = `${url}/api/blobs/sha256:${digest}`
  const head = async () => (await fetch(path, { method: 'HEAD' })).status
  const send = async (body: Buffer) => (await fetch(path, { method: 'POST', body })).status
  t.equal(await head(), 404)
  t.equal(await send(Buffer.from('other')), 400)
  t.equal(await send(content), 201)
  t.equal(await send(content), 200)
  t.equal(await head(), 200)
  t.equal((await fetch(`${url}/api/blobs/x`)).status, 400)
  const body = {
    model: 'mine:latest',
    files: { 'a.gguf': `sha256:${digest}` },
    system: 'Be brief.',
  }
  const hot = await post('/api/create', { ...body, parameters: { temperature: 'hot' } })
  t.same([hot.status, served], [400, []], 'nothing is served before all is checked')
  const small = await post('/api/create', { ...body, quantize: 'q4_0' })
  t.match([small.status, await small.json()], [400, { error: /only supported for F16/ }])
  t.same(served, [], 'nor what was asked for otherwise')
  t.equal(await head(), 200, 'and the file that was sent stays')
  t.match(await (await post('/api/create', body)).text(), /parsing GGUF[^]*success/)
  t.same(served, ['mine'])
  t.match((await ask('/api/generate', { model: 'mine', prompt: 'euro', stream: false })).json, {
    response: 'brief',
  })
  const names = async () =>
    ((await (await fetch(`${url}/api/tags`)).json()) as { models: { name: string }[] }).models.map(
      ({ name }) => name,
    )
  t.equal((await names()).filter((name) => name === 'mine:latest').length, 1)
  t.equal((await post('/api/create', body)).status, 400, 'there is one of this name')
  t.equal(
    (await fetch(`${url}/api/delete`, { method: 'DELETE', body: '{"model":"mine"}' })).status,
    200,
  )
  t.same(served, [])
})

t.test('a file may take longer than other bodies, while it comes', async (t) => {
  let bytes = 0
  const blobs: BlobStore = {
    has: async () => false,
    async add(_, chunks) {
      for await (const chunk of chunks) bytes += chunk.length
    },
    serve: async () => {},
  }
  const store = { blobs, pull: async () => {}, remove: async () => {} }
  const { port } = await start(t, {
    protocols: [ollamaProtocol({ store })],
    transport: { bodyTimeoutMs: 700 },
  })
  const post = (path: string, length: number) =>
    `POST ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: ${length}\r\n\r\n`
  const path = `/api/blobs/sha256:${'0'.repeat(64)}`
  const length = 2 ** 40
  const upload = await rawRequest(port, post(path, length))
  const file = upload.socket
  const stuck = await rawRequest(port, post(path, 100))
  const body = await rawRequest(port, `${post('/api/show', 100)}{`)
  const answered = await rawRequest(port, post('/nothing', 100).replace('close', 'keep-alive'))
  const chunk = Buffer.alloc(64 * 1024)
  while (![body, stuck, answered].every(({ closed }) => closed) && !file.destroyed) {
    if (!file.write(chunk)) await Promise.race([once(file, 'drain'), once(file, 'close')])
    await turnOfTheEventLoop()
  }
  t.match(body.received, /^HTTP\/1.1 408 .*request_timeout/s)
  t.match(answered.received, /^HTTP\/1.1 404 /, 'its body is not waited for, either')
  t.match(stuck.received, /^HTTP\/1.1 408 /, 'a file of which nothing comes')
  t.equal(upload.received, '')
  t.notOk(file.destroyed, 'the file still comes')
  const before = bytes
  file.write(chunk)
  await until(() => bytes > before)
  file.destroy()
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

testEach('a Go template is refused, wherever it is given', async (t) => {
  const { ask, id } = await start(t)
  const template = '{{ .Prompt }}'
  const from = { model: 'own', from: id, stream: false }
  for (const [path, body] of [
    ['/api/create', { ...from, template }],
    ['/api/create', { ...from, modelfile: `FROM ${id}\nTEMPLATE """${template}"""` }],
    ['/api/generate', { prompt: 'a', template }],
  ] as const) {
    const { status, json } = await ask(path, body)
    t.match([status, json], [400, { error: /template: Ollama's Go templates are not read: / }])
  }
  t.equal((await ask('/api/create', { ...from, template: '' })).status, 200, 'an empty one is none')
})

testEach('what cannot be done', async (t) => {
  const { ask } = await start(t)
  const cases: [path: string, body: object, error: RegExp][] = [
    ['/api/generate', { model: null }, /model/],
    ['/api/generate', { prompt: 5 }, /prompt: expected a string/],
    ['/api/generate', { prompt: 'a', context: ['a'] }, /context: expected an array of tokens/],
    ['/api/generate', { prompt: 'a', context: [1.5] }, /context: expected an array of tokens/],
    ['/api/generate', { prompt: 'a', format: 'json' }, /format/],
    ['/api/generate', { format: 5 }, /format/],
    ['/api/generate', { images: ['aGk='] }, /images/],
    ['/api/generate', { suffix: 'a' }, /suffix: .* does not support insert/],
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
