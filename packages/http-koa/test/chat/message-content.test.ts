import {
  anthropicProtocol,
  llamaServerProtocol,
  ollamaProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import t from 'tap'
import { toChatMessages } from '../../src/chat/chat-messages.js'
import { joined, shownMessages } from '../../src/chat/message-content.js'
import { serve } from '../serve.js'

const data = Buffer.from('a cat on a mat').toString('base64')
const url = `data:image/png;base64,${data}`

async function askJson(server: Awaited<ReturnType<typeof serve>>, path: string, body?: object) {
  const response = await (body === undefined ? server.get(path) : server.post(path, body))
  const json = (await response.json()) as Readonly<Record<string, unknown>>
  return { status: response.status, json }
}

t.test('every API shows the model an image', async (t) => {
  const protocols = [openAiProtocol(), anthropicProtocol(), ollamaProtocol()]
  const server = await serve({ backend: { images: true }, protocols })
  t.teardown(() => server.close())
  const tokens = async (path: string, body: object, at: string) => {
    const { status, json } = await askJson(server, path, body)
    t.equal(status, 200, JSON.stringify(json))
    let value: unknown = json
    for (const key of at.split('.')) value = (value as Readonly<Record<string, unknown>>)[key]
    return Number(value)
  }
  const part = { type: 'image_url', image_url: { url } }
  const source = { type: 'base64', media_type: 'image/png', data }
  const image = { type: 'image', source }
  const result = { type: 'tool_result', tool_use_id: 'a', content: [image] }
  const use = { type: 'tool_use', id: 'a', name: 'look', input: {} }
  const user = (content: unknown) => ({ role: 'user', content })
  const kinds: [
    path: string,
    at: string,
    body: (content: unknown) => object,
    content: unknown[],
  ][] = [
    [
      '/v1/chat/completions',
      'usage.prompt_tokens',
      (content) => ({ messages: [user(content)], max_tokens: 2 }),
      [{ type: 'text', text: 'What is it?' }, part],
    ],
    [
      '/v1/responses',
      'usage.input_tokens',
      (content) => ({ input: [user(content)], max_output_tokens: 2 }),
      [
        { type: 'input_text', text: 'What is it?' },
        { type: 'input_image', image_url: url },
      ],
    ],
    [
      '/v1/messages',
      'usage.input_tokens',
      (content) => ({ model: 'fake', messages: [user(content)], max_tokens: 2 }),
      [{ type: 'text', text: 'What is it?' }, image],
    ],
    [
      '/v1/messages/count_tokens',
      'input_tokens',
      (content) => ({ model: 'fake', messages: [user(content)] }),
      [{ type: 'text', text: 'What is it?' }, image],
    ],
    [
      '/v1/messages/count_tokens',
      'input_tokens',
      (content) => ({
        model: 'fake',
        messages: [user('a'), { role: 'assistant', content: [use] }, user(content)],
      }),
      [{ type: 'text', text: 'What is it?' }, result],
    ],
  ]
  for (const [path, at, body, content] of kinds) {
    const [first] = content
    const without = await tokens(path, body([first]), at)
    const more = (await tokens(path, body(content), at)) - without
    const isOfTool = JSON.stringify(content).includes('tool_result')
    t.ok(isOfTool ? more > 8 : more === 8, `${path} has ${more} tokens more`)
  }
  const asked = { model: 'fake', stream: false, options: { num_predict: 2 } }
  const ollama = async (path: string, body: object) =>
    await tokens(path, { ...asked, ...body }, 'prompt_eval_count')
  const prompt = 'What is it?'
  const images = [data]
  t.equal(
    (await ollama('/api/generate', { prompt, images })) -
      (await ollama('/api/generate', { prompt })),
    8,
  )
  const message = user(prompt)
  t.equal(
    (await ollama('/api/chat', { messages: [{ ...message, images }] })) -
      (await ollama('/api/chat', { messages: [message] })),
    8,
  )
  const { json } = await askJson(server, '/api/generate', { ...asked, prompt, images })
  t.notOk('context' in json, 'what stands for an image is no token to send again')
  const shown = await askJson(server, '/api/show', { model: 'fake' })
  t.match(shown.json, { capabilities: ['completion', 'tools', 'vision'] })
})

t.test('an image of low detail is fewer tokens', async (t) => {
  const server = await serve({ backend: { images: true }, protocols: [openAiProtocol()] })
  t.teardown(() => server.close())
  const count = async (route: string, key: string, part: object) => {
    const content = [{ type: 'text', text: 'What is it?' }, part]
    const body = { [key]: [{ role: 'user', content }] }
    return await askJson(server, `/v1/${route}/input_tokens`, body)
  }
  const chat = async (detail?: unknown) => {
    const part = { type: 'image_url', image_url: { url, detail } }
    return await count('chat/completions', 'messages', part)
  }
  const respond = async (detail?: unknown) =>
    await count('responses', 'input', { type: 'input_image', image_url: url, detail })
  for (const [ask, where] of [
    [chat, /messages\.0\.content\.1\.image_url\.detail/],
    [respond, /content\.1\.detail/],
  ] as const) {
    const whole = Number((await ask()).json['input_tokens'])
    t.equal(Number((await ask('low')).json['input_tokens']), whole - 6)
    for (const detail of ['auto', 'high', 'original', null]) {
      t.equal((await ask(detail)).json['input_tokens'], whole, String(detail))
    }
    for (const detail of ['tiny', 1, ['low']]) {
      const message = /expected one of auto, low, high, original/
      const { status, json } = await ask(detail)
      t.equal(status, 400)
      t.match(json, { error: { message, param: where } })
    }
  }
})

t.test('llama-server shows a text with files', async (t) => {
  const backend = { images: true, audio: true }
  const server = await serve({ backend, protocols: [llamaServerProtocol(), openAiProtocol()] })
  t.teardown(() => server.close())
  const ask = async (prompt: unknown) =>
    await askJson(server, '/completion', { prompt, n_predict: 1 })
  const wav = Buffer.from('RIFF....WAVE').toString('base64')
  const mixed = (prompt_string: string, ...multimodal_data: unknown[]) => ({
    prompt_string,
    multimodal_data,
  })
  const text = 'Look: <__media__> Hear: <__media__> So'
  const { json } = await ask(mixed(text, data, wav))
  const plain = await ask('Look:  Hear:  So')
  const evaluated = Number(plain.json['tokens_evaluated'])
  t.match(json, { prompt: 'Look:  Hear:  So' })
  t.ok(Number(json['tokens_evaluated']) >= evaluated + 16)
  const several = await ask([mixed('A <__media__> b', data), 'c', mixed('no file')])
  t.match(several, { status: 200, json: { length: 3 } }, JSON.stringify(several))
  const wrong: [prompt: unknown, error: RegExp][] = [
    [mixed(text, data), /multimodal_data: expected as many files as .* has <__media__>: 2, got 1/],
    [mixed('a', data), /0, got 1/],
    [{ prompt_string: 'a', multimodal_data: 1 }, /an array of files/],
    [mixed('a <__media__> b', 1), /multimodal_data.0: expected a file in base64/],
    [[1, mixed('a <__media__> b', data)], /not among tokens/],
  ]
  for (const [prompt, error] of wrong) {
    const { status, json } = await ask(prompt)
    t.match({ status, json }, { status: 400, json: { error: { message: error } } })
  }
  const props = await askJson(server, '/props')
  const shown = {
    modalities: { vision: true, audio: true, video: false },
    media_marker: '<__media__>',
  }
  t.match(props.json, shown)
})

t.test('chats hear', async (t) => {
  const server = await serve({ backend: { audio: true }, protocols: [openAiProtocol()] })
  t.teardown(() => server.close())
  const sounds = [
    { type: 'input_audio', input_audio: { data, format: 'wav' } },
    { type: 'audio_url', audio_url: { url: `data:audio/wav;base64,${data}` } },
    { type: 'audio_url', audio_url: { url: `Data:audio/wav; Base64,${data}` } },
  ]
  for (const sound of sounds) {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'a' }, sound] }]
    const chat = await askJson(server, '/v1/chat/completions/input_tokens', { messages })
    const response = await askJson(server, '/v1/responses/input_tokens', { input: messages })
    t.equal(chat.json['input_tokens'], response.json['input_tokens'], JSON.stringify(chat.json))
    t.ok(Number(chat.json['input_tokens']) > 8)
  }
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  const { json } = await askJson(server, '/v1/chat/completions', { messages })
  t.match(json, { error: { message: /image input is not supported/ } })
})

t.test("lists and templates tell llama-server's clients that a model sees", async (t) => {
  const protocols = [openAiProtocol(), llamaServerProtocol(), ollamaProtocol()]
  const seeing = await serve({ backend: { images: true }, protocols })
  const blind = await serve({ protocols })
  t.teardown(async () => await Promise.all([seeing.close(), blind.close()]))
  t.match((await askJson(seeing, '/v1/models')).json, {
    models: [{ capabilities: ['completion', 'multimodal'] }],
  })
  t.match((await askJson(blind, '/v1/models')).json, { models: [{ capabilities: ['completion'] }] })
  const part = { type: 'image_url', image_url: { url } }
  const content = [part, { type: 'text', text: 'A cat?' }, part]
  const shown = (
    await askJson(seeing, '/apply-template', { messages: [{ role: 'user', content }] })
  ).json
  const [marked] = /<__media__>A cat\?<__media__>/.exec(String(shown['prompt'])) ?? []
  t.ok(marked, 'markers, in place of which /completion takes files')
  const model = (await seeing.client.info()).model.id
  const raw = { model, prompt: 'What?', images: [data], raw: true, stream: false }
  t.match((await askJson(seeing, '/api/generate', raw)).json, { error: /^images: only in a chat/ })
})

t.test('what is no image in the request is refused, and where it is', async (t) => {
  const protocols = [openAiProtocol(), anthropicProtocol()]
  const server = await serve({ backend: { images: true }, protocols })
  t.teardown(() => server.close())
  const spaces = `data:;base64,${' '.repeat(200_000)}!`
  const wrong: [part: unknown, error: RegExp][] = [
    [{ type: 'image_url', image_url: { url: spaces } }, /in base64/],
    [{ type: 'image_url', image_url: { url: 'https://example.org/a.png' } }, /no URL is fetched/],
    [{ type: 'image_url' }, /in base64/],
    [{ type: 'input_audio', input_audio: { data } }, /input is not supported/],
    [{ type: 'image_url', image_url: { url: `data:;base64,${btoa('bad')}` } }, /got bad/],
  ]
  for (const [part, error] of wrong) {
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'a' }, part] }]
    const { status, json } = await askJson(server, '/v1/chat/completions', { messages })
    t.equal(status, 400)
    t.match(json, { error: { message: error, param: 'messages.0.content.1' } })
  }
  const image = { type: 'image', source: { type: 'base64', data: btoa('bad') } }
  const messages = [{ role: 'user', content: [image] }]
  const asked = { messages, max_tokens: 2 }
  const { json } = await askJson(server, '/v1/messages', asked)
  const message = /^Could not process image: messages\.0\.content\.0: .*got bad/
  t.match(json, { error: { message } }, 'the words at which Claude Code leaves it out')
  const sequel = { ...asked, messages: [...messages, { role: 'user', content: 'So?' }] }
  t.equal((await askJson(server, '/v1/messages', sequel)).status, 200, 'it was refused once')
})

t.test('texts are lines of their own, but not beside an image', async (t) => {
  const image = { type: 'image' as const, data }
  t.same(joined(['a', '', 'b', image, 'c', 'd', image], '\n'), {
    content: 'a\nbc\nd',
    media: [
      { ...image, at: 3 },
      { ...image, at: 6 },
    ],
  })
  t.same(joined([image], '\n'), { content: '', media: [{ ...image, at: 0 }] })
})

t.test(
  'a text stands for a file that a model cannot be shown, unless somebody asks about it',
  async (t) => {
    const file = (type: 'image' | 'audio', at: number) => ({ type, data, at })
    const says = '[audio left out: the model cannot be shown it]'
    const media = [file('image', 1), file('audio', 2)]
    const message = { role: 'user', content: 'abc', media }
    t.same(shownMessages([message, { role: 'user', content: 'So?' }], { images: true })[0], {
      role: 'user',
      content: `ab\n${says}\nc`,
      media: [{ ...file('image', 1), otherwise: says.replace('audio', 'image') }],
    })
    const server = await serve({ protocols: [openAiProtocol()] })
    t.teardown(() => server.close())
    const user = { role: 'user', content: 'What is it?' }
    const call = { type: 'function', id: 'a', function: { name: 'look', arguments: '{}' } }
    const called = { role: 'assistant', tool_calls: [call] }
    const result = {
      role: 'tool',
      tool_call_id: 'a',
      content: [{ type: 'image_url', image_url: { url } }],
    }
    const asked = { ...result, role: 'user' }
    const chat = { messages: [user, called, result, asked, user], max_tokens: 2 }
    t.equal((await askJson(server, '/v1/chat/completions', chat)).status, 200)
    const input = [
      user,
      { type: 'function_call', call_id: 'a', name: 'look', arguments: '{}' },
      {
        type: 'function_call_output',
        call_id: 'a',
        output: [{ type: 'input_image', image_url: url }],
      },
    ]
    const response = { input, max_output_tokens: 2 }
    t.equal((await askJson(server, '/v1/responses', response)).status, 200)
  },
)

t.test('a call without an id gives its name to its result alone', async (t) => {
  const messages = [
    {
      role: 'assistant' as const,
      tool_calls: [{ type: 'function' as const, function: { name: 'look', arguments: '{}' } }],
    },
    { role: 'tool' as const, content: 'a cat' },
    { role: 'user' as const, content: 'And now?' },
  ]
  t.same(
    toChatMessages(messages).map(({ name }) => name),
    [undefined, 'look', undefined],
  )
})
