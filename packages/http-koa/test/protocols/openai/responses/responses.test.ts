import { FakeTokenizer, scriptAnswers } from '@cllm/testing'
import { silentLogger } from '@cllm/core'
import { openAiProtocol } from '@cllm/http-koa'
import t, { type Test } from 'tap'
import {
  inputSchema,
  toMessages,
} from '../../../../src/protocols/openai/responses/response-items.js'
import { testEach } from '../../../each-client.js'
import { eventsOf, serve } from '../../../serve.js'

const turn = (role: string, text: string) => `<|im_start|>${role}\n${text}<|im_end|>\n`
const answers = '<|im_start|>assistant\n'
const tool = { name: 'weather', parameters: { type: 'object' } }
const system = turn(
  'system',
  `You can call these tools:\n${JSON.stringify(tool)}\n` +
    'To call one, answer with nothing but JSON: {"name": "the tool", "arguments": {…}}',
)
const written = '{"name":"weather","arguments":{"city":"Paris"}}'
const script = scriptAnswers(new FakeTokenizer(), {
  [system + turn('user', 'euro') + answers]: '{"name": "weather", "arguments": {"city": "Paris"}}',
  [system +
  turn('user', 'euro') +
  turn('assistant', written) +
  turn('user', 'Result of weather: rain') +
  answers]: 'It rains.',
  [turn('user', 'euro') + answers]: 'a€ b',
  [turn('system', 'Be brief.') + turn('user', 'euro') + answers]: 'brief',
})
const path = '/v1/responses'

type Json = Record<string, unknown>

async function start(t: Test, backend: object = {}) {
  const server = await serve({
    protocols: [openAiProtocol()],
    backend: { script, contextSize: 1024, ...backend },
  })
  t.teardown(() => server.close())
  const ask = async (body: object) => {
    const response = await server.post(path, body)
    return { status: response.status, json: (await response.json()) as Json }
  }
  const stream = async (body: object) => {
    const response = await server.post(path, { ...body, stream: true })
    return eventsOf(await response.text())
  }
  return { ...server, ask, stream }
}

const texts = (text: string) => [{ type: 'message', content: [{ type: 'output_text', text }] }]

testEach('text in and out', async (t) => {
  const { ask, stream } = await start(t)
  t.match((await ask({ input: 'euro', metadata: { a: 'b' } })).json, {
    id: /^resp_/,
    object: 'response',
    status: 'completed',
    output: [{ id: /^msg_/, role: 'assistant', status: 'completed' }],
    usage: { output_tokens: 4, input_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 } },
    metadata: { a: 'b' },
  })
  const brief = { status: 'completed', output: texts('brief') }
  t.match((await ask({ input: 'euro', instructions: 'Be brief.' })).json, brief)
  const input = [
    { role: 'developer', content: 'Be brief.' },
    { type: 'reasoning', summary: [] },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'euro' }] },
  ]
  t.match((await ask({ input })).json, brief)
  const output = [{ type: 'message', status: 'incomplete', content: [{ text: 'a' }] }]
  const cut = { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' }, output }
  const short = { input: 'euro', max_output_tokens: 1 }
  t.match((await ask(short)).json, cut)
  t.match((await stream(short)).slice(-2), [{ item: output[0] }, { response: cut }])
})

testEach('items of answers are known by their ids', async (t) => {
  const { ask, stream } = await start(t)
  const tools = [{ type: 'function', ...tool }]
  const user = { role: 'user', content: 'euro' }
  const called = async (more: object) => (await ask({ input: 'euro', tools, ...more })).json
  const streamed = await stream({ input: 'euro', tools })
  for (const response of [await called({}), streamed.at(-1)!['response'] as Json]) {
    const [{ id, call_id }] = response['output'] as [Json]
    const result = { type: 'function_call_output', call_id, output: 'rain' }
    const input = [user, { type: 'item_reference', id }, result]
    t.match((await ask({ input, tools })).json, { output: texts('It rains.') })
  }
  const [{ id }] = (await called({ store: false }))['output'] as [Json]
  const unknown = await ask({ input: [user, { type: 'item_reference', id }], tools })
  t.match([unknown.status, unknown.json], [400, { error: { param: 'input.1' } }], 'not stored')
})

testEach('fields are answered, and log probabilities', async (t) => {
  const { ask, stream } = await start(t)
  const unasked = await ask({ input: 'euro' })
  t.match(unasked.json, {
    background: false,
    completed_at: Number,
    max_tool_calls: null,
    prompt_cache_key: null,
    reasoning: { effort: null, summary: null },
    safety_identifier: null,
    service_tier: 'default',
    top_logprobs: 0,
    user: null,
    output: [{ content: [{ logprobs: [] }] }],
  })
  const given = { prompt_cache_key: 'k', safety_identifier: 's', user: 'u', max_tool_calls: 3 }
  const asked = { input: 'euro', ...given, reasoning: { effort: 'low' }, top_logprobs: 2 }
  const first = { token: 'a', logprob: Number, bytes: [97], top_logprobs: [{ token: String }, {}] }
  const { json } = await ask(asked)
  const output = [{ content: [{ text: 'a€ b', logprobs: [first, {}, {}, {}] }] }]
  t.match(json, { ...given, reasoning: { effort: 'low' }, top_logprobs: 2, output })
  const events = await stream(asked)
  t.match(
    events.find(({ type }) => type === 'response.output_text.delta'),
    { delta: 'a', logprobs: [first] },
  )
  t.match(events.at(-1), { response: { completed_at: Number, output } })
  t.match(events[0], { response: { completed_at: null } })
  const include = ['message.output_text.logprobs']
  t.match((await ask({ input: 'euro', include })).json, {
    output: [{ content: [{ logprobs: [{ token: 'a', top_logprobs: [] }, {}, {}, {}] }] }],
  })
})

testEach('a stream has the documented events in their order', async (t) => {
  const { stream } = await start(t)
  const events = await stream({ input: 'euro' })
  const names = events.map(({ type }) => String(type))
  t.same(
    names.filter((name, index) => name !== names[index - 1]),
    [
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.content_part.added',
      'response.output_text.delta',
      'response.output_text.done',
      'response.content_part.done',
      'response.output_item.done',
      'response.completed',
    ],
  )
  t.same(
    events.map(({ sequence_number }) => sequence_number),
    [...events.keys()],
  )
  t.equal(events.map(({ delta = '' }) => String(delta)).join(''), 'a€ b')
  t.match(events.at(-1), { response: { status: 'completed', output: texts('a€ b') } })
})

testEach('a thinking model answers with two items', async (t) => {
  const thinking = scriptAnswers(new FakeTokenizer(), {
    [turn('user', 'euro') + answers]: '<think>so</think>a',
  })
  const { stream, ask, client } = await start(t, { script: thinking })
  const info = await client.info()
  Object.assign(client, {
    info: async () => ({
      ...info,
      model: { ...info.model, details: { chatTemplate: '<think></think>' } },
    }),
  })
  const output = [
    { type: 'reasoning', content: [{ type: 'reasoning_text', text: 'so' }] },
    ...texts('a'),
  ]
  t.match((await ask({ input: 'euro' })).json, { output })
  const events = await stream({ input: 'euro' })
  t.match(events.at(-1), { type: 'response.completed', response: { output } })
  t.match(
    events.filter(({ type }) => type === 'response.reasoning_text.done'),
    [{ text: 'so', output_index: 0 }],
  )
})

testEach('tools', async (t) => {
  const { ask, stream } = await start(t)
  const tools = [{ type: 'function', ...tool, strict: null }]
  const call = { type: 'function_call', id: /^fc_/, call_id: /^call_/, name: 'weather' }
  const done = { ...call, status: 'completed' }
  t.match((await ask({ input: 'euro', tools })).json, {
    status: 'completed',
    tools,
    output: [{ ...done, arguments: '{"city":"Paris"}' }],
  })
  const events = await stream({ input: 'euro', tools })
  const names = events.map(({ type }) => String(type))
  t.same(
    names.filter((name, index) => name !== names[index - 1]),
    [
      'response.created',
      'response.in_progress',
      'response.output_item.added',
      'response.function_call_arguments.delta',
      'response.function_call_arguments.done',
      'response.output_item.done',
      'response.completed',
    ],
  )
  t.match(events[2], { item: { ...call, status: 'in_progress', arguments: '' } })
  const deltas = events.flatMap(({ delta }) => (typeof delta === 'string' ? [delta] : []))
  t.ok(deltas.length > 5)
  const written = '{"city": "Paris"}'
  t.equal(deltas.join(''), written)
  t.match(events.at(-3), { name: 'weather', arguments: written, output_index: 0 })
  t.match(events.at(-1), { response: { output: [{ ...done, arguments: written }] } })
  t.equal(events.filter((event) => 'content_index' in event).length, 0)
  const { usage } = events.at(-1)!['response'] as { usage: { output_tokens: number } }
  const max_output_tokens = usage.output_tokens - 10
  const cut = await stream({ input: 'euro', tools, max_output_tokens })
  const part = { ...call, status: 'incomplete', arguments: /^{"c[^}]*$/ }
  t.match(cut.slice(-2), [{ item: part }, { response: { output: [part] } }], 'no call to follow')

  const input = [
    { role: 'user', content: 'euro' },
    { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"city":"Paris"}' },
    { type: 'function_call_output', call_id: 'c1', output: 'rain' },
  ]
  t.match((await ask({ input, tools })).json, { output: texts('It rains.') })
  const others = [{ type: 'web_search' }, { type: 'namespace', name: 'n', tools: [] }]
  t.match(
    (await ask({ input: [...input, { type: 'computer_call' }], tools: [...tools, ...others] }))
      .json,
    { output: texts('It rains.') },
    'what this server cannot call is passed over',
  )
  for (const nothing of [[], '']) t.equal((await ask({ input: nothing })).status, 200)
  t.equal((await ask({})).status, 200)
  t.match((await ask({ input: 'euro', tools, tool_choice: 'none' })).json, {
    output: texts('a€ b'),
  })
})

testEach('functions of a namespace, such as those of MCP servers in Codex', async (t) => {
  const shown = { ...tool, name: 'mcp__sky__weather' }
  const prompt = system.replace(JSON.stringify(tool), JSON.stringify(shown)) + turn('user', 'euro')
  const made = (space: string) => JSON.stringify({ name: shown.name, arguments: {} }, null, space)
  const script = scriptAnswers(new FakeTokenizer(), {
    [prompt + answers]: made(' '),
    [prompt +
    turn('assistant', made('')) +
    turn('user', `Result of ${shown.name}: rain`) +
    answers]: 'It rains.',
  })
  const { ask, stream } = await start(t, { script })
  const space = { type: 'namespace', name: 'mcp__sky', description: 'Tools of the sky.' }
  const tools = [{ ...space, tools: [{ type: 'function', ...tool, strict: false }] }]
  const call = { type: 'function_call', name: 'weather', namespace: 'mcp__sky', arguments: '{}' }
  t.match((await ask({ input: 'euro', tools })).json, { tools, output: [call] })
  const events = await stream({ input: 'euro', tools })
  t.match(events[2], { item: { ...call, arguments: '' } })
  t.match(events.at(-1), { response: { output: [call] } })
  const input = [
    { role: 'user', content: 'euro' },
    { ...call, call_id: 'c1' },
    { type: 'function_call_output', call_id: 'c1', output: 'rain' },
  ]
  t.match((await ask({ input, tools })).json, { output: texts('It rains.') })
  const nameless = [{ type: 'web_search' }, { ...space, tools: [{ type: 'function' }] }]
  t.match(await ask({ input: 'euro', tools: nameless }), {
    status: 400,
    json: { error: { message: /tools\.1\.tools\.0\.name/ } },
  })
})

t.test('earlier thoughts are told, for templates that show them to the model', async (t) => {
  const thought = (...texts: string[]) => ({
    type: 'reasoning',
    summary: [],
    content: texts.map((text) => ({ type: 'reasoning_text', text })),
    encrypted_content: null,
  })
  const call = { type: 'function_call', name: 'f', arguments: '{}' }
  const result = { type: 'function_call_output', output: 'r' }
  const input = [
    { role: 'user', content: 'u' },
    thought('a', 'b'),
    { role: 'assistant', content: 'I look.' },
    { ...call, call_id: '1' },
    { ...result, call_id: '1' },
    thought('c'),
    { ...call, call_id: '2' },
    { ...result, call_id: '2' },
    { ...thought(), summary: [{ type: 'summary_text', text: 's' }], encrypted_content: 'x' },
    { role: 'assistant', content: 'Done.' },
    thought('d'),
    { role: 'user', content: 'u' },
    { role: 'assistant', content: 'e' },
  ]
  const shown = toMessages('', inputSchema.parse(input), silentLogger)
  t.same(
    shown.map(({ role, content, reasoning_content: told, tool_calls: { length = 0 } = [] }) => [
      role,
      content,
      told,
      length,
    ]),
    [
      ['user', 'u', undefined, 0],
      ['assistant', 'I look.', 'a\nb', 1],
      ['tool', 'r', undefined, 0],
      ['assistant', '', 'c', 1],
      ['tool', 'r', undefined, 0],
      ['assistant', 'Done.', undefined, 0],
      ['user', 'u', undefined, 0],
      ['assistant', 'e', undefined, 0],
    ],
  )
})

testEach('free-form tools are called with a text', async (t) => {
  const grammar = { type: 'grammar', syntax: 'lark', definition: 'start: "b"' }
  const shown = {
    name: 'patch',
    description: 'Patches.\n\nThe input is text in this lark grammar:\nstart: "b"',
    parameters: {
      type: 'object',
      properties: { input: { type: 'string', description: 'The input of the tool as plain text' } },
      required: ['input'],
      additionalProperties: false,
    },
  }
  const system = turn(
    'system',
    `You can call these tools:\n${JSON.stringify(shown)}\n` +
      'To call one, answer with nothing but JSON: {"name": "the tool", "arguments": {…}}',
  )
  const input = 'a "b"\n\té€😀'
  const script = scriptAnswers(new FakeTokenizer(), {
    [system + turn('user', 'euro') + answers]:
      '{"name": "patch", "arguments": {"input": "a \\"b\\"\\n\\t\\u00e9€\\ud83d\\ude00"}}',
    [system + turn('user', 'other') + answers]: '{"name": "patch", "arguments": {"text": "c"}}',
    [system +
    turn('user', 'euro') +
    turn('assistant', JSON.stringify({ name: 'patch', arguments: { input } })) +
    turn('user', 'Result of patch: ok') +
    answers]: 'Done.',
  })
  const { ask, stream, post, log } = await start(t, { script, contextSize: 4096 })
  const tools = [{ type: 'custom', name: 'patch', description: 'Patches.', format: grammar }]
  const call = { type: 'custom_tool_call', id: /^ctc_/, call_id: /^call_/, name: 'patch', input }
  t.match((await ask({ input: 'euro', tools })).json, { output: [call] })
  t.ok(log.some(({ message }) => message.includes('not enforced')))
  const events = await stream({ input: 'euro', tools })
  t.match(events[2], { item: { ...call, input: '' } })
  const deltas = events.map(({ delta = '' }) => String(delta))
  t.equal(deltas.join(''), input)
  t.notOk(
    deltas.some((delta) => /\p{Surrogate}/u.test(delta)),
    'no piece has half a character',
  )
  t.match(events.at(-3), { type: 'response.custom_tool_call_input.done', input })
  t.match(events.at(-1), { response: { output: [call] } })
  const fallback = await stream({ input: 'other', tools })
  t.match(fallback.at(-1), { response: { output: [{ ...call, input: 'c' }] } })
  const history = [
    { role: 'user', content: 'euro' },
    { type: 'custom_tool_call', call_id: 'c1', name: 'patch', input },
    { type: 'custom_tool_call_output', call_id: 'c1', output: 'ok' },
  ]
  t.match((await ask({ input: history, tools })).json, { output: texts('Done.') })

  const chat = async (content: string, more: object = {}) =>
    await post('/v1/chat/completions', {
      messages: [{ role: 'user', content }],
      tools: [
        { type: 'custom', custom: { name: 'patch', description: 'Patches.', format: { grammar } } },
      ],
      ...more,
    })
  const custom = { name: 'patch', input }
  t.match(await (await chat('euro')).json(), {
    choices: [
      { message: { tool_calls: [{ type: 'custom', custom }] }, finish_reason: 'tool_calls' },
    ],
  })
  for (const [content, expected] of [
    ['euro', input],
    ['other', 'c'],
  ] as const) {
    const lines = (await (await chat(content, { stream: true })).text()).split('\n\n')
    const written = lines.flatMap((line) => {
      const data = line.slice(6)
      if (!data.startsWith('{')) return []
      const [choice] = (JSON.parse(data) as { choices: Json[] }).choices
      const { tool_calls: calls } = (choice?.['delta'] ?? {}) as { tool_calls?: Json[] }
      return (calls ?? []).map(({ custom: part }) => (part as { input: string }).input)
    })
    t.equal(written.join(''), expected)
  }
  const messages = [
    { role: 'user', content: 'euro' },
    { role: 'assistant', tool_calls: [{ id: 'c1', type: 'custom', custom }] },
    { role: 'tool', tool_call_id: 'c1', content: 'ok' },
  ]
  t.match(await (await chat('', { messages })).json(), {
    choices: [{ message: { content: 'Done.' } }],
  })
  const broken = [...messages.slice(0, 1), { role: 'assistant', tool_calls: [{ type: 'custom' }] }]
  t.equal((await chat('', { messages: broken })).status, 400)
  t.equal((await chat('', { tools: [{ type: 'custom' }] })).status, 400)
})

testEach('what cannot be done is refused, and a failure ends the stream', async (t) => {
  const { ask, stream } = await start(t, {
    failWhen: (_batch: unknown, step: number) => (step === 3 ? new Error('no memory') : undefined),
  })
  const cases: [body: object, param: RegExp][] = [
    [{ previous_response_id: 'resp_1' }, /^previous_response_id$/],
    [{ conversation: 'c' }, /^conversation$/],
    [{ background: true }, /^background$/],
    [{ tools: [{ type: 'function' }] }, /^tools.0.name$/],
    [{ tools: [{ type: 'custom' }] }, /^tools.0.name$/],
    [{ tool_choice: 'required' }, /^tool_choice$/],
    [{ text: { format: { type: 'json_object' } } }, /^text.format$/],
    [{ input: [{ role: 'user', content: [{ type: 'input_image' }] }] }, /^input.0.content.0$/],
    [{ input: [{ type: 'function_call' }] }, /^input.0.name$/],
    [{ input: [{ type: 'function_call', name: 'a', arguments: '[' }] }, /^input.0.arguments$/],
    [{ input: [{ type: 'function_call_output' }] }, /^input.0.call_id$/],
    [{ input: [{ content: 'a' }] }, /^input.0.role$/],
    [{ input: [{ type: 'item_reference', id: 'msg_1' }] }, /^input.0$/],
  ]
  for (const [body, param] of cases) {
    const { status, json } = await ask({ input: 'a', ...body })
    t.match([status, json], [400, { error: { param } }], JSON.stringify(body))
  }
  const events = await stream({ input: 'euro' })
  t.match(events.at(-1), {
    type: 'response.failed',
    response: { status: 'failed', error: { code: 'backend_failed', message: /no memory/ } },
  })
})
