import { anthropicProtocol, ollamaProtocol, openAiProtocol } from '@cllm/http-koa'
import t from 'tap'
import { joined } from '../../src/chat/message-content.js'
import { serve } from '../serve.js'

const data = Buffer.from('a cat on a mat').toString('base64')
const url = `data:image/png;base64,${data}`

async function askJson(server: Awaited<ReturnType<typeof serve>>, path: string, body: object) {
  const response = await server.post(path, body)
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
  const shown = await askJson(server, '/api/show', { model: 'fake' })
  t.match(shown.json, { capabilities: ['completion', 'tools', 'vision'] })
})

t.test('what is no image in the request is refused, and where it is', async (t) => {
  const server = await serve({ backend: { images: true }, protocols: [openAiProtocol()] })
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
})

t.test('texts are lines of their own, but not beside an image', async (t) => {
  const image = { data }
  t.same(joined(['a', '', 'b', image, 'c', 'd', image], '\n'), {
    content: 'a\nbc\nd',
    media: [
      { data, at: 3 },
      { data, at: 6 },
    ],
  })
  t.same(joined([image], '\n'), { content: '', media: [{ data, at: 0 }] })
})
