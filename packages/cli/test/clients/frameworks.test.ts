import { InferenceClient, InferenceClientProviderApiError } from '@huggingface/inference'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { ChatOllama, OllamaEmbeddings } from '@langchain/ollama'
import { ChatOpenAI, OpenAIEmbeddings } from '@langchain/openai'
import {
  APICallError,
  embedMany,
  generateObject,
  generateText,
  jsonSchema,
  streamText,
  tool,
  type ToolSet,
} from 'ai'
import t from 'tap'
import { greedy, messages, model, personSchema, serveStories } from './serve-stories.js'

const { url, post, idle, stop } = await serveStories(t)
const person = { name: /^(Lily|Tim)$/, age: Number }
const wrongModel = 'none'

/** What every client is to get. */
async function wholeAnswer(): Promise<string> {
  const { choices } = await post('/v1/chat/completions', { model, messages, ...greedy })
  return (choices as [{ message: { content: string } }])[0].message.content
}

const failureOf = async (promise: PromiseLike<unknown>): Promise<unknown> => {
  try {
    return await promise
  } catch (error) {
    return error
  }
}

t.test('ai', async (t) => {
  const provider = createOpenAICompatible({
    name: 'cllm',
    baseURL: `${url}/v1`,
    includeUsage: true,
    supportsStructuredOutputs: true,
  })
  const request = { model: provider(model), messages, temperature: 0, maxOutputTokens: 40 }
  const whole = await wholeAnswer()
  const answer = await generateText(request)
  t.equal(answer.text, whole)
  t.equal(answer.usage.outputTokens, 40)
  t.equal(answer.finishReason, 'length')
  const stream = streamText(request)
  t.equal(await stream.text, whole)
  t.equal((await stream.usage).outputTokens, 40)

  const controller = new AbortController()
  const endless = streamText({
    ...request,
    maxOutputTokens: 200,
    abortSignal: controller.signal,
    onError() {},
  })
  for await (const _ of endless.textStream) controller.abort()
  await idle()

  const inputSchema = jsonSchema(personSchema)
  const asking = { ...request, maxOutputTokens: 100, temperature: 1, seed: 1 }
  const forced = {
    ...asking,
    tools: { greet: tool({ description: 'Greets', inputSchema }) } as ToolSet,
    toolChoice: 'required' as const,
  }
  const called = await generateText(forced)
  t.match(called.toolCalls, [{ toolName: 'greet', input: person }])
  t.equal(called.finishReason, 'tool-calls')
  t.match(await streamText(forced).toolCalls, [{ toolName: 'greet', input: person }], 'streamed')
  t.match((await generateObject({ ...asking, schema: inputSchema })).object, person)

  const embeddingModel = provider.textEmbeddingModel(model)
  const { embeddings } = await embedMany({ model: embeddingModel, values: ['one', 'two'] })
  t.equal(embeddings.length, 2)
  t.equal(embeddings[0]?.length, 288)

  const refused = await failureOf(
    generateText({ ...request, model: provider(wrongModel), maxRetries: 0 }),
  )
  t.ok(APICallError.isInstance(refused))
  t.match(refused, { statusCode: 404, message: /none/ })
})

t.test('langchain, by OpenAI', async (t) => {
  const configuration = { baseURL: `${url}/v1` }
  const settings = { model, apiKey: 'none', maxRetries: 0, configuration }
  const chat = new ChatOpenAI({ ...settings, temperature: 0, maxTokens: 40 })
  const whole = await wholeAnswer()
  t.equal((await chat.invoke(messages)).content, whole)
  let streamed = ''
  for await (const chunk of await chat.stream(messages)) streamed += chunk.text
  t.equal(streamed, whole)

  const asking = new ChatOpenAI({ ...settings, temperature: 1, maxTokens: 100 })
  const controller = new AbortController()
  const { signal } = controller
  const endless = await failureOf(
    (async () => {
      for await (const _ of await asking.stream(messages, { signal })) controller.abort()
    })(),
  )
  t.ok(endless === undefined || endless instanceof Error)
  await idle()

  const greet = { name: 'greet', description: 'Greets', parameters: personSchema }
  const tools = [{ type: 'function' as const, function: greet }]
  const called = await asking.bindTools(tools, { tool_choice: 'required' }).invoke(messages)
  t.match(called.tool_calls, [{ name: 'greet', args: person }])
  const method = 'jsonSchema' as const
  const structured = asking.withStructuredOutput(personSchema, { name: 'person', method })
  t.match(await structured.invoke(messages), person)

  const embeddings = new OpenAIEmbeddings(settings)
  t.equal((await embeddings.embedQuery('one')).length, 288)
  const refused = await failureOf(
    new ChatOpenAI({ ...settings, model: wrongModel }).invoke(messages),
  )
  t.match(refused, { name: /Error/, status: 404 })
})

t.test('langchain, by Ollama', async (t) => {
  const settings = { model, baseUrl: url, maxRetries: 0 }
  const chat = new ChatOllama({ ...settings, temperature: 0, numPredict: 40 })
  const whole = await wholeAnswer()
  t.equal((await chat.invoke(messages)).content, whole)
  let streamed = ''
  for await (const chunk of await chat.stream(messages)) streamed += chunk.text
  t.equal(streamed, whole)
  const structured = new ChatOllama({ ...settings, format: personSchema, numPredict: 60 })
  t.match(JSON.parse((await structured.invoke(messages)).text), person)
  const embeddings = new OllamaEmbeddings(settings)
  t.equal((await embeddings.embedQuery('one')).length, 288)
  const refused = await failureOf(
    new ChatOllama({ ...settings, model: wrongModel }).invoke(messages),
  )
  t.match(refused, { name: 'ResponseError' })
})

t.test('huggingface', async (t) => {
  const client = new InferenceClient('none', { endpointUrl: `${url}/v1/chat/completions` })
  const whole = await wholeAnswer()
  const request = { model, messages, ...greedy }
  t.equal((await client.chatCompletion(request)).choices[0]?.message.content, whole)
  let streamed = ''
  for await (const chunk of client.chatCompletionStream(request)) {
    streamed += chunk.choices[0]?.delta.content ?? ''
  }
  t.equal(streamed, whole)

  const controller = new AbortController()
  const endless = failureOf(
    (async () => {
      const { signal } = controller
      const long = { ...request, max_tokens: 200 }
      for await (const _ of client.chatCompletionStream(long, { signal })) controller.abort()
    })(),
  )
  t.match(await endless, { name: 'AbortError' })
  await idle()

  const greet = { name: 'greet', parameters: personSchema }
  const tools = [{ type: 'function' as const, function: greet }]
  const asking = { model, messages, max_tokens: 100, seed: 1 }
  const called = await client.chatCompletion({ ...asking, tools, tool_choice: 'required' })
  const call = called.choices[0]?.message.tool_calls?.[0]?.function
  t.match(JSON.parse(String(call?.arguments)), person)
  const json_schema = { name: 'person', strict: true, schema: personSchema }
  const response_format = { type: 'json_schema' as const, json_schema }
  const structured = await client.chatCompletion({ ...asking, response_format })
  t.match(JSON.parse(structured.choices[0]?.message.content ?? ''), person)

  const refused = await failureOf(client.chatCompletion({ ...request, model: wrongModel }))
  t.ok(refused instanceof InferenceClientProviderApiError)
  t.match(refused, { httpResponse: { status: 404, body: { error: { code: 'model_not_found' } } } })
})

t.test('nothing is logged as a crash', async (t) => {
  await idle()
  t.notMatch(await stop(), /request failed|response failed|unhandled/i)
})
