import {
  type LoadClock,
  type LoadOptions,
  type Target,
  agentFor,
  apis,
  arrivals,
  e2eOf,
  fitCosts,
  gapsOf,
  generatedTokens,
  parseLengths,
  planSteps,
  randomSource,
  reachTarget,
  runLoad,
  summarize,
  syntheticDataset,
  ttftOf,
  warningsOf,
  watchSteps,
} from '@cllm/bench'
import { type Script, scriptedServer } from './scripted-server.js'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { type EngineStatistics, SimulatedClock } from '@cllm/core'
import { type PassCosts, passMachine } from '@cllm/simulation'
import OpenAI from 'openai'
import { mean, median } from 'simple-statistics'
import t, { type Test } from 'tap'

const targetOf = (url: string, api = 'cllm'): Target => ({
  name: 'test',
  url: new URL(url),
  api: apis.get(api)!,
  headers: {},
  extraBody: {},
  agent: agentFor(new URL(url), 'reuse'),
})

const loadOf = (more: Partial<LoadOptions> = {}): LoadOptions => ({
  shape: { kind: 'closed', concurrency: 2, rampMs: 0 },
  dataset: syntheticDataset({
    inputLengths: parseLengths('16'),
    outputLengths: parseLengths('6'),
    seed: 1,
  }),
  requests: 6,
  seed: 1,
  temperature: 0.7,
  ignoreEos: true,
  timeoutMs: 10_000,
  ...more,
})

const run = (signal = new AbortController().signal, salt = '') => ({ salt, firstItem: 0, signal })

const measure = async (t: Test, script: Script, more: Partial<LoadOptions> = {}, api?: string) => {
  const server = await scriptedServer(script)
  t.teardown(server.close)
  const target = targetOf(server.url, api)
  const result = await runLoad(target, loadOf(more), run())
  return { ...result, server, summary: summarize(result.records) }
}

t.test('every API: texts, counts and usage', async (t) => {
  for (const api of apis.keys()) {
    const server = await scriptedServer()
    t.teardown(server.close)
    const load = loadOf()
    const target = await reachTarget(targetOf(server.url, api), load, run().signal)
    const { records } = await runLoad(target, load, run())
    t.same(
      records.map(({ outcome, arrivedTokens }) => [outcome, arrivedTokens]),
      Array.from({ length: 6 }, () => ['ok', 6]),
      api,
    )
    t.ok(
      records.every((record) => generatedTokens(record) === 6 && record.arrivalsMs.length === 6),
      api,
    )
    const summary = summarize(records)
    t.match(summary.requests, { total: 6, ok: 6, failed: 0 }, api)
    t.equal(records[0]!.usage?.promptTokens, 16, api)
    if (api !== 'ollama') t.equal(summary.cachedTokens, 6, api)
    // How late this process sends is the machine's business.
    t.same(
      warningsOf(records, summary, 0).filter((warning) => !warning.includes('sent late')),
      [],
      api,
    )
    const [probe, ...sent] = server.received
    t.equal(probe!.path, target.api.path)
    t.equal(new Set(sent.map(({ prompt }) => prompt)).size, 6, 'no two prompts are the same')
    t.equal(sent[0]!.prompt.split(' ').length, 16)
    if (api.startsWith('openai')) t.match(sent[0]!.body, { model: 'tiny', ignore_eos: true })
    if (api === 'ollama') t.match(sent[0]!.body, { model: 'tiny:1', raw: true })
    const named = { ...targetOf(server.url, api), model: 'other' }
    await reachTarget(named, load, run().signal)
    t.match(server.received.at(-1)!.body, { model: 'other' }, `${api}: the model that is asked for`)
  }
})

t.test('a dataset that is too short begins anew, with other prompts', async (t) => {
  const items = ['One.', 'Two.'].map((prompt) => ({ prompt, inputTokens: 1, outputTokens: 2 }))
  const item = (index: number) => items[index % 2]!
  const dataset = { name: 'text', timed: false, size: 2, item }
  const { server, records, laps, summary } = await measure(t, {}, { dataset })
  const prompts = server.received.map(({ prompt }) => prompt)
  t.equal(new Set(prompts).size, 6)
  t.equal(prompts.filter((prompt) => prompt.endsWith('Two.')).length, 3)
  t.match(warningsOf(records, summary, 0, laps).at(-1), /began anew 2 times/)
})

t.test('reasoning is text, also beside an empty content', (t) => {
  for (const delta of [{ content: '', reasoning: 'a' }, { reasoning_content: 'a' }]) {
    t.match(apis.get('openai-chat')!.read({ choices: [{ delta }] }), { text: 'a', tokens: 1 })
  }
  const role = { choices: [{ delta: { role: 'assistant', content: '' } }] }
  t.same(apis.get('openai-chat')!.read(role), {})
  t.end()
})

t.test('a hint of when the next request comes is sent', async (t) => {
  const item = { prompt: 'Begin.', inputTokens: 1, outputTokens: 2 }
  const shape = { kind: 'closed', concurrency: 1, rampMs: 0 } as const
  for (const retainMs of [undefined, 0, 10_000]) {
    const hinted = retainMs === undefined ? item : { ...item, retainMs }
    const dataset = { name: 'hints', timed: false, size: 1, item: () => hinted }
    const { server } = await measure(t, {}, { dataset, shape, requests: 1 })
    const hint = retainMs === undefined ? undefined : { retain_s: retainMs / 1000 }
    t.same(server.received[0]!.body.cllm, hint)
  }
})

t.test('a conversation goes on with the answers that came', async (t) => {
  const next = { prompt: 'And then?', inputTokens: 2, outputTokens: 3 }
  const item = { prompt: 'Begin.', inputTokens: 1, outputTokens: 2, next }
  const dataset = { name: 'talk', timed: false, size: 1, item: () => item }
  const shape = { kind: 'closed', concurrency: 1, rampMs: 0 } as const
  for (const api of ['cllm', 'openai-chat']) {
    const { server, records } = await measure(t, {}, { dataset, shape, requests: 3 }, api)
    t.match(records, [{ index: 0 }, { index: 1, asked: { outputTokens: 3 } }, { index: 2 }])
    const bodies = server.received.map(({ body }) => body)
    t.match(
      bodies.map(({ max_tokens: tokens }) => tokens),
      [2, 3, 2],
    )
    if (api === 'cllm') {
      t.equal(bodies[0]!.prompt, 'Begin.')
      t.match(bodies[1]!.prompt, /^Begin\.[^\n]+\nAnd then\?$/)
    } else {
      const said = [{ content: 'Begin.' }, { role: 'assistant', content: /./ }]
      t.match(bodies[1]!.messages, [...said, { role: 'user', content: 'And then?' }])
    }
  }
  const { server } = await measure(t, { breakAfter: 1 }, { dataset, shape, requests: 2 })
  t.same(
    server.received.map(({ prompt }) => prompt.slice(-6)),
    ['Begin.', 'Begin.'],
    'nothing follows an answer that broke off',
  )
})

t.test('a program offers tools, and brings the results of what it calls', async (t) => {
  const last = { prompt: 'All is well.', inputTokens: 3, outputTokens: 4 }
  const next = { ...last, calls: 'Read', next: last }
  const item = { ...next, prompt: 'Begin.', calls: 'Bash', next }
  const dataset = { name: 'agents', timed: false, tools: ['Bash', 'Read'], item: () => item }
  const shape = { kind: 'closed', concurrency: 1, rampMs: 0 } as const
  const load = { dataset, shape, requests: 3 }
  const { server, records } = await measure(t, { asCalls: true }, load, 'openai-chat')
  const call = { outcome: 'ok', arrivedTokens: 4, arrivalsMs: { length: 4 } }
  t.match(records, [call, call, call], 'pieces of calls are tokens')
  t.same(
    records.map(({ goesOn }) => goesOn),
    [true, true, false],
  )
  const tools = dataset.tools.map((name) => ({ type: 'function', function: { name } }))
  for (const { body } of server.received) t.match(body, { tools })
  const called = (id: string, name: string) => [
    { role: 'assistant', content: '', tool_calls: [{ id, function: { name, arguments: '{}' } }] },
    { role: 'tool', tool_call_id: id, content: 'All is well.' },
  ]
  const begin = { role: 'user', content: 'Begin.' }
  t.match(server.received[2]!.body['messages'], [
    begin,
    ...called('call_0', 'Bash'),
    ...called('call_1', 'Read'),
  ])
  const chat = { ...load, dataset: { ...dataset, item: () => last }, requests: 1 }
  const plain = await measure(t, {}, chat, 'openai-chat')
  t.notOk('tools' in plain.server.received[0]!.body, 'a chat beside has none')
})

t.test('a program may carry on what the model itself has called', async (t) => {
  const last = { prompt: 'All is well.', inputTokens: 3, outputTokens: 4 }
  const item = { ...last, prompt: 'Begin.', calls: 'Bash', next: last }
  const dataset = { name: 'agents', timed: false, tools: ['Bash', 'Read'], item: () => item }
  const shape = { kind: 'closed', concurrency: 1, rampMs: 0 } as const
  const load = { dataset, shape, requests: 2, ownCalls: true }
  const piece = (index: number, more: object, id?: string) => ({
    tool_calls: [{ index, id, function: more }],
  })
  const head = [{ reasoning_content: 'Hm.' }, piece(0, { name: 'Read', arguments: '{"at"' }, 'a')]
  const second = async (deltas: readonly object[]) => {
    const { server } = await measure(t, { deltas }, load, 'openai-chat')
    const [, body] = server.received.map((one) => one.body)
    t.match(body, { tools: [{}, {}] })
    return (body!['messages'] as object[]).slice(1)
  }
  const rest = [piece(0, { arguments: ':1}' }), piece(1, { name: 'Bash', arguments: '{}' }, 'b')]
  const call = (id: string, name: string, given: string) => {
    return { id, type: 'function', function: { name, arguments: given } }
  }
  const said = { role: 'assistant', content: '', reasoning_content: 'Hm.' }
  t.same(await second([...head, ...rest]), [
    { ...said, tool_calls: [call('a', 'Read', '{"at":1}'), call('b', 'Bash', '{}')] },
    { role: 'tool', tool_call_id: 'a', content: '' },
    { role: 'tool', tool_call_id: 'b', content: 'All is well.' },
  ])
  t.same(
    await second([...head, { content: 'Then' }, { content: '.' }]),
    [
      { ...said, content: 'Then.' },
      { role: 'user', content: 'All is well.' },
    ],
    'a call that was cut off is none',
  )
})

t.test('the same stream as timed by the openai package', async (t) => {
  // The server writes each event to both at once.
  const gapMs = 20
  const server = await scriptedServer({ firstMs: 150, gapMs, pair: true })
  t.teardown(server.close)
  const dataset = syntheticDataset({
    inputLengths: parseLengths('16'),
    outputLengths: parseLengths('16'),
    seed: 1,
  })
  const shape = { kind: 'closed', concurrency: 1, rampMs: 0 } as const
  const load = loadOf({ shape, requests: 1, dataset })
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' })
  const timed = async () => {
    const times: number[] = []
    const stream = await client.completions.create({
      model: 'tiny',
      prompt: 'Once',
      max_tokens: 16,
      stream: true,
    })
    for await (const { choices } of stream) if (choices[0]?.text) times.push(performance.now())
    return { times, end: performance.now() }
  }
  const target = targetOf(server.url, 'openai-completions')
  // What either takes to send is its own; what arrives does so at one moment, however busy the machine.
  const apart: number[] = []
  for (let round = 0; round < 3; round++) {
    const begin = performance.now()
    const [{ records }, theirs] = await Promise.all([runLoad(target, load, run()), timed()])
    const [record] = records
    const ours = record!.arrivalsMs.map((at) => begin + at)
    t.equal(theirs.times.length, 16)
    t.equal(ours.length, 16)
    apart.push(...ours.map((time, at) => time - theirs.times[at]!))
    apart.push(begin + record!.endMs - theirs.end)
    const { sentMs, intendedMs, arrivalsMs, endMs } = record!
    t.ok(sentMs >= intendedMs)
    t.equal(ttftOf(record!), arrivalsMs[0]! - sentMs)
    t.equal(e2eOf(record!), endMs - sentMs)
    t.equal(mean(gapsOf(record!)).toFixed(6), ((arrivalsMs[15]! - arrivalsMs[0]!) / 15).toFixed(6))
  }
  const middle = median(apart.map(Math.abs))
  t.ok(middle < gapMs, `as the openai package sees it, ${middle.toFixed(2)} ms apart`)
})

t.test('failures are counted by kind', async (t) => {
  const kinds: readonly (readonly [Script, Partial<LoadOptions>, string])[] = [
    [{ status: 429 }, {}, 'http_429'],
    [{ breakAfter: 3, gapMs: 5 }, {}, 'disconnected'],
    [{ errorAfter: 2 }, {}, 'server'],
    [{ gapMs: 300 }, { timeoutMs: 100 }, 'timeout'],
  ]
  for (const [script, more, kind] of kinds) {
    const { summary, records } = await measure(t, script, more)
    t.match(summary.requests, { total: 6, ok: 0, failed: 6, errors: { [kind]: 6 } }, kind)
    // How late this process sends is the machine's business.
    t.equal(warningsOf(records, summary, 0)[0], 'no request succeeded', kind)
    t.equal(summary.ttftMs, undefined)
  }
  const wrong = await measure(t, {}, {}, 'ollama')
  t.equal(wrong.summary.requests.ok, 6)
})

t.test('a connection that is reset as it is used again costs its request the time', async (t) => {
  let time = 0
  const server = await scriptedServer({ onReused: () => (time = 1000) })
  t.teardown(server.close)
  const clock = { now: () => time, sleep: async () => {} }
  const load = loadOf({ shape: { kind: 'closed', concurrency: 1, rampMs: 0 }, requests: 2 })
  const { records } = await runLoad(targetOf(server.url), load, { ...run(), clock })
  const times = records.map(({ outcome, sentMs, endMs }) => [outcome, sentMs, endMs])
  t.same(times, [
    ['ok', 0, 0],
    ['ok', 0, 1000],
  ])
})

t.test('a target that is not there, or speaks something else', async (t) => {
  const server = await scriptedServer()
  const reach = (api: string, url = server.url) =>
    reachTarget(targetOf(url, api), loadOf(), run().signal)
  const elsewhere = `${server.url}/other`
  await t.rejects(reach('cllm', elsewhere), {
    code: 'target_unavailable',
    message: /POST .*\/other\/generate_stream failed with http_404: .*is cllm the right --api\?/,
  })
  await t.rejects(reach('openai-chat', elsewhere), /lists no model: name one with --model/)
  const mixed = { ...targetOf(server.url), api: { ...apis.get('cllm')!, path: '/completion' } }
  await t.rejects(
    reachTarget(mixed, loadOf(), run().signal),
    /failed with protocol: not an event of the API cllm: .*is cllm the right --api\?/,
  )
  await server.close()
  for (const api of ['cllm', 'openai-chat']) {
    await t.rejects(reach(api), { code: 'target_unavailable', message: /cannot reach .*REFUSED/ })
  }
})

t.test('a target that is silent', async (t) => {
  const server = createServer(() => {}).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  t.teardown(() => server.closeAllConnections())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const reached = reachTarget(targetOf(url, 'openai-chat'), loadOf({ timeoutMs: 50 }), run().signal)
  await t.rejects(reached, { code: 'target_unavailable', message: /cannot reach .*timeout/ })
  const asking = new AbortController()
  server.once('request', () => asking.abort('SIGINT'))
  const interrupted = reachTarget(targetOf(url, 'openai-chat'), loadOf(), asking.signal)
  t.equal(await interrupted.catch((error: unknown) => error), 'SIGINT', 'no failure of the target')
})

t.test('an engine that dies while its steps are watched', async (t) => {
  let asked = 0
  const statistics = async () => {
    if (asked++ > 0) throw new Error('it is gone')
    return {} as EngineStatistics
  }
  await t.rejects(
    watchSteps({ statistics }, async () => await sleep(200)),
    /it is gone/,
  )
})

t.test('a target that stops in the middle', async (t) => {
  const { summary, stopped, records } = await measure(t, { dieAfter: 8 }, { requests: 1000 })
  t.equal(stopped, 'target-gone')
  t.equal(summary.requests.ok, 8, 'what was measured is kept')
  t.ok(summary.requests.failed >= 10 && records.length < 100, 'it does not run against a wall')
})

t.test('a target that is gone ends a trace, whatever is still to come', async (t) => {
  const { url, close } = await scriptedServer({})
  await close()
  const item = (index: number) => ({
    prompt: 'Hello',
    inputTokens: 1,
    outputTokens: 1,
    atMs: index < 20 ? 0 : 3_600_000,
  })
  const dataset = { name: 'gap', size: 21, timed: true, item }
  const load = loadOf({ shape: { kind: 'trace' }, dataset, requests: 21 })
  const { stopped, records } = await runLoad(targetOf(url), load, run())
  t.equal(stopped, 'target-gone')
  t.equal(records.length, 20)
})

t.test('an interrupted run keeps what it has', async (t) => {
  const server = await scriptedServer({ gapMs: 20 })
  t.teardown(server.close)
  const controller = new AbortController()
  let done = 0
  const result = await runLoad(targetOf(server.url), loadOf({ requests: 1000 }), {
    ...run(controller.signal),
    onDone: () => ++done === 4 && controller.abort(),
  })
  t.equal(result.stopped, 'interrupted')
  const { ok, interrupted, total } = summarize(result.records).requests
  t.ok(ok >= 4 && ok + interrupted === total && total <= 6)
})

t.test('programs that began go on to their end, unless the load is stopped', async (t) => {
  const server = await scriptedServer()
  t.teardown(server.close)
  const turn = { inputTokens: 1, outputTokens: 2 }
  const item = { ...turn, prompt: 'Begin.', next: { ...turn, prompt: 'And then?', pauseMs: 50 } }
  const dataset = { name: 'talk', timed: false, size: 1, item: () => item }
  const clock = new SimulatedClock()
  const pausing: (() => void)[] = []
  const paused: LoadClock = {
    now: () => clock.now(),
    sleep: async () => await new Promise((resolve) => pausing.push(resolve)),
  }
  const shape = { kind: 'closed', concurrency: 3, rampMs: 0 } as const
  const load = loadOf({ dataset, shape, requests: 4 })
  let done = 0
  const onDone = (): void => {
    // All three pause at once, and the last one alone.
    if (++done === 3 || done === 7)
      setImmediate(() => pausing.splice(0).forEach((resolve) => resolve()))
  }
  const all = await runLoad(targetOf(server.url), load, { ...run(), clock: paused, onDone })
  t.equal(all.records.length, 8, 'four programs of two requests')
  t.equal(summarize(all.records).programMs?.count, 4)
  const sessions = server.received.map(({ session }) => session)
  t.equal(new Set(sessions).size, 4, 'each in a session of its own')
  t.ok(sessions.every((one) => sessions.filter((other) => other === one).length === 2))
  t.match(sessions, Array(8).fill(/./))

  const controller = new AbortController()
  let left = 3
  const leave = (): void => {
    if (--left === 0) setImmediate(() => controller.abort())
  }
  const clockOfOne: LoadClock = {
    now: () => clock.now(),
    sleep: async (_, signal) => void (signal.aborted || (await once(signal, 'abort'))),
  }
  const cut = await runLoad(targetOf(server.url), load, {
    ...run(controller.signal),
    clock: clockOfOne,
    onDone: leave,
  })
  t.equal(cut.records.length, 3, 'those that paused send nothing more')
  const again = server.received.slice(8).map(({ session }) => session)
  t.same([again.length, sessions.filter((one) => again.includes(one))], [3, []], 'new sessions')
})

t.test('arrivals', async (t) => {
  const take = (count: number, options: Omit<Parameters<typeof arrivals>[0], 'random'>) => {
    const times: number[] = []
    for (const time of arrivals({ ...options, random: randomSource(3, 'a') })) {
      times.push(time)
      if (times.length === count) break
    }
    return times
  }
  const gaps = (times: number[]) => times.slice(1).map((time, index) => time - times[index]!)
  const variation = (times: number[]) => {
    const all = gaps(times)
    const middle = mean(all)
    return Math.sqrt(mean(all.map((gap) => (gap - middle) ** 2))) / middle
  }
  const poisson = take(20_000, { rate: 100 })
  t.ok(Math.abs(mean(gaps(poisson)) - 10) < 0.3)
  t.ok(Math.abs(variation(poisson) - 1) < 0.05, 'exponential gaps')
  t.ok(Math.abs(variation(take(20_000, { rate: 100, burstiness: 0.25 })) - 2) < 0.15)
  t.same(take(3, { rate: 100, burstiness: Infinity }), [10, 20, 30])
  const ramp = take(300, { rate: 100, rampMs: 2000, burstiness: Infinity })
  t.equal(ramp.filter((time) => time <= 2000).length, 100, 'half the requests in the ramp')
  t.ok(Math.abs(ramp[299]! - 4000) < 1e-6)
  t.ok(
    ramp.every((time, index) => index === 0 || time > ramp[index - 1]!),
    'never back',
  )
})

t.test('an open loop sends by intended time and reports its lag', async (t) => {
  const { records, summary, server } = await measure(
    t,
    { untilReceived: 40 },
    {
      shape: { kind: 'open', rate: 200, burstiness: 1, rampMs: 0 },
      requests: 40,
    },
  )
  t.equal(summary.requests.ok, 40, 'requests do not wait for one another: none is answered before')
  t.equal(server.received.length, 40)
  t.ok(
    records.every(({ intendedMs, sentMs }) => sentMs >= intendedMs - 1),
    'none too early',
  )
  t.equal(summary.sendLagMs?.count, 40)
})

t.test('an open loop sends what its rate says: first turns alone', async (t) => {
  const turn = { inputTokens: 1, outputTokens: 2 }
  const item = { ...turn, prompt: 'Begin.', next: { ...turn, prompt: 'And then?' } }
  const dataset = { name: 'talk', timed: false, size: 1, item: () => item }
  const shape = { kind: 'open', rate: 200, burstiness: 1, rampMs: 0 } as const
  const { server, records } = await measure(t, {}, { dataset, shape, requests: 5 })
  t.equal(records.length, 5)
  t.ok(server.received.every(({ prompt }) => prompt.endsWith('Begin.')))
})

t.test('durations end a load, ramps begin it slowly', async (t) => {
  // Time passes with the requests only: 10 ms with the end of each.
  const clock = new SimulatedClock()
  const loadClock: LoadClock = {
    now: () => clock.now(),
    sleep: async (ms) => await new Promise((resolve) => void clock.at(clock.now() + ms, resolve)),
  }
  const server = await scriptedServer()
  t.teardown(server.close)
  const shape = { kind: 'closed', concurrency: 4, rampMs: 200 } as const
  const { records } = await runLoad(
    targetOf(server.url),
    loadOf({ shape, requests: 100_000, durationMs: 400 }),
    { ...run(), clock: loadClock, onDone: () => clock.advance(10) },
  )
  t.ok(records.every(({ intendedMs }) => intendedMs < 400))
  t.equal(Math.max(...records.map(({ intendedMs }) => intendedMs)), 390)
  const alone = records.filter(({ intendedMs }) => intendedMs < 50)
  t.same(
    alone.map(({ intendedMs, endMs }) => [intendedMs, endMs]),
    [0, 10, 20, 30, 40].map((at) => [at, at]),
    'one client begins at once, and is alone for the first quarter',
  )
  const most = (from: number, to: number) =>
    Math.max(
      ...records
        .filter(({ intendedMs }) => intendedMs >= from && intendedMs < to)
        .map(
          ({ intendedMs: at }) =>
            records.filter((other) => other.intendedMs <= at && other.endMs >= at).length,
        ),
    )
  t.ok(most(60, 100) >= 2 && most(60, 100) < 4, 'a second one beside it in the second')
  t.ok(most(200, 400) >= 4, 'and in the end all four')
})

t.test('traces are replayed at their times', async (t) => {
  const items = [0, 30, 120].map((atMs, index) => ({
    prompt: [{ key: String(index), tokens: 4 }],
    inputTokens: 4,
    outputTokens: 2,
    atMs,
  }))
  const item = (index: number) => items[index % 3]!
  const dataset = { name: 'list', size: 3, timed: true, item }
  const shape = { kind: 'trace' } as const
  const { records } = await measure(t, {}, { shape, dataset, requests: 4 })
  t.same(
    records.map(({ intendedMs }) => intendedMs),
    [0, 30, 120, 180],
    'and begin anew where there are more requests',
  )
})

t.test('clients that leave, slow readers and tenants', async (t) => {
  const { summary, records, server } = await measure(
    t,
    { gapMs: 5 },
    {
      requests: 60,
      shape: { kind: 'closed', concurrency: 20, rampMs: 0 },
      cancelRate: 0.5,
      slowReaders: 0.3,
      slowReadMs: 15,
      tenants: [
        { name: 'big', weight: 3 },
        { name: 'small', weight: 1 },
      ],
    },
  )
  const { ok, cancelled, failed } = summary.requests
  t.same([ok + cancelled, failed], [60, 0])
  t.ok(cancelled > 15 && cancelled < 45, `${cancelled} cancelled`)
  const slow = records.filter(({ slowReader }) => slowReader)
  t.ok(slow.length > 5 && slow.length < 35, `${slow.length} slow`)
  t.same(
    summary.tenants.map(({ tenant }) => tenant),
    ['big', 'small'],
  )
  t.ok(summary.tenants[0]!.requests > summary.tenants[1]!.requests)
  const sent = server.received.filter(({ tenant }) => tenant === 'big')
  t.ok(sent.length >= summary.tenants[0]!.requests, 'the server is told')
  t.ok(summary.jain! > 0.4 && summary.jain! < 1)
})

t.test('counts that disagree are told', async (t) => {
  const { records, summary } = await measure(t, { countError: 4 })
  const [warning] = warningsOf(records, summary, 9)
  t.match(warning, /token counts disagree .* 6 of 6 answers: 60 tokens reported, 36 arrived/)
  t.match(warningsOf(records, summary, 9).at(-1), /this client was busy, p99 9.0 ms/)
})

const costs: PassCosts = {
  decode: { alone: 14, base: 12, each: 4, read: 0.004 },
  prefill: { base: 9, sequence: 5, each: 2.5, pair: 0.001, lonePair: 0.005 },
  copy: { base: 5, each: 0.02 },
  loop: { base: 0.3, each: 0.1 },
}
const tile = 64
const limits = { slots: 8, contextSize: 2048, batchSize: 512 }

t.test('the plan tells the costs of any machine apart', (t) => {
  const alone = { ...costs, loop: { base: 0, each: 0 } }
  const { stepMs } = passMachine(alone, { name: '', about: '', chunkMultiple: tile })
  const measured = planSteps(limits).map((step) => ({ ...step, durationMs: stepMs(step.shares) }))
  const copies = [0, 100, 1000].map((tokens) => [tokens, 5 + 0.02 * tokens] as const)
  const fitted = fitCosts(measured, copies, tile)
  const close = (value: number, wanted: number) =>
    t.ok(Math.abs(value / wanted - 1) < 0.1, `${value}, expected about ${wanted}`)
  for (const part of ['decode', 'prefill', 'copy'] as const) {
    for (const [name, value] of Object.entries(costs[part])) {
      close((fitted.costs[part] as Record<string, number>)[name] ?? NaN, value)
    }
  }
  t.ok(fitted.error.fitted.mean < 0.01)
  t.ok(fitted.error.heldOut.steps > 0)
  t.ok(fitted.error.heldOut.max < 0.01)
  t.end()
})

t.test('steps of the plan fit every backend', async (t) => {
  for (const slots of [1, 2, 40]) {
    for (const contextSize of [100, 256, 8192]) {
      for (const batchSize of [40, 512]) {
        for (const { shares } of planSteps({ slots, contextSize, batchSize })) {
          t.ok(shares.length <= slots)
          t.ok(shares.reduce((sum, { tokens }) => sum + tokens, 0) <= batchSize)
          t.ok(shares.every(({ tokens, context }) => tokens + context <= contextSize))
          t.equal(new Set(shares.map(({ slot }) => slot)).size, shares.length)
        }
      }
    }
  }
})
