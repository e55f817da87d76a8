import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import Anthropic from '@anthropic-ai/sdk'
import {
  type ChatMessage,
  type ChatRenderOptions,
  createEngine,
  type GenerateRequest,
  PluginRegistry,
  systemRandom,
  type TokenId,
} from '@cllm/core'
import { createServer, LocalEngineClient, overriding } from '@cllm/host'
import { FakeBackend, fakeTokenIds, FakeTokenizer, firstComeFirstServed } from '@cllm/testing'
import { anthropicProtocol, koaTransport, ollamaProtocol, openAiProtocol } from '@cllm/http-koa'
import { generateText, jsonSchema, stepCountIs, tool } from 'ai'
import { type Message, Ollama } from 'ollama'
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import { families, type Family, rendered, written } from './families.js'

const question = 'What is the weather in two cities?'
const results = ['RESULT-ONE', 'RESULT-TWO', 'RESULT-THREE'] as const
const calls = [
  { name: 'weather', arguments: { city: 'São "Paulo"', days: 3 } },
  { name: 'weather', arguments: { city: 'Oslo', days: 1 } },
  { name: 'note', arguments: { text: 'It rains.\nTwice: <b> {c}' } },
]
const parameters = {
  weather: {
    type: 'object' as const,
    properties: { city: { type: 'string' as const }, days: { type: 'integer' as const } },
    required: ['city', 'days'],
  },
  note: {
    type: 'object' as const,
    properties: { text: { type: 'string' as const } },
    required: ['text'],
  },
}
const names = ['weather', 'note'] as const

const calling = (made: typeof calls) =>
  made.map((call) => ({ type: 'function' as const, function: call }))
/** What the model says, turn by turn: a call, two at once, and a text. */
const turns = [
  { content: '', reasoning_content: 'I ask for one.', tool_calls: calling(calls.slice(0, 1)) },
  { content: '', reasoning_content: 'Now the rest.', tool_calls: calling(calls.slice(1)) },
  { content: 'It rains in both.', reasoning_content: 'Now I know.' },
]

/** A server whose model writes as the family does, and says its turns by what it was told last. */
async function serveFamily(
  t: Test,
  family: Family,
  onRequest: (request: GenerateRequest) => void = () => {},
): Promise<string> {
  const tokenizer = new FakeTokenizer()
  /** Those of the last request, and how the model answers it. */
  let prompt: readonly TokenId[] = []
  let answer: readonly TokenId[] = []
  const script = (content: readonly TokenId[]): TokenId =>
    answer[content.length - prompt.length] ?? fakeTokenIds.endOfSequence
  const backend = new FakeBackend({ script, contextSize: 8192, batchSize: 4096 })
  const engine = createEngine({ backend, policy: firstComeFirstServed })
  const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
  const render = (messages: readonly ChatMessage[], options: ChatRenderOptions = {}) => {
    const { addGenerationPrompt = true, variables } = options
    const shown =
      variables?.['tools'] === undefined ? '' : `tools:${JSON.stringify(variables['tools'])}\n`
    const text = shown + rendered(family, messages, addGenerationPrompt)
    return { text, tokens: tokenizer.encode(text, { special: false }) }
  }
  const model = overriding(client, {
    info: async () => {
      const info = await client.info()
      const details = { chatTemplate: `${family.name} tools ${family.source}` }
      const capabilities = { ...info.capabilities, grammar: true }
      return { ...info, capabilities, model: { ...info.model, details } }
    },
    applyTemplate: async (messages, options) => render(messages, options),
    submit(request: GenerateRequest, options) {
      onRequest(request)
      const { prompt: asked } = request
      const tokens = 'messages' in asked ? render(asked.messages, asked.template).tokens : []
      const told = tokenizer.decode(tokens)
      const turn = told.includes(results[2]) ? 2 : told.includes(results[0]) ? 1 : 0
      const said = written(family, turns[turn]!)
      prompt = tokens
      answer = tokenizer.encode(said, { addBos: false, special: false })
      // it says what it is to say
      const { constraint: _, ...sampling } = request.sampling ?? {}
      return client.submit({ ...request, sampling, prompt: { tokens } }, options)
    },
  })
  const protocols = [openAiProtocol(), anthropicProtocol(), ollamaProtocol()]
  const server = createServer({
    engines: { scripted: model },
    transports: [koaTransport({ port: 0, protocols })],
  })
  t.teardown(() => server.close())
  const [address] = await server.listen()
  return address!.url
}

/** What a client has got in all: calls, thoughts and the last text. */
interface Heard {
  readonly calls: { name: string; arguments: unknown }[]
  readonly thoughts: string[]
  text: string
}

const model = 'scripted'
const functions = names.map((name) => ({
  type: 'function' as const,
  function: { name, description: `Does ${name}`, parameters: parameters[name] },
}))

async function byOpenAi(url: string, stream: boolean): Promise<Heard> {
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
  const heard: Heard = { calls: [], thoughts: [], text: '' }
  const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: question }]
  for (let turn = 0; turn < turns.length; turn++) {
    const request = { model, messages, tools: functions }
    const completion = stream
      ? await openai.chat.completions.stream(request).finalChatCompletion()
      : await openai.chat.completions.create(request)
    const [choice] = completion.choices
    const { message } = choice!
    const { reasoning_content: thought = '' } = message as { reasoning_content?: string }
    heard.thoughts.push(thought)
    heard.text = message.content ?? ''
    messages.push(message)
    for (const call of message.tool_calls ?? []) {
      if (call.type !== 'function') continue
      const { name, arguments: given } = call.function
      messages.push({
        role: 'tool',
        tool_call_id: call.id,
        content: results[heard.calls.length]!,
      })
      heard.calls.push({ name, arguments: JSON.parse(given) })
    }
  }
  return heard
}

async function byAnthropic(url: string, stream: boolean): Promise<Heard> {
  const anthropic = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 })
  const heard: Heard = { calls: [], thoughts: [], text: '' }
  const tools = names.map((name) => ({ name, input_schema: parameters[name] }))
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: question }]
  for (let turn = 0; turn < turns.length; turn++) {
    const request = { model, messages, tools, max_tokens: 2000 }
    const { content } = stream
      ? await anthropic.messages.stream(request).finalMessage()
      : await anthropic.messages.create(request)
    messages.push({ role: 'assistant', content })
    const answers: Anthropic.ToolResultBlockParam[] = []
    let thought = ''
    for (const block of content) {
      if (block.type === 'thinking') thought = block.thinking
      if (block.type === 'text') heard.text = block.text
      if (block.type !== 'tool_use') continue
      const result = results[heard.calls.length]!
      answers.push({ type: 'tool_result', tool_use_id: block.id, content: result })
      heard.calls.push({ name: block.name, arguments: block.input })
    }
    heard.thoughts.push(thought)
    if (answers.length > 0) messages.push({ role: 'user', content: answers })
  }
  return heard
}

async function byOllama(url: string): Promise<Heard> {
  const ollama = new Ollama({ host: url })
  const heard: Heard = { calls: [], thoughts: [], text: '' }
  const messages: Message[] = [{ role: 'user', content: question }]
  for (let turn = 0; turn < turns.length; turn++) {
    const { message } = await ollama.chat({ model, messages, tools: functions })
    messages.push(message)
    heard.thoughts.push(message.thinking ?? '')
    heard.text = message.content
    for (const { function: called } of message.tool_calls ?? []) {
      messages.push({ role: 'tool', tool_name: called.name, content: results[heard.calls.length]! })
      heard.calls.push(called)
    }
  }
  return heard
}

async function byAi(url: string): Promise<Heard> {
  const provider = createOpenAICompatible({ name: 'cllm', baseURL: `${url}/v1` })
  const heard: Heard = { calls: [], thoughts: [], text: '' }
  const tools = Object.fromEntries(
    names.map((name) => [
      name,
      tool({
        inputSchema: jsonSchema(parameters[name]),
        execute: async (input: unknown) => {
          heard.calls.push({ name, arguments: input })
          return results[heard.calls.length - 1]
        },
      }),
    ]),
  )
  const request = { model: provider(model), prompt: question, tools, stopWhen: stepCountIs(5) }
  const { steps, text } = await generateText(request)
  heard.thoughts.push(...steps.map(({ reasoningText }) => reasoningText ?? ''))
  heard.text = text
  return heard
}

for (const family of families) {
  void t.test(`an agent's conversation with ${family.name}`, async (t) => {
    const url = await serveFamily(t, family)
    const wanted = {
      calls,
      thoughts: turns.map(({ reasoning_content: thought }) =>
        family.thoughts === undefined ? '' : thought,
      ),
      text: turns[2]!.content,
    }
    t.same(await byOpenAi(url, false), wanted, 'openai')
    const streamed = await byOpenAi(url, true)
    t.same([streamed.calls, streamed.text], [calls, wanted.text], 'openai, streamed')
    t.same(await byAnthropic(url, false), wanted, 'anthropic')
    t.same(await byAnthropic(url, true), wanted, 'anthropic, streamed')
    t.same(await byOllama(url), wanted, 'ollama')
    t.same(await byAi(url), wanted, 'ai')
  })
}

t.test('how many calls may come is as each API documents it', async (t) => {
  const asked: GenerateRequest[] = []
  const url = await serveFamily(t, families[0]!, (request) => asked.push(request))
  const post = async (path: string, body: object): Promise<Record<string, unknown>> => {
    const headers = { 'content-type': 'application/json' }
    const whole = { model, max_tokens: 2000, ...body }
    const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(whole) })
    return (await answer.json()) as Record<string, unknown>
  }
  // the model answers this with two calls
  const messages = [{ role: 'user', content: results[0] }]
  const isCall = ({ type }: { type: string }) => /^(function_call|tool_use)$/.test(type)
  type Way = (choice: 'auto' | 'any' | 'named', several?: boolean) => Promise<number>
  const openAiChoice = { auto: 'auto', any: 'required' } as const
  const ways: Record<string, Way> = {
    chat: async (choice, several) => {
      const named = { type: 'function', function: { name: 'weather' } }
      const tool_choice = choice === 'named' ? named : openAiChoice[choice]
      const switches = { tool_choice, parallel_tool_calls: several }
      const body = { messages, tools: functions, ...switches }
      const { choices } = await post('/v1/chat/completions', body)
      const [{ message }] = choices as [{ message: { tool_calls: unknown[] } }]
      return message.tool_calls.length
    },
    responses: async (choice, several) => {
      const tools = functions.map(({ type, function: described }) => ({ type, ...described }))
      const named = { type: 'function', name: 'weather' }
      const tool_choice = choice === 'named' ? named : openAiChoice[choice]
      const switches = { tool_choice, parallel_tool_calls: several }
      const { output } = await post('/v1/responses', { input: results[0], tools, ...switches })
      return (output as { type: string }[]).filter(isCall).length
    },
    messages: async (choice, several) => {
      const tools = names.map((name) => ({ name, input_schema: parameters[name] }))
      const tool_choice = {
        ...(choice === 'named' ? { type: 'tool', name: 'weather' } : { type: choice }),
        ...(several !== undefined && { disable_parallel_tool_use: !several }),
      }
      const { content } = await post('/v1/messages', { messages, tools, tool_choice })
      return (content as { type: string }[]).filter(isCall).length
    },
  }
  for (const [name, callsOf] of Object.entries(ways)) {
    for (const several of [undefined, true, false]) {
      const count = several === false ? 1 : 2
      const about = `${name}: ${String(several)}`
      t.equal(await callsOf('auto', several), count, `${about}, not forced`)
      t.equal(await callsOf('any', several), count, `${about}, forced`)
      const next = () => asked.at(-1)?.sampling?.constraint as { next?: string } | undefined
      t.equal(typeof next()?.next, several === false ? 'undefined' : 'string', `${about}: grammar`)
      await callsOf('named', several)
      t.equal(next()?.next, undefined, `${about}: a named tool is called once`)
    }
  }

  const body = JSON.stringify({ model, messages, max_tokens: 2000, stream: true })
  const streamed = await fetch(`${url}/v1/messages`, { method: 'POST', body })
  t.match(await streamed.text(), '{"type":"signature_delta","signature":""}', 'thoughts are closed')
})
