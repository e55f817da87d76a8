import Anthropic, { NotFoundError as NoSuchModel } from '@anthropic-ai/sdk'
import { Ollama } from 'ollama'
import OpenAI, { APIUserAbortError, BadRequestError, NotFoundError } from 'openai'
import t from 'tap'
import { until } from '../until.js'
import { greedy, messages, model, personSchema, serveStories } from './serve-stories.js'

const folder = t.testdir({})
const { url, post, idle, stop } = await serveStories(
  t,
  '--responses',
  `${folder}/responses`,
  '--batches',
  `${folder}/batches`,
)
const prompt = 'Once upon a time'
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })
const anthropic = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 })
const ollama = new Ollama({ host: url })

async function chatByOpenAi(): Promise<string> {
  const answer = await openai.chat.completions.create({ model, messages, ...greedy })
  return answer.choices[0]?.message.content ?? ''
}

t.test('the same greedy prompt gives the same text through every protocol', async (t) => {
  const native = (await post('/generate', { prompt, ...greedy })) as { data: { text: string } }
  const completion = await openai.completions.create({ model, prompt, ...greedy })
  t.equal(completion.choices[0]?.text, native.data.text)
  const options = { temperature: 0, num_predict: 40 }
  const raw = await ollama.generate({ model, prompt, raw: true, options })
  t.equal(raw.response, native.data.text)
  const llama = await post('/completion', { prompt, temperature: 0, n_predict: 40 })
  t.equal(llama['content'], native.data.text)

  const chat = await chatByOpenAi()
  t.not(chat, '')
  t.equal((await ollama.chat({ model, messages, options })).message.content, chat)
  const generated = { model, prompt: messages[0]!.content, options }
  t.equal((await ollama.generate(generated)).response, chat)
  const template = await post('/apply-template', { messages })
  const rendered = { prompt: template['prompt'], temperature: 0, n_predict: 40 }
  t.equal((await post('/completion', rendered))['content'], chat)
})

t.test('openai', async (t) => {
  const whole = await chatByOpenAi()
  const stream = await openai.chat.completions.create({
    model,
    messages,
    ...greedy,
    stream: true,
    stream_options: { include_usage: true },
  })
  let streamed = ''
  let usage: OpenAI.CompletionUsage | null | undefined
  for await (const chunk of stream) {
    streamed += chunk.choices[0]?.delta.content ?? ''
    usage = chunk.usage
  }
  t.equal(streamed, whole)
  t.equal(usage?.completion_tokens, 40)
  t.ok((usage?.prompt_tokens_details?.cached_tokens ?? 0) > 0, 'the prompt was there already')

  const endless = await openai.chat.completions.create({
    model,
    messages,
    stream: true,
    ignore_eos: true,
  } as OpenAI.ChatCompletionCreateParamsStreaming)
  for await (const _ of endless) break // leaves the connection
  await idle()

  const controller = new AbortController()
  const aborted = openai.chat.completions.create(
    { model, messages, max_tokens: 200 },
    { signal: controller.signal },
  )
  controller.abort()
  t.ok((await aborted.catch((error: unknown) => error)) instanceof APIUserAbortError)
  await idle()

  const runner = openai.chat.completions.stream({ model, messages, ...greedy })
  t.equal(await runner.finalContent(), whole, "the client's own reading of a stream")

  const models = await openai.models.list()
  t.same(
    models.data.map(({ id }) => id),
    [model],
  )
  t.equal((await openai.models.retrieve(model)).id, model)
  const failureOf = async (body: OpenAI.ChatCompletionCreateParamsNonStreaming) =>
    await openai.chat.completions.create(body).catch((error: unknown) => error)
  const wrong = await failureOf({ model, messages, temperature: 9 })
  t.ok(wrong instanceof BadRequestError)
  t.match(wrong, { status: 400, param: 'temperature', code: 'invalid_request', requestID: /\w/ })
  t.ok((await failureOf({ messages, model: 'none' })) instanceof NotFoundError)
})

t.test("anthropic's batches", async (t) => {
  const { batches } = anthropic.messages
  const asked = { model, messages, max_tokens: 20, temperature: 0 } as const
  const direct = await anthropic.messages.create(asked)
  const made = await batches.create({
    requests: [
      { custom_id: 'one', params: asked },
      { custom_id: 'none', params: { ...asked, model: 'nobody' } },
    ],
  })
  await until(async () => (await batches.retrieve(made.id)).processing_status === 'ended')
  const batch = await batches.retrieve(made.id)
  t.match(batch.request_counts, { succeeded: 1, errored: 1 })
  for await (const { custom_id: id, result } of await batches.results(made.id)) {
    if (result.type === 'succeeded') t.same(result.message.content, direct.content, id)
    else t.match(result, { type: 'errored', error: { error: { type: 'not_found_error' } } }, id)
  }
  const listed: string[] = []
  for await (const { id } of batches.list({ limit: 1 })) listed.push(id)
  t.same(listed, [made.id])
  const endless = { ...asked, max_tokens: 200 }
  const { id } = await batches.create({ requests: [{ custom_id: 'x', params: endless }] })
  t.match(await batches.cancel(id), { processing_status: /canceling|ended/ })
  await until(async () => (await batches.retrieve(id)).processing_status === 'ended')
  t.match(await batches.delete(id), { id, type: 'message_batch_deleted' })
  const gone = await batches.retrieve(id).catch((error: unknown) => error)
  t.ok(gone instanceof NoSuchModel)
})

t.test('ollama', async (t) => {
  const options = { temperature: 0, num_predict: 40 }
  let streamed = ''
  for await (const part of await ollama.chat({ model, messages, options, stream: true })) {
    streamed += part.message.content
  }
  t.equal(streamed, await chatByOpenAi())
  t.match((await ollama.list()).models[0], { name: 'stories:latest' })
  t.match(await ollama.show({ model: 'stories:latest' }), { details: { family: 'llama' } })
  t.match((await ollama.ps()).models[0], { model: 'stories:latest' })
  t.ok((await ollama.version()).version)
  await t.rejects(ollama.chat({ model: 'none', messages }), {
    name: 'ResponseError',
    status_code: 404,
  })
  const endless = await ollama.generate({
    model,
    prompt,
    stream: true,
    options: { num_predict: -1 },
  })
  for await (const _ of endless) {
    endless.abort()
    break
  }
  await idle()

  const greet = { name: 'greet', description: 'Greets', parameters: {} }
  const call = {
    type: 'object',
    properties: { name: { const: 'greet' }, arguments: personSchema },
    required: ['name', 'arguments'],
    additionalProperties: false,
  }
  const tools = [{ type: 'function', function: greet }]
  const calling = { model, messages, tools, format: call }
  type Calls = Awaited<ReturnType<typeof ollama.chat>>['message']['tool_calls']
  // A call beside a format may have any arguments, as one without it. Whether they end within 150 tokens
  // depends on the seed and on the machine's arithmetic.
  const untilCalled = async (ask: (options: object) => Promise<Calls>): Promise<Calls> => {
    let calls: Calls
    for (let seed = 1; seed <= 30 && (calls?.length ?? 0) === 0; seed++) {
      calls = await ask({ num_predict: 150, seed })
    }
    return calls
  }
  const wanted = [{ function: { name: 'greet', arguments: Object } }]
  const whole = await untilCalled(
    async (options) => (await ollama.chat({ ...calling, options })).message.tool_calls,
  )
  t.match(whole, wanted)
  const parts = await untilCalled(async (options) => {
    const calls = []
    for await (const part of await ollama.chat({ ...calling, options, stream: true })) {
      calls.push(...(part.message.tool_calls ?? []))
    }
    return calls
  })
  t.match(parts, wanted, 'streamed')
})

t.test("what Mistral's client sends", async (t) => {
  // recorded with @mistralai/mistralai 2.7.0, which is too large to install for this
  const parameters = {
    type: 'object',
    properties: { name: { enum: ['Lily'] } },
    required: ['name'],
    additionalProperties: false,
  }
  const greet = { name: 'greet', description: 'Greets', parameters }
  const forced = { tools: [{ type: 'function', function: greet }], tool_choice: 'any' }
  const called = {
    id: 'abcdefghi',
    type: 'function',
    function: { name: 'greet', arguments: { name: 'Lily' } },
    index: 0,
  }
  const path = '/v1/chat/completions'
  const ask = async (more: object) => await post(path, { model, messages, stream: false, ...more })
  const plain = { temperature: 0, max_tokens: 40, random_seed: 1, safe_prompt: true }
  const content = await chatByOpenAi()
  t.match(await ask(plain), { choices: [{ message: { content }, finish_reason: 'length' }] })
  const calls = [{ type: 'function', function: { name: 'greet', arguments: String } }]
  for (const tool_choice of ['any', { type: 'function', function: { name: 'greet' } }]) {
    const answer = await ask({
      ...forced,
      tool_choice,
      max_tokens: 150,
      parallel_tool_calls: false,
    })
    t.match(answer, { choices: [{ message: { tool_calls: calls } }] })
  }
  const history = [
    ...messages,
    { role: 'assistant', content: '', tool_calls: [called], prefix: false },
    { role: 'tool', content: 'ok', tool_call_id: called.id, name: 'greet' },
  ]
  t.match(await ask({ messages: history, max_tokens: 5 }), { usage: { completion_tokens: 5 } })
  const begun = [...messages, { role: 'assistant', content: 'Once upon', prefix: true }]
  t.match(await ask({ messages: begun, max_tokens: 5 }), { usage: { completion_tokens: 5 } })
  const response_format = {
    type: 'json_schema',
    json_schema: { name: 'p', schema: parameters, strict: true },
  }
  const json = await ask({ response_format, max_tokens: 60 })
  t.match(json, { choices: [{ message: { content: /^\{\s*"name":\s?"Lily"\s*\}$/ } }] })
  const embedded = await post('/v1/embeddings', { model, input: ['a', 'b'] })
  t.match(embedded, { data: [{ embedding: Array }, { embedding: Array }] })
  const fim = { model, prompt, temperature: 0, top_p: 1, max_tokens: 5, random_seed: 1, suffix: '' }
  t.match(await post('/v1/fim/completions', { ...fim, stream: false }), {
    object: 'chat.completion',
    choices: [{ message: { role: 'assistant', content: String }, finish_reason: 'length' }],
    usage: { completion_tokens: 5 },
  })

  const headers = {
    'content-type': 'application/json',
    'user-agent': 'mistral-client-typescript/2.7.0',
    accept: 'text/event-stream',
  }
  const body = { model, messages, stream: true, max_tokens: 150, ...forced }
  const streamed = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  const chunks = await streamed.text()
  t.match(chunks, /"finish_reason":"tool_calls"[^\n]*"usage":\{"prompt/, 'unasked, at the end')
  const pieces = chunks.match(/"tool_calls":\[\{[^\n]*/g) ?? []
  t.match(pieces[0], /"name":"greet","arguments":"\{/, 'a call comes in one piece')
})

t.test('log probabilities', async (t) => {
  const body = { model, messages, ...greedy, logprobs: true, top_logprobs: 2 }
  const answer = await openai.chat.completions.create(body)
  const content = answer.choices[0]?.logprobs?.content ?? []
  t.equal(content.length, 40)
  for (const { token, logprob, top_logprobs: top } of content) {
    t.match(top[0], { token, logprob }, 'greedy takes the likeliest')
    t.ok((top[1]?.logprob ?? 0) <= logprob)
  }
})

t.test('responses', async (t) => {
  const request = { model, input: messages, temperature: 0, max_output_tokens: 40 }
  const whole = await openai.responses.create(request)
  t.equal(whole.output_text, await chatByOpenAi())
  t.match(whole, { status: 'incomplete', usage: { output_tokens: 40 } })
  const stream = openai.responses.stream(request)
  let streamed = ''
  stream.on('response.output_text.delta', ({ delta }) => (streamed += delta))
  const last = await stream.finalResponse()
  t.equal(last.output_text, whole.output_text, "the client's own reading of a stream")
  t.equal(streamed, whole.output_text)
  const unknown = openai.responses.create({ ...request, previous_response_id: 'resp_1' })
  t.ok((await unknown.catch((error: unknown) => error)) instanceof NotFoundError)
})

t.test('responses that are kept, and those in the background', async (t) => {
  const { responses, conversations } = openai
  const request = { model, temperature: 0, max_output_tokens: 20 }
  const first = await responses.create({ ...request, input: 'A dog.' })
  t.equal((await responses.retrieve(first.id)).output_text, first.output_text)
  const second = await responses.create({
    ...request,
    input: 'A cat.',
    previous_response_id: first.id,
  })
  const turns = [
    { role: 'user' as const, content: 'A dog.' },
    { role: 'assistant' as const, content: first.output_text },
    { role: 'user' as const, content: 'A cat.' },
  ]
  const whole = await responses.create({ ...request, input: turns })
  t.equal(second.output_text, whole.output_text, 'as if the client had sent all of it')
  t.equal(second.usage?.input_tokens, whole.usage?.input_tokens)
  const { data } = await responses.inputItems.list(second.id)
  t.match(data, [{ role: 'user', content: [{ text: 'A cat.' }] }])

  let later = await responses.create({ ...request, input: 'A dog.', background: true })
  t.equal(later.status, 'in_progress')
  const events: { type: string; sequence_number: number }[] = []
  for await (const event of await responses.retrieve(later.id, { stream: true })) events.push(event)
  later = await responses.retrieve(later.id)
  t.match(later, { status: 'incomplete', output_text: first.output_text })
  const rest: number[] = []
  const again = await responses.retrieve(later.id, { stream: true, starting_after: 5 })
  for await (const { sequence_number } of again) rest.push(sequence_number)
  t.same(rest, events.map((event) => event.sequence_number).slice(6), 'a stream is gone on with')
  const stopped = await responses.create({ ...request, input: 'A pig.', background: true })
  t.match((await responses.cancel(stopped.id)).status, /^(cancelled|incomplete)$/)
  await responses.delete(first.id)
  const gone = responses.retrieve(first.id)
  t.ok((await gone.catch((error: unknown) => error)) instanceof NotFoundError)

  const conversation = await conversations.create({ metadata: { a: 'b' } })
  const { id } = conversation
  const said = await responses.create({ ...request, input: 'A dog.', conversation: id })
  await responses.create({ ...request, input: 'A cat.', conversation: id })
  const { data: items } = await conversations.items.list(id, { order: 'asc' })
  t.match(items, [{ role: 'user' }, { id: said.output[0]!.id }, { role: 'user' }, {}])
  t.match(await conversations.update(id, { metadata: { c: 'd' } }), { metadata: { c: 'd' } })
  t.match(await conversations.delete(id), { deleted: true })
})

t.test('embeddings', async (t) => {
  const near = (found: readonly number[] | undefined, wanted: readonly number[]) =>
    found?.length === wanted.length && found.every((x, at) => Math.abs(x - wanted[at]!) < 1e-6)
  const floats = { model, input: [prompt, 'A dog.'], encoding_format: 'float' as const }
  const { data, usage } = await openai.embeddings.create(floats)
  const vectors = data.map(({ embedding }) => embedding)
  t.ok(Math.abs(Math.hypot(...(vectors[0] ?? [])) - 1) < 1e-6)
  t.notOk(near(vectors[0], vectors[1]!))
  t.ok(usage.prompt_tokens > 5)
  const packed = await openai.embeddings.create({ model, input: prompt })
  t.ok(near(packed.data[0]?.embedding, vectors[0]!), 'the client asks for base64')
  const { embeddings } = await ollama.embed({ model, input: floats.input })
  t.ok(near(embeddings[0], vectors[0]!))
  t.ok(near(embeddings[1], vectors[1]!))
  t.ok(near((await ollama.embeddings({ model, prompt })).embedding, vectors[0]!))
  const input = 'long '.repeat(3000)
  t.ok((await ollama.embed({ model, input })).prompt_eval_count > 100, 'cut to what fits')
  const refused = openai.embeddings.create({ model, input, dimensions: 3 })
  t.ok((await refused.catch((error: unknown) => error)) instanceof BadRequestError)
})

t.test('anthropic', async (t) => {
  const request = { model, messages, ...greedy }
  const { content, usage, stop_reason } = await anthropic.messages.create(request)
  const [block] = content
  t.equal(block?.type === 'text' ? block.text : '', await chatByOpenAi())
  t.equal(stop_reason, 'max_tokens')
  const { input_tokens: counted } = await anthropic.messages.countTokens({ model, messages })
  const { input_tokens: computed, cache_read_input_tokens: cached } = usage
  t.equal(computed + (cached ?? 0), counted)
  t.ok((cached ?? 0) > 0, 'the prompt was there already')

  const types: string[] = []
  const stream = anthropic.messages.stream(request)
  stream.on('streamEvent', ({ type }) => void types.push(type))
  const streamed = await stream.finalMessage()
  t.same(streamed.content, content)
  t.equal(streamed.usage.output_tokens, 40)
  t.equal(types[0], 'message_start')
  t.equal(types.at(-1), 'message_stop')

  const greet = { name: 'greet', input_schema: personSchema }
  const tools = { tools: [greet], tool_choice: { type: 'any' as const }, max_tokens: 100 }
  const forced = { ...request, ...tools }
  for (const message of [
    await anthropic.messages.create(forced),
    await anthropic.messages.stream(forced).finalMessage(),
  ]) {
    t.equal(message.stop_reason, 'tool_use')
    const [call] = message.content
    t.match(call, { type: 'tool_use', name: 'greet', input: { name: /^(Lily|Tim)$/ } })
  }
  await t.rejects(anthropic.messages.create({ ...request, model: 'other' }), NoSuchModel)
})

t.test('structured output and forced tools', async (t) => {
  const schema = personSchema
  const isPerson = (text: string | undefined, from: string) =>
    t.match(JSON.parse(text ?? ''), { name: /^(Lily|Tim)$/, age: Number }, from)
  const format = {
    type: 'json_schema' as const,
    json_schema: { name: 'person', strict: true, schema },
  }
  const chat = { model, messages, response_format: format, max_tokens: 100 }
  const answer = await openai.chat.completions.create(chat)
  isPerson(answer.choices[0]?.message.content ?? '', 'OpenAI')
  const runner = openai.chat.completions.stream(chat)
  isPerson((await runner.finalContent()) ?? '', 'OpenAI, streamed')
  isPerson((await ollama.chat({ model, messages, format: schema })).message.content, 'Ollama')
  isPerson((await ollama.generate({ model, prompt, format: schema })).response, 'Ollama, generate')
  const llama = await post('/completion', { prompt, json_schema: schema, n_predict: 100 })
  isPerson(String(llama['content']), 'llama-server')
  const asked = { model, messages, max_tokens: 100 }
  for (const wish of [
    { output_config: { format: { type: 'json_schema', schema } } },
    { output_format: { type: 'json_schema', schema } },
  ]) {
    const { content } = await post('/v1/messages', { ...asked, ...wish })
    isPerson((content as { text: string }[])[0]?.text ?? '', 'Anthropic')
  }
  const grammar = await post('/completion', { prompt, grammar: 'root ::= "yes" | "no"' })
  t.match(grammar['content'], /^(yes|no)$/)

  const tools = [{ type: 'function' as const, function: { name: 'greet', parameters: schema } }]
  const forced = { model, messages, tools, tool_choice: 'required' as const, max_tokens: 100 }
  const called = await openai.chat.completions.create(forced)
  t.equal(called.choices[0]?.finish_reason, 'tool_calls')
  const [call] = called.choices[0]?.message.tool_calls ?? []
  isPerson(call?.type === 'function' ? call.function.arguments : '', 'a tool call')
  const streamed = await openai.chat.completions.stream(forced).finalMessage()
  const [second] = streamed.tool_calls ?? []
  isPerson(second?.type === 'function' ? second.function.arguments : '', 'a streamed tool call')

  const pets = {
    type: 'object',
    properties: { pet: { $ref: '#/$defs/pet' } },
    required: ['pet'],
    additionalProperties: false,
    $defs: { pet: { enum: ['cat', 'dog'] } },
  }
  const feed = (strict: boolean) => [
    { type: 'function' as const, function: { name: 'feed', parameters: pets, strict } },
  ]
  const wanted = { pet: /^(cat|dog)$/ }
  const argumentsOf = (completion: OpenAI.ChatCompletion) => {
    const call = completion.choices[0]?.message.tool_calls?.[0]
    return call?.type === 'function' ? call.function : undefined
  }
  const named = { type: 'function' as const, function: { name: 'feed' } }
  const byName = { model, messages, tools: feed(false), tool_choice: named, max_tokens: 100 }
  const fed = argumentsOf(await openai.chat.completions.create(byName))
  t.match(JSON.parse(fed?.arguments ?? ''), wanted, 'references inside the parameters')
  const parallel = { ...forced, tools: feed(true), parallel_tool_calls: true, max_tokens: 120 }
  const made = await Promise.all(
    [1, 2, 3, 4, 5, 6].map(async (seed) => {
      const all = { ...parallel, seed, temperature: 1, stream: false as const }
      const [choice] = (await openai.chat.completions.create(all)).choices
      const calls = choice?.message.tool_calls ?? []
      // the last call of an answer that is cut off has a part of its arguments
      for (const one of choice?.finish_reason === 'length' ? calls.slice(0, -1) : calls) {
        t.match(one.type === 'function' && JSON.parse(one.function.arguments), wanted)
      }
      return calls.length
    }),
  )
  t.ok(Math.min(...made) >= 1 && Math.max(...made) > 1, `one call or several: ${made.join()}`)

  // Models of stories call nothing by themselves: the bracket is made likely.
  const { tokens } = (await post('/tokenize', { content: '{' })) as { tokens: number[] }
  const logit_bias = Object.fromEntries(tokens.map((token) => [token, 100]))
  for (const stream of [false, true]) {
    const auto = { model, messages, tools: feed(true), max_tokens: 200, logit_bias, seed: 3 }
    const completion = stream
      ? await openai.chat.completions.stream(auto).finalChatCompletion()
      : await openai.chat.completions.create(auto)
    t.equal(completion.choices[0]?.finish_reason, 'tool_calls', 'a strict tool, not forced')
    t.match(JSON.parse(argumentsOf(completion)?.arguments ?? ''), wanted)
  }

  for (const body of [
    { response_format: { type: 'json_schema', json_schema: { schema: { type: 'strange' } } } },
    { response_format: { type: 'json_schema' } },
    { grammar: 'root ::= missing' },
    { grammar: 'root ::= "a"', response_format: { type: 'json_object' } },
  ]) {
    const refused = await post('/v1/chat/completions', { messages, ...body })
    t.match(refused, { error: { type: 'invalid_request_error', message: /./ } })
  }
})

t.test('characters that are cut into tokens come whole', async (t) => {
  const text = 'a€🐶é漢👩‍🚀'
  const { tokens } = (await post('/tokenize', { content: text })) as { tokens: number[] }
  t.ok(tokens.length > Array.from(text).length, 'the model has no tokens for them')
  const chat = { model, messages, max_tokens: 60, stream: true as const }
  const forced = { ...chat, grammar: `root ::= "${text}"` }
  const pieces: string[] = []
  for await (const chunk of await openai.chat.completions.create(forced)) {
    pieces.push(chunk.choices[0]?.delta.content ?? '')
  }
  t.equal(pieces.join(''), text, 'openai')
  t.ok(pieces.length > 3, 'piece by piece')
  let streamed = ''
  const constant = { model, messages, format: { const: text }, stream: true as const }
  for await (const part of await ollama.chat(constant)) streamed += part.message.content
  t.equal(JSON.parse(streamed), text, 'ollama')
})

t.test('nothing is logged as a crash', async (t) => {
  await idle()
  t.notMatch(await stop(), /request failed|response failed|unhandled/i)
})
