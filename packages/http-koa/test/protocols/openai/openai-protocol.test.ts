import { setImmediate as turnOfTheEventLoop } from 'node:timers/promises'
import { type BatchItem, defined, type GenerateRequest } from '@cllm/core'
import { testProtocol, FakeTokenizer, scriptAnswers, drive } from '@cllm/testing'
import {
  anthropicProtocol,
  type KoaProtocol,
  metricsProtocol,
  openAiProtocol,
  type RequestObserver,
  usageProtocol,
} from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { clientKind, testEach } from '../../each-client.js'
import { eventsOf, rawPost, rawRequest, serve, until, warningsIn } from '../../serve.js'
import { serveDirectory } from '../../serve-directory.js'
import { textLogprobs } from '../../../src/protocols/openai/openai-answer.js'

const tokenizer = new FakeTokenizer()
const turn = (role: string, text: string) => `<|im_start|>${role}\n${text}<|im_end|>\n`
const asks = (text: string) => `${turn('user', text)}<|im_start|>assistant\n`
const weather = '{"name": "get_weather", "arguments": {"city": "Paris"}}'
const tool = {
  type: 'function',
  function: {
    name: 'get_weather',
    parameters: { type: 'object', properties: { city: { type: 'string' } } },
  },
}
const toolSystem =
  'You can call these tools:\n' +
  `${JSON.stringify(tool.function)}\n` +
  'To call one, answer with nothing but JSON: {"name": "the tool", "arguments": {…}}'
const script = scriptAnswers(tokenizer, {
  [asks('euro')]: 'a€ b',
  [asks('eu\nro')]: 'a€ b',
  [turn('system', 'Be brief.') + asks('euro')]: 'brief',
  [turn('system', toolSystem) + asks('euro')]: weather,
  [turn('system', toolSystem) +
  turn('user', 'euro') +
  turn('assistant', '{"name":"get_weather","arguments":{"city":"Paris"}}') +
  turn('user', 'Result of get_weather: rain') +
  '<|im_start|>assistant\n']: 'It rains.',
  [`${turn('user', 'euro')}<|im_start|>assistant\nGoes`]: ' on',
  euro: 'a€ b',
  other: 'XYZ',
  '\u0001euro\u0002;\u0003': ' a€ b ',
})

type Json = Record<string, unknown>

/** A text completion's choice, of which null stands for a first token. */
interface ScoredChoice {
  readonly text: string
  readonly logprobs: {
    readonly tokens: readonly string[]
    readonly token_logprobs: readonly (number | null)[]
    readonly top_logprobs: readonly (object | null)[]
    readonly text_offset: readonly number[]
  } | null
}

const chat = '/v1/chat/completions'
const done = 'data: [DONE]\n\n'
const user = (content: unknown) => ({ messages: [{ role: 'user', content }] })

async function start(t: Test, options: Parameters<typeof serve>[0] = {}) {
  const server = await serve({
    protocols: [openAiProtocol()],
    ...options,
    backend: { script, contextSize: 1024, ...options.backend },
  })
  t.teardown(() => server.close())
  const ask = async (path: string, body: unknown) => {
    const response = await server.post(path, body)
    return {
      status: response.status,
      headers: response.headers,
      json: (await response.json()) as Json,
    }
  }
  /** The chunks of a stream. */
  const stream = async (path: string, body: object, agent?: string) => {
    const headers = { 'Content-Type': 'application/json', 'User-Agent': agent ?? 'test' }
    const response = await server.post(path, { ...body, stream: true }, { headers })
    t.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    const text = await response.text()
    t.ok(text.endsWith(done))
    return eventsOf(text.slice(0, -done.length))
  }
  return { ...server, ask, stream }
}

testEach('conformance', async (t) => {
  const make = serveDirectory(() => openAiProtocol())
  await testProtocol(t, make, {
    client: clientKind(),
    request: (prompt, maxTokens, stream) => ({
      path: chat,
      body: JSON.stringify({ ...user(prompt), max_tokens: maxTokens, stream, ignore_eos: true }),
    }),
  })
  await testProtocol(t, make, {
    client: clientKind(),
    request: (prompt, max_tokens, stream) => ({
      path: '/v1/completions',
      body: JSON.stringify({ prompt, max_tokens, stream, ignore_eos: true }),
    }),
  })
  await testProtocol(t, make, {
    client: clientKind(),
    request: (prompt, max_tokens, stream) => ({
      path: '/v1/fim/completions',
      body: JSON.stringify({ prompt, max_tokens, stream, ignore_eos: true }),
    }),
  })
})

testEach('models', async (t) => {
  const { get, post, client } = await start(t)
  const { model, limits } = await client.info()
  t.match(await (await get('/v1/models')).json(), {
    object: 'list',
    data: [{ id: model.id, object: 'model', owned_by: 'cllm' }],
  })
  t.match(await (await get(`/v1/models/${model.id}`)).json(), { id: model.id, object: 'model' })
  const init = { headers: { 'anthropic-version': '2023-06-01' } }
  const known = {
    type: 'model',
    id: model.id,
    display_name: model.id,
    created_at: /^1970-01-01T/,
    max_input_tokens: limits.contextSize,
    max_tokens: limits.contextSize,
    capabilities: null,
    lifecycle: 'active',
  }
  t.match(await (await get('/v1/models/none', init)).json(), { type: 'error' })
  const wrong = await post('/v1/chat/completions', {}, init)
  t.match(
    await wrong.json(),
    { type: undefined, error: { param: 'messages' } },
    'nobody else has it',
  )
  t.match(await (await get('/v1/models', init)).json(), {
    data: [known],
    has_more: false,
    first_id: model.id,
    last_id: model.id,
  })
  t.match(await (await get(`/v1/models/${model.id}`, init)).json(), known)
  t.match(await (await get(`/v1/models/${model.id}/`, init)).json(), known, 'a slash ends it')
  const unknown = await get('/v1/models/a/b', init)
  t.match(await unknown.json(), { type: 'error', error: { type: 'not_found_error' } })
  const missing = await get('/v1/models/a/b')
  t.equal(missing.status, 404)
  t.match(await missing.json(), {
    error: { code: 'model_not_found', type: 'invalid_request_error', message: /"a\/b"/ },
  })
})

testEach('chat completions', async (t) => {
  const { ask, stream, clock } = await start(t)
  const { json, headers } = await ask(chat, { ...user('euro'), seed: 5, model: null })
  t.match(headers.get('x-request-id'), /^[0-9a-f]{32}$/)
  t.match(json, {
    id: `chatcmpl-${headers.get('x-request-id')}`,
    object: 'chat.completion',
    created: 1,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'a€ b' },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: { completion_tokens: 4, prompt_tokens_details: { cached_tokens: 0 } },
    timings: { predicted_n: 4 },
  })
  clock.aheadMs = 3_600_000
  t.match((await ask(chat, user('euro'))).json, { created: 3601 }, 'the machine slept for an hour')
  const usage = json['usage'] as Record<string, number>
  t.equal(usage['total_tokens'], (usage['prompt_tokens'] ?? 0) + 4)

  const parts = [
    { type: 'text', text: 'eu' },
    { type: 'text', text: '' },
    { type: 'text', text: 'ro' },
  ]
  t.match((await ask(chat, user(parts))).json, { choices: [{ message: { content: 'a€ b' } }] })
  t.match(
    (
      await ask(chat, {
        messages: [
          { role: 'developer', content: 'Be brief.' },
          { role: 'user', content: 'euro' },
        ],
      })
    ).json,
    { choices: [{ message: { content: 'brief' } }] },
  )
  t.match((await ask(chat, { ...user('euro'), max_completion_tokens: 1 })).json, {
    choices: [{ message: { content: 'a' }, finish_reason: 'length' }],
  })
  const open = [
    { role: 'user', content: 'euro' },
    { role: 'assistant', content: 'Goes' },
  ]
  for (const more of [{ continue_final_message: true }, {}]) {
    t.match((await ask(chat, { messages: open, ...more })).json, {
      choices: [{ message: { content: ' on', refusal: null } }],
    })
  }
  const counted = await ask('/chat/completions/input_tokens', user('euro'))
  t.match(counted.json, { object: 'response.input_tokens' })
  const { json: bare } = await ask('/chat/completions', {
    ...user('euro'),
    verbose: true,
    max_tokens: -1,
  })
  t.match(bare, {
    choices: [{ message: { content: 'a€ b' } }],
    usage: { prompt_tokens: (counted.json as { input_tokens: number }).input_tokens },
    __verbose: { prompt: /euro/, generation_settings: { n_predict: -1 } },
  })
  const shown = await start(t, { protocols: [openAiProtocol({ log: { level: 'debug' } })] })
  const quiet = await shown.ask(chat, { ...user('euro'), verbose: false })
  t.notMatch(quiet.json, { __verbose: {} })
  t.match((await shown.ask(chat, user('euro'))).json, { __verbose: { prompt: /euro/ } })
  const timed = await stream(chat, { ...user('euro'), timings_per_token: true })
  t.match(timed[1], { timings: { predicted_n: 1, prompt_n: Number } })

  const chunks = await stream(chat, {
    ...user('euro'),
    stream_options: { include_usage: true },
    // as vLLM's clients say no
    min_tokens: 0,
    stop_token_ids: [],
    include_stop_str_in_output: false,
    mcp_servers: [],
    web_search_options: null,
    echo: false,
    reasoning_format: 'auto',
  })
  t.match(chunks[0], {
    object: 'chat.completion.chunk',
    choices: [{ delta: { role: 'assistant', content: null } }],
    usage: null,
  })
  const deltas = chunks
    .slice(1, -2)
    .map((chunk) => (chunk['choices'] as { delta: Json }[])[0]?.delta)
  t.same(deltas, [{ content: 'a' }, { content: '€ ' }, { content: 'b' }])
  t.match(chunks.at(-2), { choices: [{ delta: {}, finish_reason: 'stop' }] })
  t.match(chunks.at(-1), { choices: [], usage: { completion_tokens: 4 } })
  t.equal(new Set(chunks.map(({ id }) => id)).size, 1)
  const unasked = await stream(chat, user('euro'))
  t.equal(unasked.length, 5)
  t.notOk(
    unasked.some((chunk) => 'usage' in chunk),
    'no usage unless asked for',
  )
  t.match(unasked.at(-1), { choices: [{ finish_reason: 'stop' }], timings: { predicted_n: 4 } })
  const text = await stream('/v1/completions', { prompt: 'euro' })
  t.match(text.at(-1), { choices: [{ finish_reason: 'stop' }], timings: { predicted_n: 4 } })
})

testEach('several answers', async (t) => {
  const { ask, stream, client } = await start(t)
  const body = { ...user('free'), n: 3, seed: 7, temperature: 1.5, max_tokens: 12 }
  const { json } = await ask(chat, body)
  const choices = json['choices'] as { index: number; message: { content: string } }[]
  t.same(
    choices.map(({ index }) => index),
    [0, 1, 2],
  )
  const texts = choices.map(({ message }) => message.content)
  t.not(new Set(texts).size, 1, 'other seeds')
  const streamed = ['', '', '']
  for (const chunk of await stream(chat, body)) {
    const [choice] = chunk['choices'] as { index: number; delta: { content?: string } }[]
    streamed[choice?.index ?? 0] += choice?.delta.content ?? ''
  }
  t.same(streamed, texts, 'streamed the same')
  const other = await start(t, { backend: { endProbability: 0.1 } })
  const uneven = {
    ...user('a longer prompt to share'),
    n: 3,
    seed: 6,
    temperature: 1.5,
    cache_prompt: false,
  }
  const ofWhole = (await other.ask(chat, uneven)).json
  const chunks = await other.stream(chat, { ...uneven, stream_options: { include_usage: true } })
  const ends = chunks.flatMap(
    ({ choices }) => choices as { index: number; finish_reason: string }[],
  )
  t.not(ends.find((one) => one.finish_reason)?.index, 0, 'the first one ends later')
  const figures = ({ usage, timings }: Json) => [usage, (timings as Json)['predicted_n']]
  t.same(figures(chunks.at(-1)!), figures(ofWhole), 'and its figures are told all the same')
  t.equal((await client.statistics()).running, 0)
})

testEach('tools', async (t) => {
  const { ask, stream } = await start(t)
  const call = {
    type: 'function',
    function: { name: 'get_weather', arguments: '{"city":"Paris"}' },
  }
  const { json } = await ask(chat, { ...user('euro'), tools: [tool] })
  t.match(json, {
    choices: [
      {
        message: { content: null, tool_calls: [{ id: /^call_/, ...call }] },
        finish_reason: 'tool_calls',
      },
    ],
  })
  const chunks = await stream(chat, { ...user('euro'), tools: [tool], tool_choice: 'auto' })
  type Delta = { tool_calls?: [{ index: number; id?: string; function: Json }] }
  const deltas = chunks.flatMap(({ choices }) => (choices as [{ delta: Delta }])[0].delta)
  const calls = deltas.flatMap(({ tool_calls: calls }) => calls ?? [])
  t.match(calls[0], { index: 0, id: /^call_/, function: { name: 'get_weather', arguments: '' } })
  t.ok(calls.length > 5, 'arguments come while they are written')
  const written = calls.map((call) => call.function['arguments']).join('')
  t.equal(written, '{"city": "Paris"}')
  t.match(chunks.at(-1), { choices: [{ finish_reason: 'tool_calls' }] })
  const forMistral = await stream(
    chat,
    { ...user('euro'), tools: [tool] },
    'mistral-client-typescript/1.10.0',
  )
  const whole = forMistral.flatMap(({ choices }) => {
    const [{ delta }] = choices as [{ delta: Delta }]
    return delta.tool_calls ?? []
  })
  t.match(whole, [{ index: 0, ...call }], 'whole calls: its SDKs want a name in each piece')
  t.equal(whole.length, 1)
  const messages = [
    { role: 'user', content: 'euro' },
    { role: 'assistant', content: null, tool_calls: [{ id: 'c1', ...call }] },
    { role: 'tool', tool_call_id: 'c1', content: 'rain' },
  ]
  t.match((await ask(chat, { messages, tools: [tool] })).json, {
    choices: [{ message: { content: 'It rains.' }, finish_reason: 'stop' }],
  })
  t.match((await ask(chat, { ...user('euro'), tools: [tool], tool_choice: 'none' })).json, {
    choices: [{ message: { content: 'a€ b' } }],
  })
})

testEach('a forced call that max_tokens cuts is a call, whole and streamed', async (t) => {
  const { ask, stream, client } = await start(t)
  const info = await client.info()
  const submit = client.submit.bind(client)
  // the script keeps to what the answer is held to
  Object.assign(client, {
    info: async () => ({ ...info, capabilities: { ...info.capabilities, grammar: true } }),
    submit: ({ sampling, ...request }: GenerateRequest) =>
      submit({ ...request, sampling: { temperature: sampling?.temperature ?? 0 } }),
  })
  const cut = { ...user('euro'), tools: [tool], tool_choice: 'required', max_tokens: 50 }
  const called = { name: 'get_weather', arguments: /^\{"city": ?"P?/ }
  t.match((await ask(chat, cut)).json, {
    choices: [
      { message: { content: null, tool_calls: [{ function: called }] }, finish_reason: 'length' },
    ],
  })
  type Delta = { content?: string; tool_calls?: [{ function: { arguments: string } }] }
  const chunks = await stream(chat, cut)
  const deltas = chunks.flatMap(({ choices }) => (choices as [{ delta: Delta }])[0].delta)
  const given = deltas.flatMap(({ tool_calls: calls = [] }) =>
    calls.map((call) => call.function.arguments),
  )
  t.match(given.join(''), /^\{"city": ?"P?/)
  t.equal(deltas.map(({ content }) => content ?? '').join(''), '')
  t.match((await ask(chat, { ...cut, max_tokens: 5 })).json, {
    choices: [
      {
        message: { content: null, tool_calls: [{ function: { ...called, arguments: '' } }] },
        finish_reason: 'length',
      },
    ],
  })
})

testEach('what other clients send', async (t) => {
  const { ask } = await start(t)
  const refusal = { role: 'assistant', content: [{ type: 'refusal', refusal: 'No.' }] }
  const messages = [refusal, { role: 'user', content: 'euro' }]
  t.equal((await ask(chat, { messages })).status, 200)
  const texts = { ...user('euro'), modalities: ['text'], dry_sequence_breakers: '["\\n", ":"]' }
  const { json } = await ask(chat, texts)
  t.match(json, {
    choices: [{ message: { content: 'a€ b' } }],
    usage: { completion_tokens_details: { reasoning_tokens: 0 } },
  })
  const { json: models } = await ask('/v1/completions', { prompt: 'euro', model: 'fake:latest' })
  t.match(models, { choices: [{ text: 'a€ b' }] }, 'a name as /api/tags lists it')
})

testEach("Mistral's completions of gaps", async (t) => {
  const { ask, stream, backend } = await start(t, { backend: { canInfill: true } })
  const path = '/v1/fim/completions'
  const gap = { model: backend.model.id, prompt: 'euro', suffix: ';', random_seed: 1, stop: null }
  const usage = { prompt_tokens: 9, completion_tokens: 5, total_tokens: 14 }
  t.match((await ask(path, gap)).json, {
    id: /./,
    object: 'chat.completion',
    model: backend.model.id,
    choices: [
      { index: 0, message: { role: 'assistant', content: ' a€ b ' }, finish_reason: 'stop' },
    ],
    usage,
  })
  const chunks = await stream(path, gap)
  const choices = chunks.map(({ choices }) => (choices as [{ delta: { content: string } }])[0])
  t.equal(choices.map(({ delta }) => delta.content).join(''), ' a€ b ')
  t.ok(choices.length > 3, 'it comes in pieces')
  t.match(chunks[0], {
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta: { role: 'assistant' }, finish_reason: null }],
  })
  t.match(chunks.at(-1), { choices: [{ finish_reason: 'stop' }], usage })
  t.notOk(chunks.some((chunk, index) => 'usage' in chunk && index < chunks.length - 1))
  const behindNothing = (await ask(path, { prompt: '', suffix: ';', max_tokens: 2 })).json
  t.match(behindNothing, { usage: { prompt_tokens: 5 } }, 'a text begins once')
  for (const suffix of ['', undefined]) {
    t.match((await ask(path, { prompt: 'euro', suffix, max_tokens: 2 })).json, {
      choices: [{ message: { content: 'a' }, finish_reason: 'length' }],
    })
  }
})

t.test('offsets in a text count characters', async (t) => {
  const [smile, end] = ['😊', '.'].map((text) => ({
    token: 1,
    text,
    bytes: [],
    logprob: -1,
    top: [],
  }))
  t.match(textLogprobs([smile!, end!], { characters: 3 }), { text_offset: [3, 4] })
})

testEach('completions', async (t) => {
  const { ask, stream } = await start(t)
  const path = '/v1/completions'
  t.match((await ask(path, { prompt: 'euro' })).json, {
    object: 'text_completion',
    choices: [{ text: 'a€ b', index: 0, logprobs: null, finish_reason: 'stop' }],
    usage: { prompt_tokens: 5, completion_tokens: 4, total_tokens: 9 },
  })
  const tokens = tokenizer.encode('other')
  const { json } = await ask(path, { prompt: ['euro', 'other'], echo: true })
  t.match(json, {
    choices: [{ text: 'euroa€ b' }, { text: 'otherXYZ' }],
    usage: { prompt_tokens: 5 + tokens.length },
  })
  t.match((await ask(path, { prompt: tokens })).json, { choices: [{ text: 'XYZ' }] })
  t.match((await ask(path, { prompt: [tokens, tokens], n: 2 })).json, {
    choices: [{ text: 'XYZ' }, { text: 'XYZ' }, { text: 'XYZ' }, { text: 'XYZ' }],
    usage: { prompt_tokens: 2 * tokens.length },
  })
  t.match((await ask(path, { prompt: 'other', stop: ['Z'] })).json, {
    choices: [{ text: 'XY', finish_reason: 'stop' }],
  })
  const scored = { prompt: tokens, echo: true, logprobs: 2 }
  for (const max_tokens of [0, 1]) {
    const { json } = await ask(path, { ...scored, max_tokens })
    const [choice] = json['choices'] as ScoredChoice[]
    const { text, logprobs } = choice!
    if (logprobs === null) throw new Error('no logprobs')
    t.equal(text, max_tokens === 0 ? 'other' : 'otherX')
    t.match(json, { usage: { completion_tokens: max_tokens } })
    t.equal(logprobs.tokens.join(''), text, 'the texts of all tokens')
    t.equal(logprobs.token_logprobs.length, tokens.length + max_tokens)
    t.equal(logprobs.token_logprobs[0], null, 'nothing comes before the first')
    t.equal(logprobs.top_logprobs[0], null)
    t.ok(logprobs.token_logprobs.slice(1).every((logprob) => logprob! < 0))
    t.ok(logprobs.top_logprobs.slice(1).every((top) => Object.keys(top!).length === 2))
    t.same(logprobs.text_offset.slice(0, 2), [0, logprobs.tokens[0]!.length])
    const chunks = await stream(path, { ...scored, max_tokens })
    const parts = chunks.flatMap(({ choices }) => choices as ScoredChoice[])
    t.same(
      parts.flatMap(({ logprobs }) => logprobs?.token_logprobs ?? []),
      logprobs.token_logprobs,
      'the same when streamed',
    )
    t.equal(parts.map(({ text }) => text).join(''), text)
  }
  const warnings: Error[] = []
  const onWarning = (warning: Error) => void warnings.push(warning)
  process.on('warning', onWarning)
  const many = await ask(path, { prompt: Array.from({ length: 20 }, () => 'euro') })
  await new Promise(setImmediate)
  process.off('warning', onWarning)
  t.equal((many.json['choices'] as unknown[]).length, 20)
  t.same(warnings, [], 'Node warns of nothing')
  const free = await ask(path, { prompt: 'free', ignore_eos: true })
  t.match(free.json, { usage: { completion_tokens: 16 } }, "OpenAI's default")
  const chunks = await stream(path, { prompt: 'euro', stream_options: { include_usage: true } })
  const plain = await stream(path, { prompt: 'euro', stream_options: { include_usage: null } })
  t.match(plain.at(-1), { choices: [{}] }, 'a null is as if it were absent')
  t.equal(
    chunks
      .flatMap(({ choices }) => choices as { text: string }[])
      .map(({ text }) => text)
      .join(''),
    'a€ b',
  )
  t.match(chunks.at(-1), { choices: [], usage: { total_tokens: 9 } })
})

/** What lm-evaluation-harness reads of a choice, as its `parse_logprobs` does. */
function likelihood({ logprobs }: ScoredChoice, contextLength: number, added: number) {
  const { token_logprobs: all, top_logprobs: tops } = logprobs!
  const end = all.length - added
  const scored = all.slice(contextLength, end).map(Number)
  const isGreedy = tops
    .slice(contextLength, end)
    .every((top, index) => scored[index] === Math.max(...Object.values(top ?? {})))
  return { sum: scored.reduce((sum, logprob) => sum + logprob, 0), isGreedy, length: end }
}

testEach('the requests of lm-evaluation-harness, as it sends them', async (t) => {
  const { ask } = await start(t)
  const path = '/v1/completions'
  const model = 'fake'
  // loglikelihood: a context and each of its continuations as tokens, in batches
  const context = tokenizer.encode('The answer is')
  const continuations = [' yes', ' no', ' a longer one', ''].map((text) =>
    tokenizer.encode(text, { addBos: false }),
  )
  const prompt = continuations.map((more) => [...context, ...more])
  const common = { model, temperature: 0, logprobs: 1, seed: 1234, echo: true }
  const sums: number[][] = []
  for (const max_tokens of [1, 0]) {
    const { status, json } = await ask(path, { ...common, prompt, max_tokens })
    t.equal(status, 200)
    const choices = (json['choices'] as (ScoredChoice & { index: number })[]).toSorted(
      (one, other) => one.index - other.index,
    )
    t.equal(choices.length, prompt.length)
    const read = choices.map((choice) => likelihood(choice, context.length, max_tokens))
    t.same(
      read.map(({ length }) => length),
      prompt.map(({ length }) => length),
      'one for each token of the prompt',
    )
    t.equal(read.at(-1)?.sum, 0, 'an empty continuation is certain')
    t.ok(read.slice(0, 3).every(({ sum }) => sum < 0))
    sums.push(read.map(({ sum }) => sum))
  }
  t.same(sums[0], sums[1])
  // each by itself is as likely as in a batch
  for (const [index, tokens] of prompt.entries()) {
    const { json } = await ask(path, { ...common, prompt: [tokens], max_tokens: 1 })
    const [choice] = json['choices'] as ScoredChoice[]
    t.equal(likelihood(choice!, context.length, 1).sum, sums[0]![index])
  }
  // rolling: from the first token on
  const [rolling] = (await ask(path, { ...common, prompt: [context], max_tokens: 1 })).json[
    'choices'
  ] as ScoredChoice[]
  t.ok(likelihood(rolling!, 1, 1).sum < 0)
  // generate_until: texts, with lists of texts that end them
  const until = { model, max_tokens: 256, temperature: 0, seed: 1234 }
  const generated = await ask(path, {
    ...until,
    prompt: ['euro', 'other'],
    stop: ['\n\n', 'Z', '</s>', 'Question:'],
  })
  t.match(generated.json, {
    choices: [
      { index: 0, text: 'a€ b', finish_reason: 'stop' },
      { index: 1, text: 'XY', finish_reason: 'stop' },
    ],
  })
  const chat = { ...until, messages: [{ role: 'user', content: 'euro' }], stop: ['b'] }
  t.match((await ask('/v1/chat/completions', chat)).json, {
    choices: [{ message: { content: 'a€ ' } }],
  })
})

testEach('100 texts to embed hold up a stream by one pass between two steps', async (t) => {
  const { backend, post, ask } = await start(t, {
    backend: { embeddingSize: 2, contextSize: 1024 },
  })
  const order: string[] = []
  const [step, embed] = [backend.step.bind(backend), backend.embed.bind(backend)]
  backend.step = async (batch) => {
    order.push('step')
    return await step(batch)
  }
  backend.embed = async (inputs) => {
    order.push('embed')
    // a pass takes longer than what the loop does between two steps
    for (let turns = 0; turns < 10; turns++) await turnOfTheEventLoop()
    return await embed(inputs)
  }
  const streaming = await post('/v1/completions', {
    prompt: 'free',
    max_tokens: 400,
    ignore_eos: true,
    stream: true,
  })
  const input = Array.from({ length: 100 }, (_, index) => `text ${index}`)
  const embedded = await ask('/v1/embeddings', { input })
  t.equal((embedded.json['data'] as unknown[]).length, 100)
  t.match(await streaming.text(), /\[DONE\]/)
  const between = order.join(' ').split('step').slice(1, -1)
  const most = Math.max(...between.map((passes) => passes.match(/embed/g)?.length ?? 0))
  t.equal(most, 1, 'never two passes between two steps')
  t.ok(between.length >= 100)
})

testEach('the best of several answers', async (t) => {
  const { ask } = await start(t)
  type Choice = { text: string; logprobs: { token_logprobs: number[] } }
  const body = { prompt: ['free', 'more'], max_tokens: 4, seed: 1, temperature: 1.5, logprobs: 0 }
  const path = '/v1/completions'
  const all = await ask(path, { ...body, n: 5 })
  const mean = ({ logprobs: { token_logprobs: list } }: Choice) =>
    list.reduce((sum, value) => sum + value) / list.length
  const choices = all.json['choices'] as Choice[]
  const ranked = [choices.slice(0, 5), choices.slice(5)].map((some) =>
    some.toSorted((a, b) => mean(b) - mean(a)),
  )
  const expected = ranked.flatMap((some) => some.slice(0, 2).map(({ text }) => text))
  const { json } = await ask(path, { ...body, logprobs: undefined, n: 2, best_of: 5 })
  t.match(json, {
    choices: expected.map((text, index) => ({ text, index, logprobs: null })),
    usage: { completion_tokens: 2 * 5 * 4 },
  })
})

testEach('log probabilities', async (t) => {
  let items: readonly BatchItem[] = []
  const failWhen = (batch: typeof items) => {
    items = [...items, ...batch]
    return undefined
  }
  const { ask, stream } = await start(t, { backend: { failWhen } })
  type Likely = { token: string; bytes: number[]; logprob: number }
  type Content = (Likely & { top_logprobs: Likely[] })[]
  type Choice = { logprobs: { content: Content } | null; message: { content: string } }
  const body = { ...user('free'), max_tokens: 6, seed: 1 }
  t.match((await ask(chat, body)).json, { choices: [{ logprobs: null }] })
  const wanted = { ...body, logprobs: true, top_logprobs: 3 }
  const [choice] = (await ask(chat, wanted)).json['choices'] as [Choice]
  const content = choice.logprobs?.content ?? []
  t.equal(content.length, 6)
  const bytes = content.flatMap((token) => token.bytes)
  t.equal(Buffer.from(bytes).toString(), choice.message.content)
  for (const { logprob, top_logprobs: top } of content) {
    t.equal(top.length, 3)
    const logprobs = top.map((other) => other.logprob)
    t.same(
      logprobs,
      logprobs.toSorted((a, b) => b - a),
    )
    t.ok(logprob <= logprobs[0]!)
  }
  const chunks = await stream(chat, wanted)
  const streamed = chunks.flatMap(
    ({ choices }) => (choices as Choice[])[0]?.logprobs?.content ?? [],
  )
  t.same(streamed, content, 'streamed the same')
  const probable = (await ask(chat, { ...body, n_probs: 3 })).json['choices']
  t.match(probable, [{ logprobs: { content } }], "as llama-server's clients say it")
  const drawn = { ...wanted, post_sampling_probs: true }
  const ofDraw = [{ token: content[0]!.token, prob: Number, top_probs: [{ prob: Number }, {}, {}] }]
  t.match((await ask(chat, drawn)).json['choices'], [{ logprobs: { content: ofDraw } }])
  const inChunks = (await stream(chat, drawn)).map(({ choices }) => (choices as Choice[])[0])
  t.match(inChunks.find((one) => one?.logprobs)?.logprobs?.content, ofDraw, "llama-server's form")
  const without = await ask(chat, { ...body, logprobs: false, top_logprobs: undefined, n_probs: 3 })
  t.match(without.json['choices'], [{ logprobs: null }], 'logprobs has the last word')

  const path = '/v1/completions'
  const text = { prompt: 'free', max_tokens: 4, seed: 1, logprobs: 2 }
  const [first] = (await ask(path, text)).json['choices'] as [
    { text: string; logprobs: { tokens: string[]; text_offset: number[] } },
  ]
  t.equal(first.logprobs.tokens.length, 4)
  t.match(first.logprobs, { token_logprobs: [Number], top_logprobs: [{}, {}, {}, {}] })
  const offsets = (await stream(path, text)).flatMap(
    ({ choices }) => (choices as (typeof first)[])[0]?.logprobs?.text_offset ?? [],
  )
  t.same(offsets, first.logprobs.text_offset)
  const probed = (await ask(path, { ...text, logprobs: undefined, n_probs: 2 })).json['choices']
  t.match(probed, [{ logprobs: first.logprobs }], "as llama-server's clients say it")
  const drawnText = { ...text, post_sampling_probs: true }
  const askedFor = async (body: object) => {
    items = []
    t.match((await ask(path, body)).json['choices'], [{ text: String }])
    return items.flatMap(({ logprobs, drawLogprobs }) => defined({ logprobs, drawLogprobs }))
  }
  t.match(await askedFor(drawnText), [{ drawLogprobs: 2 }])
  const best = await askedFor({ ...drawnText, logprobs: undefined, best_of: 2 })
  t.match(best, [{ logprobs: 0 }], 'the likeliest answer by the model is still the best')
})

testEach('what cannot be done is refused, naming the field', async (t) => {
  const { ask, client } = await start(t, { backend: { contextSize: 60 } })
  const strict = { ...tool, function: { ...tool.function, strict: true } }
  const image = { type: 'image_url', image_url: { url: 'data:' } }
  const cases: [path: string, body: object, code: string, param: RegExp][] = [
    [chat, { response_format: { type: 'json_object' } }, 'unsupported', /^response_format$/],
    [chat, { response_format: { type: 'xml' } }, 'invalid_request', /^response_format.type$/],
    [chat, { grammar: 'root ::= "a"' }, 'unsupported', /^grammar$/],
    [chat, { top_logprobs: 3 }, 'invalid_request', /^top_logprobs$/],
    [chat, { tools: [strict] }, 'unsupported', /^tools$/],
    [chat, { tools: [tool], tool_choice: 'required' }, 'unsupported', /^tool_choice$/],
    [chat, { tools: [tool], tool_choice: 'any' }, 'unsupported', /^tool_choice$/],
    [chat, user([image]), 'unsupported', /^messages.0.content.0$/],
    [chat, user([{ text: 5 }]), 'invalid_request', /^messages.0.content.0$/],
    [chat, { messages: [] }, 'invalid_request', /^messages$/],
    [chat, { messages: [{ role: 'king', content: 'a' }] }, 'invalid_request', /^messages.0.role$/],
    [chat, { messages: [{ role: 'user' }] }, 'invalid_request', /^messages.0.content$/],
    [chat, { messages: undefined }, 'invalid_request', /^messages$/],
    [chat, { modalities: ['text', 'audio'] }, 'unsupported', /^modalities$/],
    [chat, { return_token_ids: true }, 'unsupported', /^return_token_ids$/],
    [chat, { dry_sequence_breakers: '[5]' }, 'invalid_request', /^dry_sequence_breakers/],
    [chat, { dry_sequence_breakers: '\n' }, 'invalid_request', /^dry_sequence_breakers$/],
    [
      chat,
      { response_format: { type: 'json', value: { type: 'object' } } },
      'unsupported',
      /^response_format$/,
    ],
    [chat, { response_format: { type: 'json' } }, 'invalid_request', /^response_format.value$/],
    [chat, { response_format: { type: 'regex', value: 'a' } }, 'unsupported', /^response_format$/],
    [chat, { response_format: { type: 'regex' } }, 'invalid_request', /^response_format.value$/],
    [chat, { temperature: 'hot' }, 'invalid_request', /^temperature$/],
    [chat, { min_tokens: 3 }, 'unsupported', /^min_tokens$/],
    [chat, { functions: [{ name: 'f' }] }, 'unsupported', /^functions$/],
    [chat, { function_call: { name: 'f' } }, 'unsupported', /^function_call$/],
    [chat, { stop_token_ids: [3] }, 'unsupported', /^stop_token_ids$/],
    [chat, { include_stop_str_in_output: true }, 'unsupported', /^include_stop_str_in_output$/],
    [chat, { prompt_logprobs: 0 }, 'unsupported', /^prompt_logprobs$/],
    [chat, { truncate_prompt_tokens: 9 }, 'unsupported', /^truncate_prompt_tokens$/],
    [chat, { min_tokens: 'x' }, 'invalid_request', /^min_tokens$/],
    [chat, { stop_token_ids: false }, 'invalid_request', /^stop_token_ids$/],
    [chat, { bad_words: ['free'] }, 'unsupported', /^bad_words$/],
    [chat, { allowed_token_ids: [3] }, 'unsupported', /^allowed_token_ids$/],
    [chat, { use_beam_search: true }, 'unsupported', /^use_beam_search$/],
    [chat, { chat_template: '{{ messages }}' }, 'unsupported', /^chat_template$/],
    [chat, { documents: [{ text: 'a' }] }, 'unsupported', /^documents$/],
    [chat, { web_search_options: {} }, 'unsupported', /^web_search_options$/],
    [chat, { echo: true }, 'unsupported', /^echo$/],
    [chat, { reasoning_format: 'none' }, 'unsupported', /^reasoning_format$/],
    [chat, { reasoning_format: 'deepseek-legacy' }, 'unsupported', /^reasoning_format$/],
    [chat, { return_tokens_as_token_ids: true }, 'unsupported', /^return_tokens_as_token_ids$/],
    ['/v1/responses', { input: 'a', mcp_servers: [{}] }, 'unsupported', /^mcp_servers$/],
    ['/v1/completions', { prompt: 'a', prompt_embeds: 'AAAA' }, 'unsupported', /^prompt_embeds$/],
    // names that every object of JavaScript has
    [chat, user([{ type: '__proto__' }]), 'unsupported', /^messages.0.content.0$/],
    [chat, user([{ type: 'toString' }]), 'unsupported', /^messages.0.content.0$/],
    [chat, { continue_final_message: true }, 'invalid_request', /^continue_final_message$/],
    [chat, user('x'.repeat(90)), 'context_length_exceeded', /^prompt$/],
    ['/v1/completions', { prompt: [] }, 'invalid_request', /^prompt$/],
    ['/v1/completions', { prompt: [5000] }, 'invalid_token', /^prompt$/],
    ['/v1/completions', { prompt: [5000], echo: true }, 'invalid_token', /^prompt$/],
    ['/v1/completions', { prompt: 'a', suffix: 'b' }, 'unsupported', /^suffix$/],
    ['/v1/fim/completions', { prompt: 'a', suffix: 'b' }, 'unsupported', /^suffix$/],
    ['/v1/fim/completions', { prompt: 'a', min_tokens: 5 }, 'unsupported', /^min_tokens$/],
    ['/v1/fim/completions', { prompt: ['a'] }, 'invalid_request', /^prompt$/],
    ['/v1/fim/completions', { prompt: 'a', max_tokens: 0 }, 'invalid_request', /^max_tokens$/],
    ['/v1/completions', { prompt: 'a', max_tokens: 0 }, 'invalid_request', /^max_tokens$/],
    ['/v1/completions', { prompt: 'a', best_of: 1, n: 2 }, 'invalid_request', /^best_of$/],
    ['/v1/completions', { prompt: 'a', best_of: 2, stream: true }, 'unsupported', /^best_of$/],
    ['/v1/completions', { prompt: ['a', 'b'], best_of: 100 }, 'invalid_request', /^best_of$/],
    ['/v1/completions', { prompt: ['a', 'b'], n: 100 }, 'invalid_request', /^n$/],
  ]
  for (const [path, body, code, param] of cases) {
    const { status, json } = await ask(path, { ...(path === chat ? user('a') : {}), ...body })
    t.equal(status, 400)
    t.match(
      json,
      {
        error: {
          type:
            code === 'context_length_exceeded'
              ? 'exceed_context_size_error'
              : 'invalid_request_error',
          code,
          param,
          message: /./,
        },
      },
      JSON.stringify(body).slice(0, 90),
    )
  }
  const nothing = await ask('/v1/nothing', {})
  t.match([nothing.status, nothing.json], [404, { error: { code: 'not_found' } }])
  const { running, waiting } = await client.statistics()
  t.same([running, waiting], [0, 0])
})

testEach('failures: a full queue, and an error in the middle of a stream', async (t) => {
  const server = await start(t, {
    backend: {
      stepMs: () => 10,
      slots: 1,
      failWhen: (_batch, step) => (step === 4 ? new Error('no memory') : undefined),
    },
    engine: { maxQueuedRequests: 1 },
  })
  const body = { ...user('free'), ignore_eos: true, stream: true }
  const running = server.post(chat, { ...body, max_tokens: 20 })
  await until(async () => (await server.client.statistics()).running === 1)
  const waiting = await rawRequest(server.port, rawPost(chat, body))
  await until(async () => (await server.client.statistics()).waiting === 1)
  const { status, json, headers } = await server.ask(chat, { ...user('free'), n: 2 })
  t.same([status, headers.get('retry-after')], [429, '1'])
  t.match(json, { error: { type: 'rate_limit_error', code: 'rate_limit_exceeded' } })
  const text = await drive(server.clock, (await running).text())
  waiting.socket.destroy()
  const idle = async () => {
    const { running, waiting } = await server.client.statistics()
    return running + waiting === 0
  }
  await drive(server.clock, until(idle))
  t.match(text, /data: {"error":{"message":".*no memory.*","type":"server_error".*}}\n\n$/)
})

testEach('a request may go without drafts', async (t) => {
  const { ask, client } = await start(t, { engine: { speculative: 'ngram' } })
  const drafted = async () => (await client.statistics()).speculation?.draftTokens ?? 0
  // What is written again and again is what the n-grams guess.
  const body = { prompt: 'euro '.repeat(20), max_tokens: 40, ignore_eos: true, temperature: 0 }
  const logit_bias = { 65: 100 }
  const without = await ask('/v1/completions', { ...body, logit_bias, speculative: false })
  t.equal(await drafted(), 0)
  const with_ = await ask('/v1/completions', { ...body, logit_bias })
  t.ok((await drafted()) > 0)
  t.same(with_.json['choices'], without.json['choices'], 'with them the answer is the same')
  t.match(with_.json, { timings: { draft_n: Number, draft_n_accepted: Number } })
  const wrong = await ask('/v1/completions', { ...body, speculative: 'no' })
  t.match([wrong.status, wrong.json], [400, { error: { param: 'speculative' } }])
})

testEach('thoughts end within their budget, at the end of a sentence', async (t) => {
  const thinks = new FakeTokenizer()
  const endOfSequence = 1
  const usage = usageProtocol({ folder: t.testdir({}) })
  const submitted: GenerateRequest[] = []
  const observer: RequestObserver = {
    onSubmit({ request }) {
      submitted.push(request)
      return { onEvent() {}, onEnd() {} }
    },
  }
  const errors = { name: 'error', body: () => ({}) }
  const watch: KoaProtocol = { name: 'watch', routes: [], errors, observe: () => [observer] }
  const server = await serve({
    protocols: [openAiProtocol(), anthropicProtocol(), usage, watch, metricsProtocol()],
    backend: {
      contextSize: 1024,
      details: { chatTemplate: '{{ messages }}<think></think>' },
      // thinks for ever, until somebody ends it
      script: (tokens) => {
        const text = thinks.decode(tokens)
        const [, written = ''] = text.split('assistant\n')
        const next = (answer: string, from: number) =>
          thinks.encode(answer, { addBos: false })[from] ?? endOfSequence
        const count = (part: string) => thinks.encode(part, { addBos: false }).length
        const [thoughts = '', answer] = written.split(/<\/think>\s*/)
        if (answer !== undefined) return next('Done.', count(answer))
        return next(`<think>${'I wonder why. '.repeat(100)}`, count(thoughts))
      },
    },
  })
  t.teardown(() => server.close())
  const messages = [{ role: 'user', content: 'Why' }]
  const ask = async (path: string, body: object) =>
    (await (await server.post(path, { messages, ...body })).json()) as Json
  const limited = await ask('/v1/chat/completions', { thinking_budget_tokens: 20 })
  const [{ message }] = limited['choices'] as [{ message: Record<string, string> }]
  t.equal(message['content'], 'Done.')
  t.match(message['reasoning_content'], /^(I wonder why\. ?)+$/)
  t.ok(message['reasoning_content']!.length < 200)
  t.match(limited, { usage: { completion_tokens: Number } })
  const { prompt_tokens } = limited['usage'] as { prompt_tokens: number }
  const used = await (await server.get('/admin/usage?by=model')).json()
  const one = { requests: 1, unfinished: 0, prompt_tokens }
  t.match(used, { usage: [one] }, 'both parts are one request')
  const metrics = await (await server.get('/metrics')).text()
  const counted = metrics.match(/^cllm_(requests_total|time_to_first_token_seconds_count).*/gm)
  t.match(counted, [/outcome="done".* 1$/, /} 1$/])
  const logged = server.log.find(({ message }) => message === 'request')?.fields
  t.match(logged, { finish: 'stop', promptTokens: prompt_tokens, generatedTokens: Number })
  t.notOk('cachedTokens' in logged!, 'the engine that ended it knows of the first part alone')
  const [, second] = submitted
  const { completion_tokens } = limited['usage'] as { completion_tokens: number }
  t.equal(second?.continued?.tokens.length, completion_tokens - 5, 'all but what came behind them')
  t.equal(second?.sample, undefined)
  submitted.length = 0
  const two = await ask('/v1/chat/completions', { thinking_budget_tokens: 20, n: 2 })
  t.match(two, { choices: [0, 1].map(() => ({ message: { content: 'Done.' } })) })
  t.equal(submitted.filter(({ sample }) => sample === 1).length, 2, 'a sample stays one')
  const warnings = warningsIn(t)
  await ask('/v1/chat/completions', { thinking_budget_tokens: 20, n: 12 })
  t.same(await warnings(), [])
  const few = await ask('/v1/chat/completions', { thinking_budget_tokens: 20, max_tokens: 21 })
  t.match(few, { choices: [{ finish_reason: 'length' }] })
  const none = await ask('/v1/chat/completions', { reasoning_budget_tokens: 0 })
  const [unthought] = none['choices'] as [{ message: Record<string, string> }]
  t.equal(unthought.message['content'], 'Done.')
  t.notOk('reasoning_content' in unthought.message, 'not even a sentence')
  const message2 = await ask('/v1/messages', {
    max_tokens: 500,
    thinking: { type: 'enabled', budget_tokens: 20 },
  })
  t.match(message2, { content: [{ type: 'thinking' }, { type: 'text', text: 'Done.' }] })
  const free = await ask('/v1/chat/completions', { max_tokens: 60 })
  t.match(free, { choices: [{ message: { content: '' }, finish_reason: 'length' }] })
  t.same(server.backend.violations, [])
})
