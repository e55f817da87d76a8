import { FakeTokenizer, scriptAnswers, testProtocol } from '@cllm/testing'
import {
  llamaServerProtocol,
  metricsProtocol,
  modelsProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import { clientKind, testEach } from '../../each-client.js'
import { eventsOf, serve, until } from '../../serve.js'
import { serveDirectory } from '../../serve-directory.js'

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
  const drawing = { n_probs: 2, n_predict: 1, post_sampling_probs: true, cache_prompt: false }
  const body = { prompt: 'euro', ...drawing }
  const [drawn] = (await ask('/completion', body)).json['completion_probabilities'] as Json[]
  t.match(drawn, { token: 'a', bytes: [97], prob: Number, top_probs: [{ prob: Number }, {}] })
  t.notOk('logprob' in drawn!)
  const drawnEvents = await (await server.post('/completion', { ...body, stream: true })).text()
  t.match(drawnEvents, /"prob":0?[.\de-]+,"top_probs":\[/)
  const { json } = await ask('/completion', { prompt: 'euro', return_tokens: true, seed: -1 })
  t.match(json, {
    index: 0,
    content: 'a€ b',
    tokens: tokenizer.encode('a€ b', { addBos: false }),
    stop: true,
    stop_type: 'eos',
    stopping_word: '',
    prompt: '<s>euro',
    id_slot: -1,
    tokens_predicted: 4,
    tokens_evaluated: 5,
    tokens_cached: 8,
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
      prompt: '<s>other',
      stop_type: 'word',
      stopping_word: 'Y',
    },
  )
  t.match((await ask('/completion', { prompt: 'euro', n_predict: 1, temperature: 0 })).json, {
    content: 'a',
    stop_type: 'limit',
  })
  t.match((await ask('/completion', { prompt: '', n_predict: 1 })).json, {
    prompt: '<s>',
    tokens_evaluated: 1,
    stop_type: 'limit',
  })
  const aliases = { max_completion_tokens: 1, max_tokens: 2, logprobs: 2, samplers: ['tfs_z'] }
  t.match((await ask('/completion', { prompt: 'euro', ...aliases })).json, {
    stop_type: 'limit',
    generation_settings: { n_predict: 1, n_probs: 2 },
    completion_probabilities: [{ top_logprobs: [{}, {}] }],
  })
  const warm = { prompt: 'a prompt that is to be computed', n_predict: 0, temperature: 0 }
  t.match((await ask('/completion', { ...warm, stop: '' })).json, { stop_type: 'limit' })
  t.match((await ask('/completion', { ...warm, stop: ['X'] })).json, {
    content: '',
    tokens: [],
    tokens_predicted: 0,
    tokens_cached: 29,
    stop_type: 'limit',
    truncated: false,
    generation_settings: { n_predict: 0 },
    timings: { predicted_n: 0, predicted_per_second: 0 },
  })
  const warmed = await ask('/completion', { ...warm, n_predict: 1 })
  t.ok((warmed.json as { timings: { cache_n: number } }).timings.cache_n > 9, 'it was computed')
  const silent = await server.post('/completion', { ...warm, stream: true, return_progress: true })
  const quiet = eventsOf(await silent.text())
  t.match(quiet.at(-1), { content: '', stop: true, tokens_predicted: 0 })
  t.notOk(quiet.slice(0, -1).some((event) => event['tokens_predicted'] === 1))
  const first = { prompt: ' euro', id_slot: 1, logprobs: true }
  t.match((await ask('/completion', first)).json, {
    prompt: '<s> euro',
    id_slot: 1,
    completion_probabilities: [{ top_logprobs: [{}] }],
  })
  const nothing = (await ask('/completion', { prompt: '', n_predict: 3 })).json
  t.match(nothing, { tokens_evaluated: 1, tokens_predicted: 3 }, 'behind the beginning of a text')
  const [X = 0] = tokenizer.encode('X', { addBos: false })
  const biased = await ask('/completion', {
    prompt: 'free',
    n_predict: 20,
    logit_bias: [[X, false]],
  })
  t.equal(biased.status, 200)
  const byText = await ask('/completion', {
    prompt: 'free',
    n_predict: 9,
    logit_bias: [
      ['XY', -100],
      ['7', -1],
    ],
    samplers: ['top_k', 'temperature'],
    top_p: 0.5,
  })
  const [seven] = tokenizer.encode('7', { addBos: false })
  const pairs = tokenizer.encode('XY', { addBos: false }).map((token) => ({ token, bias: -100 }))
  pairs.unshift({ token: seven!, bias: -1 })
  t.match(byText.json, {
    generation_settings: { logit_bias: pairs, top_p: 1, adaptive_target: -1 },
    truncated: false,
  })
  t.ok(Object.keys(byText.json['generation_settings'] as Json).length > 47)
  t.match((await ask('/completion', { prompt: 'free', ignore_eos: true })).json, {
    truncated: true,
    stop_type: 'limit',
  })
  const many = ['euro', tokenizer.encode('other'), { prompt_string: 'euro' }]
  const answers = (await ask('/completion', { prompt: many })).json as unknown as Json[]
  t.match(
    answers.map(({ index, content }) => [index, content]),
    [
      [0, 'a€ b'],
      [1, 'XYZ'],
      [2, 'a€ b'],
    ],
  )
  const mixed = await ask('/completion', { prompt: [...tokenizer.encode('eu'), 'ro'], n: 2 })
  t.match(mixed.json, [{ content: 'a€ b' }, { index: 1 }])
  t.same(
    (
      await ask('/completion', {
        prompt: 'euro',
        n_predict: 2,
        response_fields: ['content', 'generation_settings/n_predict', 'nothing'],
      })
    ).json,
    { content: 'a', 'generation_settings/n_predict': 2 },
  )

  const response = await server.post('/completion', { prompt: 'euro', stream: true })
  const parsed = eventsOf(await response.text())
  t.equal(parsed.map(({ content }) => content).join(''), 'a€ b')
  t.match(parsed.at(-1), { stop: true, stop_type: 'eos', tokens_predicted: 4 })
  t.same(
    parsed.slice(0, -1).flatMap(({ tokens }) => tokens),
    tokenizer.encode('a€ b', { addBos: false }),
    'streams always have the tokens',
  )

  t.same((await ask('/tokenize', { content: 'euro' })).json, {
    tokens: tokenizer.encode('euro', { addBos: false }),
  })
  t.same((await ask('/tokenize', { content: 'euro', add_special: true })).json, {
    tokens: tokenizer.encode('euro'),
  })
  t.same((await ask('/tokenize', { content: 'a€', with_pieces: true })).json, {
    tokens: tokenizer
      .encode('a€', { addBos: false })
      .map((id, index) => ({ id, piece: ['a', [226, 130], [172]][index] })),
  })
  t.same((await ask('/detokenize', { tokens: tokenizer.encode('€</s>') })).json, {
    content: '<s>€</s>',
    prompt: '<s>€</s>',
  })
  t.match((await ask('/tokenize', { content: 'a</s>', with_pieces: true })).json, {
    tokens: [{ piece: 'a' }, { piece: '</s>' }],
  })
  const forVllm = { max_model_len: 100, token_strs: null }
  const tokens = tokenizer.encode('euro')
  t.same((await ask('/tokenize', { prompt: 'euro' })).json, {
    ...forVllm,
    count: tokens.length,
    tokens,
  })
  const bare = { prompt: 'eu', add_special_tokens: false, return_token_strs: true }
  t.match((await ask('/tokenize', bare)).json, { count: 2, token_strs: ['e', 'u'] })
  const hi = [{ role: 'user', content: 'Hi' }]
  const templated = (await ask('/tokenize', { messages: hi })).json
  t.equal(tokenizer.decode(templated['tokens'] as number[]), 'user\nHi\nassistant\n')
  const messages = [{ role: 'user', content: [{ type: 'text', text: 'Hi' }] }]
  t.same((await ask('/apply-template', { messages })).json, {
    prompt: '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n',
  })
  const answer = { role: 'assistant', content: 'Well' }
  t.same((await ask('/apply-template', { messages: [...messages, answer] })).json, {
    prompt: '<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nWell',
  })
  const tool = { type: 'function', function: { name: 'weather' } }
  t.match((await ask('/apply-template', { messages, tools: [tool] })).json, { prompt: /weather/ })
  const blanks = Array.from({ length: 5000 }, () => ({ role: 'user', content: '' }))
  t.match((await ask('/apply-template', { messages: blanks })).json, {
    error: { message: /at least 5000 tokens/ },
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
  const hidden = await serve({
    protocols: [llamaServerProtocol({ slots: false }), metricsProtocol({ show: false })],
  })
  t.teardown(() => hidden.close())
  for (const path of ['/slots', '/metrics']) {
    const response = await hidden.get(path)
    t.equal(response.status, 501, path)
    t.match(await response.text(), /does not show its/)
  }
  t.same((await ask('/v1/health')).json, { status: 'ok' })

  const cases: [path: string, body: object, message: RegExp][] = [
    ['/completion', {}, /prompt/],
    ['/completion', { prompt: [] }, /prompt: expected a string, token ids/],
    ['/completion', { prompt: [['a', 'b']] }, /prompt: expected/],
    ['/completion', { prompt: { prompt_string: 'a', multimodal_data: [] } }, /image input is not/],
    ['/completion', { prompt: 'a', samplers: ['top_p', 'top_k'] }, /samplers: they run in/],
    ['/completion', { prompt: 'a', samplers: ['best'] }, /samplers: expected/],
    ['/completion', { prompt: 'a', id_slot: 2 }, /^id_slot: expected an integer/],
    ['/completion', { prompt: [100_000] }, /^prompt: expected token ids/],
    ['/embedding', {}, /input/],
    ['/completion', { prompt: 'a', n_predict: -2 }, /n_predict/],
    ['/completion', { prompt: 'a', grammar: 'root ::= "a"' }, /grammar/],
    ['/completion', { prompt: 'a', json_schema: {} }, /json_schema/],
    ['/completion', { prompt: 'a', n_probs: 21 }, /n_probs/],
    ['/completion', { prompt: 'a', logit_bias: [[1, 'x']] }, /logit_bias/],
    ['/tokenize', { content: 5 }, /content: expected a string/],
    ['/tokenize', {}, /Missing required field: content/],
    ['/detokenize', { tokens: [100_000] }, /./],
    ['/detokenize', { tokens: [{ toString: null }] }, /instead got \{"toString":null\}/],
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

testEach('progress of a prompt', async (t) => {
  const server = await serve({
    protocols: [llamaServerProtocol(), openAiProtocol()],
    backend: { script, contextSize: 200, batchSize: 32 },
  })
  t.teardown(() => server.close())
  const prompt = `${'a b c d e '.repeat(10)}euro`
  const count = tokenizer.encode(prompt).length
  const stream = async (path: string, body: object, return_progress = true) => {
    const more = { stream: true, return_progress, timings_per_token: true }
    const response = await server.post(path, { ...body, ...more })
    const lines = (await response.text()).split('\n').filter((line) => line.startsWith('data: {'))
    return lines.map((line) => JSON.parse(line.slice('data: '.length)) as Json)
  }
  type Progress = { total: number; cache: number; processed: number }
  const progressOf = (events: readonly Json[]) =>
    events.flatMap((event) => (event['prompt_progress'] ?? []) as Progress)
  const first = progressOf(await stream('/completion', { prompt, n_predict: 2 }))
  t.same(
    first.map(({ processed }) => processed),
    [
      0,
      ...Array.from({ length: Math.ceil(count / 32) }, (_, nth) => Math.min(count, 32 * (nth + 1))),
    ],
  )
  t.ok(first.every(({ total, cache }) => total === count && cache === 0))
  const events = await stream('/completion', { prompt, n_predict: 2 })
  const again = progressOf(events)
  t.ok(again[0]!.cache > 0)
  const told = events.map(({ timings }) => (timings as { cache_n: number }).cache_n)
  t.same([...new Set(told)], [again[0]!.cache], 'with each token as at the end')
  t.equal(again[0]!.processed, again[0]!.cache)
  t.equal(again.at(-1)!.processed, count)
  const messages = [{ role: 'user', content: prompt }]
  for (const [path, body] of [
    ['/v1/chat/completions', { messages, max_tokens: 2 }],
    ['/v1/responses', { input: prompt, max_output_tokens: 2 }],
    ['/v1/completions', { prompt: `x${prompt}`, max_tokens: 2 }],
  ] as const) {
    const events = await stream(path, body)
    const progress = progressOf(events)
    t.ok(progress.length > 1, path)
    t.equal(progress.at(-1)!.processed, progress.at(-1)!.total, path)
    const silent = await stream(path, body, false)
    t.same(progressOf(silent), [], path)
    const timed = silent.flatMap(({ timings }) => (timings as { cache_n: number }) ?? [])
    t.ok(timed.length > 1, path)
    t.ok(
      timed.every(({ cache_n }) => cache_n > 0),
      `${path}: with each token as at the end`,
    )
  }
  t.same(server.backend.violations, [])
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
  const begin = `<s>${text(prefix)}`
  t.equal(
    await marked({ input_prefix: 'x = ', input_suffix: ')', prompt: 'f(' }),
    `${begin}x = f(${text(suffix)})${text(middle)}`,
  )
  t.equal(
    await marked({ input_prefix: 'P<s>', input_suffix: '', input_extra: [{ text: 'E' }] }),
    `\n\n--- snippet ---\n\nE${begin}P<s>${text(suffix)}${text(middle)}`,
    'special tokens in texts stay text',
  )
  const long = await marked({
    input_prefix: `${'~'.repeat(100)}^`,
    input_suffix: `^${'~'.repeat(100)}`,
    input_extra: [{ text: '#'.repeat(100) }],
  })
  t.equal(
    long,
    `${'#'.repeat(60)}${begin}${'~'.repeat(47)}^${text(suffix)}^${'~'.repeat(13)}${text(middle)}`,
    'what is next to the gap is kept',
  )
  t.equal(
    await marked({ n_predict: 128, input_prefix: `${'~'.repeat(100)}^`, input_suffix: '^' }),
    `${begin}${'~'.repeat(44)}^${text(suffix)}^${text(middle)}`,
    'also where the answer may be as long as the context',
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

testEach('adapters, full slots, the window of penalties', async (t) => {
  const server = await serve({
    protocols: [llamaServerProtocol(), modelsProtocol()],
    backend: { adapters: true, contextShift: true, contextSize: 32, slots: 1 },
    engine: { sampling: { temperature: 0.25 } },
  })
  t.teardown(() => server.close())
  const ask = async (path: string, body?: unknown) => {
    const init = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const response = await server.get(path, init)
    const text = await response.text()
    return {
      status: response.status,
      text,
      json: JSON.parse(/^[[{]/.test(text) ? text : '{}') as Json,
    }
  }
  const say = async (more: object) => {
    const body = { prompt: 'a', n_predict: 8, ignore_eos: true, temperature: 0, ...more }
    const { json, status, text } = await ask('/completion', body)
    t.equal(status, 200, text)
    return json as Json & { content: string; generation_settings: Json }
  }
  t.match(await ask('/v1/load_lora_adapter', { lora_name: 'x', lora_path: 'x.gguf' }), {
    status: 200,
    text: "Success: LoRA adapter 'x' added successfully.",
  })
  const [base, adapted] = [await say({}), await say({ model: 'fake:x' })]
  t.not(adapted.content, base.content)
  t.equal((await say({ lora: [{ id: 0, scale: 1 }] })).content, adapted.content)
  t.match(await say({ lora: 'x' }), {
    content: adapted.content,
    generation_settings: { lora: [{ name: 'x', scale: null }] },
  })
  t.equal((await say({ lora: [{ id: 0, scale: 0 }] })).content, base.content)
  t.match((await ask('/completion', { prompt: 'a', lora: 'y' })).text, /"lora: expected x \(0\)/)
  t.equal((await ask('/lora-adapters', [{ id: 0, scale: 2 }])).status, 200)
  t.match((await ask('/lora-adapters')).json, [{ id: 0, name: 'x', path: 'x.gguf', scale: 2 }])
  t.not((await say({})).content, base.content)
  t.equal((await ask('/lora-adapters', [])).status, 200)
  t.equal((await say({})).content, base.content)
  t.match(await ask('/lora-adapters', [{ id: 5, scale: 1 }]), { status: 404 })
  t.match(await ask('/lora-adapters', [{ scale: 1 }]), { status: 400, text: /id or name/ })
  const inplace = { lora_name: 'x', lora_path: 'y.gguf', load_inplace: true }
  t.equal((await ask('/v1/load_lora_adapter', inplace)).status, 200)
  t.not((await say({ lora: 'x' })).content, adapted.content)
  t.equal((await ask('/v1/unload_lora_adapter', { lora_name: 'x' })).status, 200)
  t.match(await ask('/v1/unload_lora_adapter', { lora_name: 'x' }), { status: 404 })

  t.match(await say({ n_predict: 60 }), { tokens_predicted: 31, truncated: true })
  t.match(await say({ n_predict: 60, context_shift: true, n_keep: 3 }), {
    tokens_predicted: 60,
    truncated: true,
    generation_settings: { n_keep: 3 },
  })
  t.match(await say({ context_shift: false }), { truncated: false })
  const repeated = { repeat_penalty: 90, n_predict: 20 }
  t.equal(
    (await say({ ...repeated, repeat_last_n: 0 })).content,
    (await say({ n_predict: 20 })).content,
  )
  t.match(await say({ ...repeated, repeat_last_n: -1 }), {
    generation_settings: { repeat_last_n: -1 },
  })
  const refused = await ask('/completion', { prompt: 'a', min_keep: 2 })
  t.match(refused, { status: 400, text: /min_keep: this backend/ })
  t.match((await ask('/props')).json, {
    default_generation_settings: { params: { temperature: 0.25, repeat_last_n: 64, min_keep: 0 } },
  })
})

testEach('an engine that hangs is told within seconds', async (t) => {
  const server = await serve({ protocols: [llamaServerProtocol()] })
  t.teardown(() => server.close())
  const { client, clock } = server
  client.statistics = async () => await new Promise(() => {})
  const before = clock.nextTimer()
  const hanging = server.get('/v1/health')
  await until(() => clock.nextTimer() !== before)
  clock.advance(5000)
  t.equal((await hanging).status, 503)
})
