import { FakeTokenizer } from '@cllm/core/testing'
import { llamaServerProtocol, ollamaProtocol, openAiProtocol } from '@cllm/http-koa'
import { testEach } from '../each-client.js'
import { serve } from '../serve.js'

const protocols = [openAiProtocol(), ollamaProtocol(), llamaServerProtocol()]
const tokenizer = new FakeTokenizer()

type Json = Record<string, unknown>

testEach('embeddings through every API', async (t) => {
  const server = await serve({ protocols, backend: { embeddingSize: 3, contextSize: 16 } })
  t.teardown(() => server.close())
  const ask = async (path: string, body: object) => {
    const response = await server.post(path, body)
    return { status: response.status, json: (await response.json()) as Json }
  }
  const { vector, promptTokens } = await server.client.embed({ text: 'euro' })
  const other = await server.client.embed({ text: 'other' })
  t.not(vector[0], other.vector[0])

  const { json } = await ask('/v1/embeddings', { input: ['euro', 'other'] })
  const tokens = promptTokens + other.promptTokens
  t.match(json, {
    object: 'list',
    data: [
      { object: 'embedding', index: 0, embedding: vector },
      { object: 'embedding', index: 1, embedding: other.vector },
    ],
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  })
  const ids = tokenizer.encode('euro')
  for (const input of ['euro', ids, [ids]]) {
    t.match((await ask('/v1/embeddings', { input })).json, { data: [{ embedding: vector }] })
  }
  const packed = await ask('/v1/embeddings', { input: 'euro', encoding_format: 'base64' })
  const [{ embedding }] = packed.json['data'] as [{ embedding: string }]
  const bytes = Buffer.from(embedding, 'base64')
  t.same(
    vector.map((_, index) => bytes.readFloatLE(index * 4)),
    [...new Float32Array(vector)],
  )

  const model = 'fake'
  t.match((await ask('/api/embed', { model, input: ['euro', 'other'] })).json, {
    model,
    embeddings: [vector, other.vector],
    prompt_eval_count: tokens,
  })
  t.same((await ask('/api/embeddings', { model, prompt: 'euro' })).json, { embedding: vector })
  t.same((await ask('/api/embed', { model })).json['embeddings'], [])
  t.same((await ask('/api/embeddings', { model })).json, { embedding: [] })
  const long = 'a long text that has more tokens than a slot holds'
  t.match((await ask('/api/embed', { model, input: long })).json, { prompt_eval_count: 16 })
  t.equal((await ask('/api/embed', { model, input: long, truncate: false })).status, 400)

  for (const path of ['/embedding', '/embeddings']) {
    t.same((await ask(path, { content: ['euro', 'other'] })).json, [
      { index: 0, embedding: [vector] },
      { index: 1, embedding: [other.vector] },
    ])
  }

  const refused: [path: string, body: object, field: RegExp][] = [
    ['/v1/embeddings', {}, /input$/],
    ['/v1/embeddings', { input: '' }, /^input/],
    ['/v1/embeddings', { input: [] }, /^input/],
    ['/v1/embeddings', { input: ['a', 5] }, /^input/],
    ['/v1/embeddings', { input: 'a', dimensions: 2 }, /^dimensions/],
    ['/v1/embeddings', { input: 'a', encoding_format: 'hex' }, /^encoding_format/],
    ['/v1/embeddings', { input: long }, /tokens, a slot holds 16/],
    ['/v1/embeddings', { input: [[5000]] }, /5000/],
    ['/api/embed', { model, input: 5 }, /^input/],
    ['/api/embed', { model, input: 'a', dimensions: 2 }, /^dimensions/],
    ['/embedding', { content: 'a', embd_normalize: 0 }, /^embd_normalize/],
  ]
  for (const [path, body, message] of refused) {
    const { status, json } = await ask(path, body)
    t.equal(status, 400, `${path} ${JSON.stringify(body)}`)
    const error = json['error'] as string | { message: string }
    t.match(typeof error === 'string' ? error : error.message, message)
  }
  t.same(server.backend.violations, [])
})

testEach('a backend without embeddings', async (t) => {
  const server = await serve({ protocols })
  t.teardown(() => server.close())
  const answer = await server.post('/v1/embeddings', { input: 'a' })
  t.equal(answer.status, 400)
  t.match(await answer.json(), { error: { code: 'unsupported', param: 'input' } })
})
