import { type FakeBackendOptions, FakeTokenizer, scriptAnswers, testProtocol } from '@cllm/testing'
import { anthropicProtocol, openAiProtocol } from '@cllm/http-koa'
import type { Test } from 'tap'
import { clientKind, testEach } from '../../each-client.js'
import { eventsOf, serve } from '../../serve.js'
import { serveDirectory } from '../../serve-directory.js'

const tokenizer = new FakeTokenizer()
const turn = (role: string, text: string) => `<|im_start|>${role}\n${text}<|im_end|>\n`
const answer = '<|im_start|>assistant\n'
const inputSchema = { type: 'object', properties: { city: { type: 'string' } } }
const tool = { name: 'get_weather', input_schema: inputSchema }
const toolSystem =
  'You can call these tools:\n' +
  `${JSON.stringify({ name: tool.name, parameters: inputSchema })}\n` +
  'To call one, answer with nothing but JSON: {"name": "the tool", "arguments": {…}}'
const call = '{"name":"get_weather","arguments":{"city":"Paris"}}'
const brief = turn('system', 'Be brief.') + turn('user', 'euro') + answer
const script = scriptAnswers(tokenizer, {
  [turn('user', 'euro') + answer]: 'a€ b',
  [brief]: 'brief',
  [turn('user', 'a\n\nb') + answer]: 'both',
  [`${turn('user', 'euro')}${answer}Goes`]: ' on',
  [turn('system', toolSystem) + turn('user', 'euro') + answer]: call,
  [turn('system', toolSystem) +
  turn('user', 'euro') +
  turn('assistant', `Let me look.\n${call}`) +
  turn('user', 'Result of get_weather: rain') +
  turn('user', 'So?') +
  answer]: 'It rains.',
  [turn('user', 'euro') +
  turn('assistant', 'Let me look.\n\nNow.\n{"name":"look","arguments":{}}') +
  turn('user', 'Result of look: [image left out: the model cannot be shown it]') +
  turn('user', 'So?') +
  answer]: 'I see nothing.',
})

type Json = Record<string, unknown>
const path = '/v1/messages'
const unsaid = {
  cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 0 },
  inference_geo: null,
  server_tool_use: null,
  service_tier: null,
  speed: null,
}
const asks = (content: unknown) => ({ messages: [{ role: 'user', content }], max_tokens: 99 })

testEach('what is marked is kept, and counted', async (t) => {
  const backend = { script, contextSize: 1024 }
  const server = await serve({
    protocols: [anthropicProtocol()],
    backend,
    engine: { cacheRamBytes: 1e6 },
  })
  t.teardown(() => server.close())
  const long = (letter: string) => letter.repeat(90)
  const mark = { cache_control: { type: 'ephemeral', ttl: '1h' } }
  const usageOf = async (body: object) => {
    const response = await server.post(path, { max_tokens: 4, ...body })
    return ((await response.json()) as { usage: Record<string, number> }).usage
  }
  const system = [{ type: 'text', text: long('s'), ...mark }]
  const user = (content: unknown) => ({ role: 'user', content })
  const total = (usage: Record<string, number>) =>
    usage['input_tokens']! +
    usage['cache_creation_input_tokens']! +
    usage['cache_read_input_tokens']!
  const first = await usageOf({ system, messages: [user('one')] })
  const written = first['cache_creation_input_tokens']!
  t.ok(written >= 90 && written < total(first), 'the system prompt, and not the question')
  t.equal(first['cache_read_input_tokens'], 0)
  const pinned = async () =>
    (await server.client.cache('list')).filter((state) => state.pinned).length
  t.equal(await pinned(), 1)
  const second = await usageOf({ system, messages: [user('two')] })
  t.ok(second['cache_read_input_tokens']! >= 90)
  t.equal(second['cache_creation_input_tokens'], 0, 'it is there already')
  const messages = [user([{ type: 'text', text: long('m'), ...mark }])]
  const whole = await usageOf({ messages })
  t.equal(
    whole['input_tokens'],
    1,
    'the last message is marked: all is kept; 0 is unsaid to clients',
  )
  t.equal(total(whole), whole['cache_creation_input_tokens']! + 1)
  const text = (letter: string) => ({ type: 'text', text: long(letter) })
  const short = { cache_control: { type: 'ephemeral' } }
  const halves = await usageOf({ messages: [user([{ ...text('h'), ...short }, text('i')])] })
  const kept = halves['cache_creation_input_tokens']!
  const byTime = [first, halves].map((usage) => usage['cache_creation'])
  t.match(byTime[0], { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: written })
  t.match(byTime[1], { ephemeral_5m_input_tokens: kept, ephemeral_1h_input_tokens: 0 })
  t.ok(kept >= 90 && kept < 110, 'the marked block, and not the one behind it')
  const parts = [{ ...text('u'), ...mark }, text('v')]
  const ofSystem = await usageOf({ system: parts, messages: [user('three')] })
  t.ok(ofSystem['cache_creation_input_tokens']! < 110, 'nor the rest of the system prompt')
  const automatic = await usageOf({
    messages: [user(long('a'))],
    cache_control: mark.cache_control,
  })
  t.equal(automatic['input_tokens'], 1)
  const plain = await usageOf({ messages: [user(long('p'))] })
  t.equal(plain['cache_creation_input_tokens'], 0, 'nothing is marked')
  const stream = await server.post(path, { messages, max_tokens: 4, stream: true })
  t.match(await stream.text(), /message_delta.*"cache_read_input_tokens":[1-9]/s)
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }
  for (const block of [image, { type: 'document', source: {} }]) {
    const earlier = [
      user([text(block.type), { ...block, ...mark }]),
      { role: 'assistant', content: 'So.' },
    ]
    const behind = await usageOf({ messages: [...earlier, user(long('q'))] })
    const created = behind['cache_creation_input_tokens']!
    t.ok(created >= 360 && created < total(behind) - 90, `${block.type} is asked about no longer`)
  }
  const wrong = { cache_control: { type: 'forever' } }
  t.equal((await server.post(path, { ...asks('a'), ...wrong })).status, 400)
})

async function start(t: Test, backend: FakeBackendOptions = {}) {
  const protocols = [openAiProtocol(), anthropicProtocol()]
  const server = await serve({ protocols, backend: { script, contextSize: 1024, ...backend } })
  t.teardown(() => server.close())
  const ask = async (body: unknown, at = path) => {
    const response = await server.post(at, body)
    return { status: response.status, json: (await response.json()) as Json }
  }
  /** The events of a stream. */
  const stream = async (body: object) => {
    const response = await server.post(path, { ...body, stream: true })
    t.equal(response.headers.get('content-type'), 'text/event-stream; charset=utf-8')
    return eventsOf(await response.text())
  }
  return { ...server, ask, stream }
}

testEach('conformance', async (t) => {
  await testProtocol(
    t,
    serveDirectory(() => anthropicProtocol()),
    {
      client: clientKind(),
      request: (prompt, max_tokens, stream) => ({
        path,
        body: JSON.stringify({ ...asks(prompt), max_tokens, stream, ignore_eos: true }),
      }),
    },
  )
})

testEach('the id of a request, and tools that the client runs', async (t) => {
  const calls = (tokens: readonly number[]): number => {
    const text = tokenizer.decode(tokens)
    const [, name = ''] = /"name":"(\w+)","description/.exec(text) ?? []
    const written = text.split('assistant\n').at(-1) ?? ''
    const called = `{"name":"${name}","arguments":{"command":"ls"}}`
    const { length } = tokenizer.encode(written, { addBos: false })
    return tokenizer.encode(called, { addBos: false })[length] ?? 1
  }
  const { ask, post } = await start(t, { script: calls })
  const headers = { 'Content-Type': 'application/json', 'anthropic-version': '2023-06-01' }
  for (const body of [asks('euro'), {}]) {
    const response = await post(path, body, { headers })
    const id = response.headers.get('request-id')
    t.equal(id, response.headers.get('x-request-id'))
    if (!response.ok) t.match(await response.json(), { type: 'error', request_id: id })
  }
  for (const [type, name] of [
    ['bash_20250124', 'bash'],
    ['text_editor_20250728', 'str_replace_based_edit_tool'],
    ['memory_20250818', 'memory'],
  ]) {
    const { status, json } = await ask({ ...asks('run'), tools: [{ type, name }] })
    t.equal(status, 200, JSON.stringify(json))
    const caller = { type: 'direct' }
    t.match(json, { content: [{ type: 'tool_use', name, input: { command: 'ls' }, caller }] })
  }
})

testEach('messages', async (t) => {
  const { ask, stream } = await start(t)
  const { json } = await ask({ ...asks('euro'), model: 'fake', metadata: { user_id: 'u' } })
  t.match(json, {
    id: /^msg_[0-9a-f]{32}$/,
    type: 'message',
    role: 'assistant',
    model: 'fake',
    content: [{ type: 'text', text: 'a€ b' }],
    stop_reason: 'end_turn',
    stop_sequence: null,
    // types of Anthropic's SDK have no member that may be left out
    usage: { output_tokens: 4, cache_read_input_tokens: 0, ...unsaid },
  })
  t.hasProps(json, ['container', 'diagnostics', 'stop_details'], 'null, but there')
  const counted = await ask({ messages: asks('euro').messages }, `${path}/count_tokens`)
  const { input_tokens: tokens } = counted.json
  t.match(json, { usage: { input_tokens: tokens } })
  const again = (await ask(asks('euro'))).json['usage'] as Record<string, number>
  t.ok((again['cache_read_input_tokens'] ?? 0) > 0, 'the prompt was there already')
  t.equal(again['cache_read_input_tokens']! + again['input_tokens']!, tokens)

  const billing = 'x-anthropic-billing-header: cc_version=1; cch=4711;'
  for (const system of [
    'Be brief.',
    [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } }],
    [
      { type: 'text', text: billing },
      { type: 'text', text: 'Be brief.' },
    ],
  ]) {
    t.match((await ask({ ...asks('euro'), system })).json, { content: [{ text: 'brief' }] })
  }
  const parts = ['a', 'b'].map((text) => ({ type: 'text', text }))
  t.match((await ask(asks(parts))).json, { content: [{ text: 'both' }] })
  const begun = [...asks('euro').messages, { role: 'assistant', content: 'Goes' }]
  t.match((await ask({ messages: begun, max_tokens: 9 })).json, { content: [{ text: ' on' }] })
  t.match((await ask({ ...asks('euro'), max_tokens: 1 })).json, { stop_reason: 'max_tokens' })
  t.match((await ask({ ...asks('euro'), stop_sequences: ['€'] })).json, {
    content: [{ text: 'a' }],
    stop_reason: 'stop_sequence',
    stop_sequence: '€',
  })

  const events = await stream(asks('euro'))
  t.same(
    events.map(({ type }) => type),
    [
      'message_start',
      'ping',
      'content_block_start',
      ...['a', '€ ', 'b'].map(() => 'content_block_delta'),
      'content_block_stop',
      'message_delta',
      'message_stop',
    ],
  )
  t.match(events[0], {
    message: { content: [], stop_reason: null, usage: { input_tokens: tokens } },
  })
  t.match(events[2], { index: 0, content_block: { type: 'text', text: '' } })
  t.match(events[4], { index: 0, delta: { type: 'text_delta', text: '€ ' } })
  t.match(events.at(-2), { delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 4 } })
})

testEach('thoughts are counted', async (t) => {
  const written = { [turn('user', 'euro') + answer]: '<think>so</think>a' }
  const { ask, stream, client } = await start(t, { script: scriptAnswers(tokenizer, written) })
  const info = await client.info()
  const model = { ...info.model, details: { chatTemplate: '<think></think>' } }
  Object.assign(client, { info: async () => ({ ...info, model }) })
  const { usage, content } = (await ask(asks('euro'))).json as { usage: Json; content: unknown }
  t.match(content, [
    { type: 'thinking', thinking: 'so' },
    { type: 'text', text: 'a' },
  ])
  const { thinking_tokens: thoughts } = usage['output_tokens_details'] as Record<string, number>
  t.ok(thoughts! > 0 && thoughts! < Number(usage['output_tokens']), String(thoughts))
  const events = await stream(asks('euro'))
  const none = { output_tokens_details: { thinking_tokens: 0 } }
  t.match(events[0], { message: { usage: none } })
  t.match(events.at(-2), { usage: { output_tokens_details: { thinking_tokens: thoughts } } })
  const cut = (await ask({ ...asks('euro'), max_tokens: 9 })).json
  t.match(cut, { content: [{ type: 'thinking' }], stop_reason: 'max_tokens' })
  t.equal(
    (cut['content'] as unknown[]).length,
    1,
    'no empty text behind it, which none may send back',
  )
})

testEach('a whole answer has the blocks of its stream, in their order', async (t) => {
  const said = `<tool_call>${call}</tool_call> and <tool_call>${call}</tool_call>.`
  const prompt = turn('system', toolSystem) + turn('user', 'euro') + answer
  const { ask, stream } = await start(t, { script: scriptAnswers(tokenizer, { [prompt]: said }) })
  const body = { ...asks('euro'), max_tokens: 999, tools: [tool] }
  const { content } = (await ask(body)).json as { content: Json[] }
  const events = await stream(body)
  t.match(content, [{ input: { city: 'Paris' } }, { text: /and/ }, { input: {} }, { text: '.' }])
  t.same(
    content.map(({ type }) => type),
    events.flatMap(({ content_block: block }) => (block as Json | undefined)?.['type'] ?? []),
  )
})

testEach('tools', async (t) => {
  const { ask, stream } = await start(t)
  const block = { type: 'tool_use', id: /^toolu_/, name: 'get_weather', input: { city: 'Paris' } }
  const body = { ...asks('euro'), tools: [tool] }
  const { json } = await ask(body)
  t.match(json, { content: [block], stop_reason: 'tool_use' })
  t.equal((json['content'] as unknown[]).length, 1, 'no empty text beside it')
  t.match((await ask({ ...body, tool_choice: { type: 'none' } })).json, {
    content: [{ text: 'a€ b' }],
  })

  const events = await stream(body)
  t.match(events[2], { content_block: { type: 'tool_use', name: 'get_weather', input: {} } })
  const deltas = events.flatMap(({ delta }) => (delta as { partial_json?: string }) ?? [])
  t.equal(deltas.map(({ partial_json: text = '' }) => text).join(''), '{"city":"Paris"}')
  t.match(events.at(-2), { delta: { stop_reason: 'tool_use' } })

  const messages = [
    ...asks('euro').messages,
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Let me look.' },
        { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Paris' } },
      ],
    },
    {
      role: 'user',
      content: [
        {
          type: 'tool_result',
          tool_use_id: 'toolu_1',
          content: [{ type: 'text', text: 'rain' }],
        },
        { type: 'text', text: 'So?' },
      ],
    },
  ]
  t.match((await ask({ messages, tools: [tool], max_tokens: 20 })).json, {
    content: [{ text: 'It rains.' }],
    stop_reason: 'end_turn',
  })
})

testEach('a conversation goes on behind a file that the model is not shown', async (t) => {
  const { ask } = await start(t)
  const image = { type: 'image', source: { type: 'base64', data: '' } }
  const document = { ...image, type: 'document' }
  const looked = { type: 'tool_result', tool_use_id: 'toolu_1', content: [image] }
  const said = ['Let me look.', '', 'Now.'].map((text) => ({ type: 'text', text }))
  const called = { type: 'tool_use', id: 'toolu_1', name: 'look', input: {} }
  const begun = [...asks('euro').messages, { role: 'assistant', content: [...said, called] }]
  const ends = async (...turns: readonly object[]) =>
    await ask({ messages: [...begun, ...turns], max_tokens: 20 })
  const user = (...content: readonly object[]) => ({ role: 'user', content })
  const more = { type: 'text', text: 'So?' }
  for (const turns of [[user(looked, more)], [user(looked), user(more)]]) {
    t.match((await ends(...turns)).json, { content: [{ text: 'I see nothing.' }] })
  }
  const read = { ...looked, content: [document] }
  for (const result of [looked, read]) {
    t.equal((await ends(user(result))).status, 200, 'no tool knows what the model is shown')
  }
  const system = { role: 'system', content: 'Now.' }
  for (const asked of [image, document]) {
    const refused = await ends(user(looked), user(asked), system)
    t.equal(refused.status, 400, 'a system message is no sequel')
    t.match(refused.json, { error: { message: /input is not supported/ } })
    t.equal((await ends(user(looked), user(asked), user(more))).status, 200)
  }
})

testEach('what cannot be answered', async (t) => {
  const { ask } = await start(t)
  t.equal((await ask({ ...asks('a'), messages: [] })).status, 200, 'to see whether it answers')
  const image = { type: 'image', source: { type: 'base64', data: '' } }
  const cases: [object, RegExp][] = [
    [{ messages: asks('a').messages }, /^Missing required field: max_tokens/],
    [asks([image]), /^messages\.0\.content\.0: image input is not supported/],
    [asks([{ type: 'text' }]), /^messages\.0\.content\.0\.text: expected a string/],
    [asks([5]), /^messages\.0\.content\.0: expected a content block/],
    [{ ...asks('a'), system: [image] }, /^system\.0: /],
    [
      { ...asks('a'), tools: [{ type: 'web_search_20250305', name: 'web_search' }] },
      /^tools\.0: .*is run by Anthropic/,
    ],
    ...['constructor', '__proto__', 'toString_20250124'].map((type): [object, RegExp] => [
      { ...asks('a'), tools: [{ type, name: 'none' }] },
      /^tools\.0: .*is run by Anthropic/,
    ]),
    [
      { ...asks('a'), tools: [{ type: 'computer_20250124', name: 'computer' }] },
      /^tools\.0: computer_20250124 is not defined here; describe it/,
    ],
    [{ ...asks('a'), thread: { type: 'create' } }, /^thread: .*nothing is stored/],
    [
      { ...asks('a'), mcp_servers: [{ type: 'url', url: 'x' }] },
      /^mcp_servers: not supported: call the servers yours/,
    ],
    [{ ...asks('a'), output_format: { type: 'xml' } }, /^output_format.schema: expected a JSON/],
    [
      { ...asks('a'), output_config: { format: { type: 'json_schema', schema: 1 } } },
      /^output_config.format.schema: expected a JSON schema/,
    ],
    [
      { ...asks('a'), output_config: { format: { type: 'json_schema', schema: {} } } },
      /^output_config.format: .*cannot keep/,
    ],
    [
      { ...asks('a'), tools: [tool], tool_choice: { type: 'tool', name: 'other' } },
      /^tool_choice: expected the name of one of the tools/,
    ],
    [asks('a '.repeat(2000)), /1024/],
  ]
  for (const [body, message] of cases) {
    const { status, json } = await ask(body)
    t.equal(status, 400, String(message))
    t.match(json, { type: 'error', error: { type: 'invalid_request_error', message } })
  }
  const thread = await ask({ ...asks('a'), thread: { type: 'continue' } })
  t.match(thread.json, { error: { details: { error_code: 'thread_unsupported_request' } } })
  const missing = await ask({ ...asks('a'), model: 'other' })
  t.equal(missing.status, 404)
  t.match(missing.json, { type: 'error', error: { type: 'not_found_error' } })
})

testEach('a failure in the middle of a stream', async (t) => {
  const failWhen = (_batch: unknown, step: number) =>
    step === 4 ? new Error('no memory') : undefined
  const { stream } = await start(t, { failWhen })
  const events = await stream({ ...asks('free'), ignore_eos: true })
  t.ok(events.some(({ type }) => type === 'content_block_delta'))
  t.match(events.at(-1), { error: { type: 'api_error', message: /no memory/ }, request_id: /./ })
})
