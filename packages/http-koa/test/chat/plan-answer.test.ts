import type { EngineClient } from '@cllm/core'
import { FakeTokenizer } from '@cllm/testing'
import { anthropicProtocol, ollamaProtocol, openAiProtocol } from '@cllm/http-koa'
import { testEach } from '../each-client.js'
import { serve } from '../serve.js'

const tool = { name: 'look', parameters: { type: 'object' } }

testEach('a warm chat of a thinking model asks the engine for its answer alone', async (t) => {
  const { client, post, close } = await serve({
    protocols: [openAiProtocol(), anthropicProtocol(), ollamaProtocol({ version: '0' })],
    backend: {
      contextSize: 1024,
      details: { chatTemplate: '{{ messages }} {{ tools }} counted <think></think>' },
      script: () => new FakeTokenizer().encode('a', { addBos: false })[0]!,
    },
  })
  t.teardown(close)
  const calls: string[] = []
  const info = await client.info()
  const submit = client.submit.bind(client)
  const counted = Object.fromEntries(
    (['applyTemplate', 'tokenize', 'detokenize', 'statistics'] as const).map((name) => {
      const call = client[name].bind(client) as (...given: unknown[]) => Promise<unknown>
      return [
        name,
        async (...given: unknown[]) => {
          calls.push(name)
          return await call(...given)
        },
      ]
    }),
  )
  Object.assign(client, counted, {
    info: async () => ({ ...info, capabilities: { ...info.capabilities, grammar: true } }),
    submit(...[request, options]: Parameters<EngineClient['submit']>) {
      calls.push('submit')
      const { constraint: _constraint, ...sampling } = request.sampling ?? {}
      return submit({ ...request, sampling }, options)
    },
  })
  const messages = [{ role: 'user', content: 'Hello' }]
  const tools = [{ type: 'function', function: tool }]
  const bodies: [path: string, body: object][] = [
    ['/v1/chat/completions', {}],
    ['/v1/chat/completions', { chat_template_kwargs: { enable_thinking: false } }],
    ['/v1/chat/completions', { tools, tool_choice: 'required' }],
    ['/v1/chat/completions', { tools, response_format: { type: 'json_object' } }],
    ['/v1/responses', { input: 'Hello', max_output_tokens: 4, tools: [{ ...tools[0], ...tool }] }],
    ['/v1/messages', { tools: [{ name: 'look' }], thinking: { type: 'disabled' } }],
    ['/api/chat', { model: 'fake', truncate: false, options: { num_predict: 4 }, stream: false }],
  ]
  for (const [path, body] of bodies) {
    const ask = async () => await post(path, { messages, max_tokens: 4, ...body })
    const first = await ask()
    t.equal(first.status, 200, await first.text())
    calls.length = 0
    await (await ask()).text()
    t.same(calls, ['submit'], `${path} ${JSON.stringify(body)}`)
  }
})
