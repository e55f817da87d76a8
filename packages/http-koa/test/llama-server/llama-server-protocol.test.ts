import { FakeTokenizer, scriptAnswers, testProtocol } from '@cllm/core/testing'
import { llamaServerProtocol } from '@cllm/http-koa'
import { clientKind, testEach } from '../each-client.js'
import { serve } from '../serve.js'
import { serveDirectory } from '../serve-directory.js'

type Json = Record<string, unknown>

const tokenizer = new FakeTokenizer()
const script = scriptAnswers(tokenizer, { euro: 'a€ b', other: 'XYZ' })

testEach('conformance', async (t) => {
  await testProtocol(
    t,
    serveDirectory(() => llamaServerProtocol()),
    {
      client: clientKind(),
      request: (prompt, n_predict, stream) => ({
        path: '/completion',
        body: JSON.stringify({ prompt, n_predict, stream, ignore_eos: true }),
      }),
    },
  )
})

testEach('the routes of llama-server', async (t) => {
  const server = await serve({
    protocols: [llamaServerProtocol()],
    backend: { script, contextSize: 100, slots: 2 },
  })
  t.teardown(() => server.close())
  const ask = async (path: string, body?: object) => {
    const response = await (body === undefined ? server.get(path) : server.post(path, body))
    return { status: response.status, json: (await response.json()) as Json }
  }
  const probable = await ask('/completion', { prompt: 'euro', n_probs: 2, n_predict: 1 })
  t.match(probable.json, {
    completion_probabilities: [
      { token: 'a', bytes: [97], logprob: Number, top_logprobs: [{ logprob: Number }, {}] },
    ],
  })
  const { json } = await ask('/completion', { prompt: 'euro', return_tokens: true, seed: -1 })
  t.match(json, {
    index: 0,
    content: 'a€ b',
    tokens: tokenizer.encode('a€ b', { addBos: false }),
    stop: true,
    stop_type: 'eos',
    stopping_word: '',
    prompt: 'euro',
    tokens_predicted: 4,
    tokens_evaluated: 5,
    generation_settings: {
      temperature: 0.8,
      top_k: 40,
      min_p: 0.05,
      repeat_penalty: 1,
      n_predict: -1,
    },
    timings: { prompt_n: 5, predicted_n: 4 },
  })
  t.match(
    (await ask('/completions', { prompt: tokenizer.encode('other'), stop: ['Y', ''] })).json,
    {
      content: 'X',
      prompt: 'other',
      stop_type: 'word',
      stopping_word: 'Y',
    },
  )
  t.match((await ask('/completion', { prompt: 'euro', n_predict: 1, temperature: 0 })).json, {
    content: 'a',
    stop_type: 'limit',
  })
  const [X = 0] = tokenizer.encode('X', { addBos: false })
  const biased = await ask('/completion', {
    prompt: 'free',
    n_predict: 20,
    logit_bias: [[X, false]],
  })
  t.equal(biased.status, 200)

  const response = await server.post('/completion', { prompt: 'euro', stream: true })
  const events = (await response.text()).trimEnd().split('\n\n')
  const parsed = events.map((event) => JSON.parse(event.replace('data: ', '')) as Json)
  t.equal(parsed.map(({ content }) => content).join(''), 'a€ b')
  t.match(parsed.at(-1), { stop: true, stop_type: 'eos', tokens_predicted: 4 })

  t.same((await ask('/tokenize', { content: 'euro' })).json, {
    tokens: tokenizer.encode('euro', { addBos: false }),
  })
  t.same((await ask('/tokenize', { content: 'euro', add_special: true })).json, {
    tokens: tokenizer.encode('euro'),
  })
  t.same((await ask('/detokenize', { tokens: tokenizer.encode('€') })).json, { content: '€' })
  const messages = [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }]
  t.same((await ask('/apply-template', { messages })).json, {
    prompt: '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n',
  })
  t.match((await ask('/props')).json, {
    total_slots: 2,
    default_generation_settings: { n_ctx: 100, params: { top_p: 0.95 } },
  })
  t.match((await ask('/slots')).json, [
    { id: 0, is_processing: false },
    { id: 1, is_processing: false },
  ])
  t.equal((await ask('/slots?fail_on_no_slot=1')).status, 200)
  t.same((await ask('/health')).json, { status: 'ok' })

  const cases: [path: string, body: object, message: RegExp][] = [
    ['/completion', {}, /prompt/],
    ['/completion', { prompt: ['a'] }, /prompt: expected a string or token ids/],
    ['/completion', { prompt: 'a', n_predict: 0 }, /n_predict/],
    ['/completion', { prompt: 'a', grammar: 'root ::= "a"' }, /grammar/],
    ['/completion', { prompt: 'a', json_schema: {} }, /json_schema/],
    ['/completion', { prompt: 'a', n_probs: 21 }, /n_probs/],
    ['/completion', { prompt: 'a', logit_bias: [[1, 'x']] }, /logit_bias/],
    ['/tokenize', { content: 5 }, /content: expected a string/],
    ['/detokenize', { tokens: [100_000] }, /./],
    ['/apply-template', { messages: [] }, /messages/],
  ]
  for (const [path, body, message] of cases) {
    const { status, json } = await ask(path, body)
    t.match(
      [status, json],
      [400, { error: { code: 400, type: 'invalid_request_error', message } }],
      path,
    )
  }
  const long = await ask('/completion', { prompt: 'x'.repeat(120) })
  t.match(long.json, {
    error: { type: 'exceed_context_size_error', n_ctx: 100, n_prompt_tokens: Number },
  })
})

testEach('POST /infill', async (t) => {
  const server = await serve({
    protocols: [llamaServerProtocol()],
    backend: { contextSize: 128, batchSize: 64, canInfill: true },
  })
  t.teardown(() => server.close())
  const { prefix, suffix, middle } = server.backend.tokenizer.infill!
  const marked = async (body: object) => {
    const answer = await server.post('/infill', { n_predict: 1, ...body })
    t.equal(answer.status, 200)
    const { prompt, ...rest } = (await answer.json()) as { prompt: string; stop_type: string }
    t.equal(rest.stop_type, 'limit')
    return prompt
  }
  const text = (...tokens: number[]) => tokenizer.decode(tokens)
  t.equal(
    await marked({ input_prefix: 'x = ', input_suffix: ')', prompt: 'f(' }),
    `${text(prefix)}x = f(${text(suffix)})${text(middle)}`,
  )
  t.equal(
    await marked({ input_prefix: 'P<s>', input_suffix: '', input_extra: [{ text: 'E' }] }),
    `\n\n--- snippet ---\n\nE${text(prefix)}P<s>${text(suffix)}${text(middle)}`,
    'special tokens in texts stay text',
  )
  const long = await marked({
    input_prefix: `${'~'.repeat(100)}^`,
    input_suffix: `^${'~'.repeat(100)}`,
    input_extra: [{ text: '#'.repeat(100) }],
  })
  t.equal(
    long,
    `${'#'.repeat(60)}${text(prefix)}${'~'.repeat(47)}^${text(suffix)}^${'~'.repeat(13)}${text(middle)}`,
    'what is next to the gap is kept',
  )
  const whole = { input_prefix: 'a', input_suffix: 'b' }
  const stream = await server.post('/infill', { ...whole, n_predict: 1, stream: true })
  t.match(await stream.text(), /"stop":true/)
  for (const field of ['input_prefix', 'input_suffix']) {
    const refused = await server.post('/infill', { ...whole, [field]: undefined })
    t.match([refused.status, await refused.text()], [400, new RegExp(field)])
  }

  const other = await serve({ protocols: [llamaServerProtocol()] })
  t.teardown(() => other.close())
  const unable = await other.post('/infill', whole)
  t.match(
    [unable.status, await unable.json()],
    [501, { error: { code: 501, type: 'not_supported_error', message: /^Infill is not supp/ } }],
  )
})
