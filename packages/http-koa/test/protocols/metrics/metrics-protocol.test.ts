import { readFile } from 'node:fs/promises'
import {
  type BatchItem,
  batchPriority,
  type EngineInfo,
  type EngineStatistics,
  PluginRegistry,
} from '@cllm/core'
import { overriding } from '@cllm/host'
import {
  type KoaProtocol,
  loadMetrics,
  metricsProtocol,
  metricTable,
  nativeProtocol,
  openAiProtocol,
} from '@cllm/http-koa'
import t from 'tap'
import { loadOf } from '../../../src/protocols/metrics/load-watch.js'
import { testEach } from '../../each-client.js'
import { rawPost, rawRequest, runAll, serve, type Served, until } from '../../serve.js'

type Samples = ReadonlyMap<string, number>

async function scrape(server: Served, path = '/metrics'): Promise<Samples> {
  const response = await server.get(path)
  t.equal(response.status, 200)
  t.match(response.headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
  const lines = (await response.text()).split('\n').filter((line) => /^[a-z]/.test(line))
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ')
      return [line.slice(0, at), Number(line.slice(at + 1))] as const
    }),
  )
}

/** The sum over all series of a name, those with this text in their labels. */
const total = (samples: Samples, name: string, labels = ''): number =>
  [...samples]
    .filter(([series]) => series.split('{')[0] === name && series.includes(labels))
    .reduce((sum, [, value]) => sum + value, 0)

const protocols = () => [metricsProtocol(), nativeProtocol(), openAiProtocol()]

testEach('the usage in answers adds up to the counters', async (t) => {
  const server = await serve({ protocols: protocols() })
  t.teardown(server.close)
  const usages: { prompt: number; cached: number; generated: number }[] = []
  const ask = async (prompt: string, max: number) => {
    const answer = await server.post('/generate', {
      prompt,
      max_tokens: max,
      timings: true,
      ignore_eos: true,
    })
    const { data } = (await answer.json()) as { data: Record<string, number> }
    usages.push({
      prompt: data['prompt_tokens']!,
      cached: data['cached_tokens']!,
      generated: data['generated_tokens']!,
    })
  }
  const story = 'Once upon a time there was a metric that told the truth. '
  await Promise.all([ask(story, 5), ask('Another day', 7), ask('A third one', 1)])
  await ask(`${story}And then?`, 3)
  const chat = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 4, stream: true }
  const streamed = { ...chat, ignore_eos: true, stream_options: { include_usage: true } }
  const stream = await (await server.post('/v1/chat/completions', streamed)).text()
  const usage = JSON.parse(/"usage":(\{.*?\}\})/.exec(stream)?.[1] ?? '') as {
    prompt_tokens: number
    completion_tokens: number
    prompt_tokens_details: { cached_tokens: number }
  }
  usages.push({
    prompt: usage.prompt_tokens,
    cached: usage.prompt_tokens_details.cached_tokens,
    generated: usage.completion_tokens,
  })

  const samples = await scrape(server)
  const sum = (key: 'prompt' | 'cached' | 'generated') =>
    usages.reduce((all, usage) => all + usage[key], 0)
  t.ok(sum('cached') > 0, 'a prefix was used again')
  t.equal(total(samples, 'cllm_prompt_tokens_total'), sum('prompt'))
  t.equal(total(samples, 'cllm_prompt_tokens_cached_total'), sum('cached'))
  t.equal(total(samples, 'cllm_prefix_cache_hits_total'), sum('cached'))
  t.equal(total(samples, 'cllm_generation_tokens_total'), sum('generated'))
  t.equal(total(samples, 'cllm_request_prompt_tokens_sum'), sum('prompt'))
  t.equal(total(samples, 'cllm_request_generation_tokens_sum'), sum('generated'))
  t.equal(
    total(samples, 'cllm_request_prefill_kv_computed_tokens_sum'),
    sum('prompt') - sum('cached'),
  )
  for (const name of [
    'cllm_requests_total',
    'cllm_request_success_total',
    'cllm_engine_requests_total',
    'cllm_e2e_request_latency_seconds_count',
    'cllm_time_to_first_token_seconds_count',
    'cllm_request_queue_time_seconds_count',
  ]) {
    t.equal(total(samples, name), usages.length, name)
  }
  t.equal(
    total(samples, 'cllm_inter_token_latency_seconds_count'),
    sum('generated') - usages.length,
  )
  const steps = total(samples, 'cllm_engine_steps_total')
  for (const name of [
    'cllm_step_time_seconds',
    'cllm_iteration_tokens_total',
    'cllm_step_sequences',
  ])
    t.equal(total(samples, `${name}_count`), steps, name)
  t.equal(
    total(samples, 'cllm_iteration_tokens_total_sum'),
    total(samples, 'cllm_step_tokens_total'),
  )
  t.equal(
    total(samples, 'cllm_step_tokens_total', 'prefill'),
    sum('prompt') - sum('cached'),
    'every prompt token was computed once or found',
  )
  t.same(await scrape(server), samples, 'a scrape changes nothing')
})

testEach('every metric of the table is served, described, and no other', async (t) => {
  const server = await serve({ protocols: protocols() })
  t.teardown(server.close)
  await server.post('/generate', { prompt: 'Hello', max_tokens: 2 })
  const text = await (await server.get('/metrics')).text()
  const described = [...text.matchAll(/^# HELP (cllm_\S+) /gm)].map(([, name]) => name)
  t.same(new Set(described), new Set(Object.keys(metricTable)))
  const types = new Map([...text.matchAll(/^# TYPE (\S+) (\S+)/gm)].map((m) => [m[1], m[2]]))
  for (const [name, { type }] of Object.entries(metricTable)) t.equal(types.get(name), type, name)
  const samples = await scrape(server)
  t.equal(total(samples, 'cllm_engine_up'), 1)
  t.equal(total(samples, 'cllm_scheduler_info', 'policy="run-all"'), 1)
  t.equal(total(samples, 'cllm_slots'), (await server.client.info()).limits.slots)
  const own = [...samples.keys()].filter((series) => !series.startsWith('llamacpp:'))
  t.ok(own.every((series) => series.includes('model_name="fake"')))
  const ofLlamaServer = {
    prompt_tokens_total: 6,
    tokens_predicted_total: 2,
    n_decode_total: 2,
    requests_processing: 0,
    n_busy_slots_per_decode: 1,
  }
  for (const [name, value] of Object.entries(ofLlamaServer)) {
    t.equal(samples.get(`llamacpp:${name}`), value, name)
  }
})

async function whileTimePasses<T>({ clock }: Served, work: Promise<T>): Promise<T> {
  let isDone = false
  void work.finally(() => (isDone = true)).catch(() => {})
  await until(() => {
    const next = clock.nextTimer()
    if (next !== undefined && next < clock.now() + 1000) clock.advance(next - clock.now())
    return isDone
  })
  return await work
}

testEach("prompts and answers have their own speeds under llama-server's names", async (t) => {
  const stepMs = (batch: readonly BatchItem[]) =>
    batch.some(({ tokens }) => tokens.length > 1) ? 10 : 100
  const server = await serve({ protocols: protocols(), backend: { stepMs } })
  t.teardown(server.close)
  const prompt = 'Once upon a time '.repeat(5)
  const body = { prompt, max_tokens: 11, ignore_eos: true }
  await whileTimePasses(server, server.post('/generate', body))
  const samples = await whileTimePasses(server, scrape(server))
  const speed = (name: string) => samples.get(`llamacpp:${name}_tokens_seconds`)
  t.equal(samples.get('llamacpp:prompt_seconds_total'), 0.01)
  t.equal(speed('prompt'), samples.get('llamacpp:prompt_tokens_total')! / 0.01)
  t.equal(speed('predicted'), 11)
})

testEach('time by the simulated clock, outcomes, and the policy in force', async (t) => {
  const registry = new PluginRegistry()
  const create = () => ({ ...runAll, name: 'other' })
  registry.registerPolicy({ name: 'other', doc: 'Another one.', create })
  const server = await serve({ protocols: protocols(), backend: { stepMs: () => 10 }, registry })
  t.teardown(server.close)
  const under = <T>(work: Promise<T>) => whileTimePasses(server, work)
  const body = { prompt: 'Once', max_tokens: 4, ignore_eos: true }
  await under(server.post('/generate', body))
  const first = await under(scrape(server))
  const of = (samples: Samples, name: string, labels = '') => total(samples, name, labels)
  t.equal(of(first, 'cllm_time_to_first_token_seconds_sum'), 0.01)
  t.equal(of(first, 'cllm_inter_token_latency_seconds_bucket', 'le="0.01"'), 3)
  t.equal(of(first, 'cllm_request_decode_time_seconds_sum'), 0.03)
  t.equal(of(first, 'cllm_step_time_seconds_bucket', 'le="0.01"'), 4)
  t.equal(of(first, 'cllm_step_time_seconds_bucket', 'le="0.005"'), 0)

  await server.client.setScheduler('other')
  await under(scrape(server))
  await under(server.post('/generate', body))
  t.equal((await server.post('/generate', { ...body, logit_bias: { 999999: 1 } })).status, 400)
  const gone = await rawRequest(
    server.port,
    rawPost('/generate_stream', { ...body, max_tokens: 90 }),
  )
  await under(until(() => gone.received.includes('"token"')))
  gone.socket.destroy()
  await under(until(async () => (await server.client.statistics()).requests.cancelled === 1))
  const after = await under(scrape(server))
  t.equal(of(after, 'cllm_request_success_total', 'finished_reason="length"'), 2)
  t.equal(of(after, 'cllm_e2e_request_latency_seconds_count', 'policy="run-all"'), 1)
  t.equal(of(after, 'cllm_e2e_request_latency_seconds_count', 'policy="other"'), 1)
  t.equal(of(after, 'cllm_requests_total', 'outcome="refused",code="invalid_token"'), 1)
  t.equal(of(after, 'cllm_requests_total', 'outcome="cancelled"'), 1)
  t.equal(of(after, 'cllm_engine_requests_total', 'outcome="cancelled"'), 1)
})

testEach('steps of batches that were left for a client are counted', async (t) => {
  const server = await serve({ protocols: protocols(), backend: { slots: 2, stepMs: () => 100 } })
  t.teardown(server.close)
  const batch = server.post('/generate', { prompt: 'A', max_tokens: 2, priority: batchPriority })
  await until(() => server.backend.isStepping)
  const asked = server.post('/generate', { prompt: 'B', max_tokens: 2 })
  await until(() => server.backend.interrupts === 1)
  await whileTimePasses(server, Promise.all([batch, asked]))
  const samples = await whileTimePasses(server, scrape(server))
  t.equal(total(samples, 'cllm_engine_steps_interrupted_total'), 1)
})

testEach('an engine that does not answer is down, and the scrape is not', async (t) => {
  const server = await serve({ protocols: protocols() })
  t.teardown(server.close)
  t.equal(total(await scrape(server), 'cllm_engine_up'), 1)
  server.client.statistics = () => new Promise(() => {})
  const answer = scrape(server)
  await until(() => {
    const next = server.clock.nextTimer()
    if (next !== undefined) server.clock.advance(next - server.clock.now())
    return next !== undefined
  })
  const samples = await answer
  t.equal(total(samples, 'cllm_engine_up'), 0)
  t.notOk(
    [...samples.keys()].some((series) => series.startsWith('cllm_slots')),
    'nothing stale',
  )
})

t.test('slots of a pool that share a prefix take its cells once', (t) => {
  const slots = [0, 1, 2].map((slot) => ({ slot, request: 'a', state: 'decoding', tokens: 40 }))
  const of = (kvPool: object) => {
    const statistics = { running: 3, waiting: 0, slots, ...kvPool } as unknown as EngineStatistics
    const { figures } = loadOf({ limits: { contextSize: 100 } } as EngineInfo, statistics)
    return figures.cllm_kv_cache_usage_perc
  }
  t.equal(of({ kvPool: { tokens: 100, free: 70 } }), 0.3)
  t.equal(of({}), 0.4)
  t.end()
})

testEach('the load is told without anything else of the server', async (t) => {
  const server = await serve({
    protocols: protocols(),
    backend: { slots: 2, contextSize: 64, stepMs: () => 10 },
  })
  t.teardown(server.close)
  const idle = await scrape(server, '/metrics/load')
  const series = (values: Readonly<Record<string, number>>) =>
    Object.entries(values).map(([name, value]) => [`${name}{model_name="fake"}`, value] as const)
  const config = [
    'cllm_cache_config_info{model_name="fake",block_size="16",num_gpu_blocks="8"}',
    1,
  ] as const
  t.same(
    idle,
    new Map([
      ...series({
        cllm_num_requests_waiting: 0,
        cllm_num_requests_running: 0,
        cllm_kv_cache_usage_perc: 0,
        cllm_predicted_wait_seconds: 0,
      }),
      config,
    ]),
  )
  const bodies = ['a', 'b', 'c'].map((prompt) => ({ prompt, max_tokens: 9, ignore_eos: true }))
  const answers = bodies.map(async (body) => await server.post('/generate', body))
  await until(async () => (await server.client.statistics()).waiting === 1)
  t.same(await scrape(server, '/metrics/load'), idle, 'what was said is good for 20 ms')
  server.clock.advance(20)
  const busy = await scrape(server, '/metrics/load')
  t.same([...busy.keys()], [...idle.keys()])
  t.equal(total(busy, 'cllm_num_requests_waiting'), 1)
  t.equal(total(busy, 'cllm_num_requests_running'), 2)
  t.ok(total(busy, 'cllm_predicted_wait_seconds') > 0)
  t.ok(total(busy, 'cllm_kv_cache_usage_perc') > 0)
  const all = await scrape(server)
  for (const name of loadMetrics)
    t.ok(all.has([...busy.keys()].find((one) => one.startsWith(name))!))
  let isDone = false
  void Promise.all(answers).finally(() => (isDone = true))
  await until(() => {
    const next = server.clock.nextTimer()
    if (next !== undefined && next < server.clock.now() + 1000) {
      server.clock.advance(next - server.clock.now())
    }
    return isDone
  })
})

testEach('the load of an engine that has told nothing yet is waited for a little', async (t) => {
  const server = await serve({ protocols: protocols() })
  t.teardown(server.close)
  const { clock, client } = server
  const answer = client.statistics.bind(client)
  let goOn = () => {}
  const late = new Promise<void>((resolve) => (goOn = resolve))
  client.statistics = async () => {
    await late
    return await answer()
  }
  const first = scrape(server, '/metrics/load')
  await until(() => clock.nextTimer() === clock.now() + 500)
  const other = scrape(server, '/metrics/load')
  clock.advance(499)
  goOn()
  t.equal((await first).size, 5)
  t.equal((await other).size, 5, 'nor does another one have nothing')

  const silent = await serve({ protocols: protocols() })
  t.teardown(silent.close)
  silent.client.statistics = async () => await new Promise(() => {})
  const nothing = scrape(silent, '/metrics/load')
  await until(() => silent.clock.nextTimer() === silent.clock.now() + 500)
  silent.clock.advance(500)
  t.equal((await nothing).size, 0)
  t.equal((await scrape(silent, '/metrics/load')).size, 0, 'once')
})

testEach('an engine that does not answer keeps the load that it had', async (t) => {
  const server = await serve({ protocols: protocols() })
  t.teardown(server.close)
  const { clock, client } = server
  const known = await scrape(server, '/metrics/load')
  const answer = client.statistics.bind(client)
  let asked = 0
  client.statistics = async () => await new Promise(() => void asked++)
  clock.advance(20)
  const first = scrape(server, '/metrics/load')
  await until(() => {
    if (asked > 0) clock.advance(50)
    return asked > 0
  })
  t.same(await first, known)
  t.same(await scrape(server, '/metrics/load'), known, 'no clock has to move for the next one')
  t.equal(asked, 1, 'nor is it asked again')
  client.statistics = answer
  clock.advance(2000)
  await until(async () => (await scrape(server, '/metrics/load')).size === 5)
  client.statistics = async () => await Promise.reject(new Error('gone'))
  clock.advance(20)
  t.same(await scrape(server, '/metrics/load'), known)
})

const deployed = async (path: string): Promise<string> =>
  await readFile(new URL(`../../../../../deploy/${path}`, import.meta.url), 'utf8')

testEach('the dashboard and the alerts ask for metrics that there are', async (t) => {
  const text = await deployed('grafana/cllm.json')
  const { panels } = JSON.parse(text) as { panels: { targets: { expr: string }[] }[] }
  const alerts = new Set((await deployed('prometheus/cllm.rules.yml')).match(/\bcllm_\w+/g))
  t.ok(alerts.size >= 6)
  const names = new Set([...(text.match(/\bcllm_\w+/g) ?? []), ...alerts])
  t.ok(names.size > 15)
  for (const name of names) {
    const { type } = metricTable[name] ?? {}
    const base = name.replace(/_(bucket|sum|count)$/, '')
    t.ok(
      (type !== undefined && type !== 'histogram') || metricTable[base]?.type === 'histogram',
      name,
    )
  }
  const [, codes] = /code=~"(.*)"}/.exec(await deployed('prometheus/cllm.rules.yml'))!
  for (const code of ['queue_full', 'cluster_unavailable', 'engine_crashed', 'storage_failed']) {
    t.match(code, new RegExp(`^(${codes})$`), 'it is not served')
  }
  for (const { expr } of panels.flatMap(({ targets }) => targets)) {
    const count = (bracket: string) => expr.split(bracket).length
    t.equal(count('('), count(')'), expr)
  }
})

testEach(
  "llama-server's counters fall neither while a model is unloaded nor when it is mute",
  async (t) => {
    let state: 'loaded' | 'unloading' = 'loaded'
    let isMute = false
    const metrics = metricsProtocol()
    const changing: KoaProtocol = {
      ...metrics,
      around: (directory) =>
        overriding(directory, {
          status: (id) => ({ ...directory.status(id), state }),
          open(id, options) {
            const client = directory.open(id, options)
            const fails = async () => await Promise.reject(new Error('mute'))
            return isMute ? overriding(client, { statistics: fails }) : client
          },
        }),
    }
    const server = await serve({ protocols: [changing, nativeProtocol()] })
    t.teardown(server.close)
    await server.post('/generate', { prompt: 'Hello', max_tokens: 2 })
    const counted = async () =>
      [...(await scrape(server))].filter(([series]) =>
        /^llamacpp:(?!n_tokens_max).*_total$/.test(series),
      )
    const before = await counted()
    t.ok(before.some(([, value]) => value > 0))
    isMute = true
    t.same(await counted(), before)
    state = 'unloading'
    t.same(await counted(), before)
  },
)

testEach('embeddings are counted', async (t) => {
  const server = await serve({
    protocols: protocols(),
    backend: { embeddingSize: 3, contextSize: 16 },
  })
  t.teardown(server.close)
  const embed = (input: unknown) => server.post('/v1/embeddings', { input })
  const made = (await (await embed(['euro', 'other'])).json()) as {
    usage: { prompt_tokens: number }
  }
  t.equal((await embed('a long text that has more tokens than a slot holds')).status, 400)
  const samples = await scrape(server)
  const { prompt_tokens: tokens } = made.usage
  t.ok(tokens > 0)
  t.equal(total(samples, 'cllm_embedding_inputs_total', 'outcome="done"'), 2)
  t.equal(total(samples, 'cllm_embedding_inputs_total', 'outcome="failed"'), 1)
  t.equal(total(samples, 'cllm_embedding_tokens_total'), tokens)
  t.equal(total(samples, 'cllm_embedding_latency_seconds_count'), 2)
  t.equal(total(samples, 'llamacpp:prompt_tokens_total'), tokens, 'as llama-server counts them')
  t.equal(total(samples, 'llamacpp:n_decode_total'), 2)
})
