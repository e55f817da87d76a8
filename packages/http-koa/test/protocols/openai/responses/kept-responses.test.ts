import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Clock, CllmError, type SharedStateFiles, type SimulatedClock } from '@cllm/core'
import {
  type ClosableDirectory,
  overriding,
  StateFolder,
  type StateFolderOptions,
} from '@cllm/host'
import { adminProtocol, hashKey, keyRing, metricsProtocol, openAiProtocol } from '@cllm/http-koa'
import { drive, FakeTokenizer, scriptAnswers } from '@cllm/testing'
import t, { type Test } from 'tap'
import { eventsOf, serve, until } from '../../../serve.js'

const turn = (role: string, text: string) => `<|im_start|>${role}\n${text}<|im_end|>\n`
const answers = '<|im_start|>assistant\n'
const [one, two, three] = [turn('user', 'one'), turn('user', 'two'), turn('user', 'three')]
const script = scriptAnswers(new FakeTokenizer(), {
  [one + answers]: 'first',
  [two + answers]: 'alone',
  [turn('user', 'long') + answers]: 'f'.repeat(500),
  [turn('user', 'some') + answers]: 'f'.repeat(100),
  [one + turn('assistant', 'first') + two + answers]: 'second',
  [one + turn('assistant', 'first') + two + turn('assistant', 'second') + three + answers]: 'third',
})
const path = '/v1/responses'

type Json = Record<string, unknown>

interface Kept extends Partial<StateFolderOptions> {
  readonly keys?: readonly string[]
  /** Milliseconds of the server's clock that a step takes. Default: none. */
  readonly stepMs?: number
  readonly defaults?: object
  /** Whether its models are loaded; default: yes. */
  readonly isReady?: boolean
  /** What is done before the engine tells of itself, which each request waits for. */
  readonly beforeInfo?: () => Promise<void>
  /** In place of writing: none is written where it says false. */
  readonly beforeWrite?: (data: string) => Promise<boolean>
}

/** Lets the model compute until something has happened. */
const compute = async (clock: SimulatedClock, isDone: () => boolean | Promise<boolean>) =>
  await until(async () => {
    clock.advance(10)
    return await isDone()
  })

async function start(
  t: Test,
  { keys, stepMs, defaults, isReady = true, beforeWrite, beforeInfo, ...more }: Kept = {},
) {
  const own = await mkdtemp(join(tmpdir(), 'cllm-responses-'))
  // What a closed server has begun may still be written.
  t.teardown(() => rm(own, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 }))
  const folder = more.folder ?? join(own, 'responses')
  const warned: string[] = []
  const warn = (_: object, message: string) => void warned.push(message)
  const logger = { debug() {}, info() {}, warn, error: warn }
  const [now, wall] = [() => server.clock.now(), () => server.clock.wall()]
  const clock: Clock = { now, wall, at: () => () => {} }
  const files = new StateFolder({ limitBytes: 1e6, isUrgent: true, ...more, folder }, clock, logger)
  let inFiles = 0
  const counted = async <T>(work: Promise<T>) => {
    inFiles++
    return await work.finally(() => inFiles--)
  }
  const responses = overriding<SharedStateFiles>(files, {
    find: async (head) => await counted(files.find(head)),
    touch: async (file) => await counted(files.touch(file)),
    write: async (head, data) =>
      (await beforeWrite?.(Buffer.from(data).toString())) === false
        ? undefined
        : await files.write(head, data),
  })
  const ring = keyRing(() =>
    (keys ?? []).map((name) => ({ name, tenant: 'all', role: 'admin', hash: hashKey(name) })),
  )
  const openAi = openAiProtocol({ responses, ...(defaults && { defaults }) })
  const server = await serve({
    protocols: [openAi, metricsProtocol({ protocols: [openAi] }), adminProtocol()],
    backend: { script, contextSize: 1024, ...(stepMs && { stepMs: () => stepMs }) },
    transport: { isReady: () => isReady, ...(keys && { security: { keys: ring } }) },
    directory: (models: ClosableDirectory) =>
      overriding(models, {
        status: (id) => ({ ...models.status(id), ...(!isReady && { state: 'loading' }) }),
        open(id, options) {
          const client = models.open(id, options)
          const info = async () => {
            await beforeInfo?.()
            return await client.info()
          }
          return overriding(client, { info })
        },
      }),
  })
  t.teardown(async () => await drive(server.clock, server.close()))
  const ask = async (method: string, at: string, body?: object, key?: string) => {
    const response = await fetch(server.url + at, {
      method,
      headers: { 'content-type': 'application/json', ...(key && { 'x-api-key': key }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, json: (await response.json()) as Json }
  }
  const make = async (body: object, key?: string) => {
    const { status, json } = await ask('POST', path, body, key)
    t.equal(status, 200)
    return { ...json, id: String(json['id']), created_at: json['created_at'] }
  }
  const isInFiles = () => inFiles > 0
  return { ...server, folder, warned, ask, make, time: server.clock, isInFiles }
}

t.test('what is kept can be read and forgotten while models load', async (t) => {
  const { folder, make } = await start(t)
  const { id } = await make({ input: 'one' })
  const { ask } = await start(t, { folder, isReady: false })
  t.equal((await ask('POST', path, { input: 'one' })).status, 503)
  t.equal((await ask('GET', `${path}/${id}`)).status, 200)
  const talk = await ask('POST', '/v1/conversations', {})
  t.equal((await ask('DELETE', `/v1/conversations/${String(talk.json['id'])}`)).status, 200)
  t.equal((await ask('DELETE', `${path}/${id}`)).status, 200)
})

type Started = Awaited<ReturnType<typeof start>>

/** Lets time go on for servers, but not while one reads or touches a file: a slow disk is no silent server. */
function advance(servers: readonly Started[], ms: number): void {
  if (servers.some(({ isInFiles }) => isInFiles())) return
  for (const { time } of servers) time.advance(ms)
}

const said = (text: string | RegExp) => [
  { type: 'message', content: [{ type: 'output_text', text }] },
]
const unknown = { status: 404, json: { error: { code: 'not_found' } } }

t.test('a response is kept, gone on with, and forgotten', async (t) => {
  const { ask, make, folder } = await start(t)
  const first = await make({ input: 'one', metadata: { a: 'b' } })
  t.match(first, { store: true, previous_response_id: null, output: said('first') })
  t.same((await ask('GET', `${path}/${first.id}`)).json, first)
  t.match(await ask('POST', `${path}/compact`, { previous_response_id: first.id }), {
    status: 400,
    json: { error: { code: 'unsupported', message: /"truncation": "auto"/ } },
  })
  const second = await make({ input: 'two', previous_response_id: first.id })
  t.match(second, { previous_response_id: first.id, output: said('second') })
  const input = [{ role: 'user', content: 'three' }]
  const third = await make({ input, previous_response_id: second.id })
  t.match(third, { output: said('third') })
  t.match((await ask('GET', '/admin/programs')).json, {
    data: { programs: [{ id: first.id, calls: 3 }] },
  })

  const items = await ask('GET', `${path}/${third.id}/input_items`)
  const content = [{ type: 'input_text', text: 'three' }]
  const asked = { type: 'message', role: 'user', status: 'completed', content }
  t.match(items.json, { data: [asked], has_more: false })
  const count = await ask('POST', `${path}/input_tokens`, {
    input: 'two',
    previous_response_id: first.id,
  })
  t.match(count.json, { object: 'response.input_tokens', input_tokens: Number })
  t.ok(Number(count.json['input_tokens']) > 30, 'the earlier turn counts')

  const again = await start(t, { folder })
  t.same((await again.ask('GET', `${path}/${first.id}`)).json, first, 'after a restart')
  t.match(await again.ask('DELETE', `${path}/${first.id}`), {
    status: 200,
    json: { id: first.id, deleted: true },
  })
  t.match(await again.ask('GET', `${path}/${first.id}`), unknown)
  t.match(await again.ask('DELETE', `${path}/${first.id}`), unknown)
  const broken = await again.ask('POST', path, { input: 'x', previous_response_id: second.id })
  t.match(broken, { status: 404, json: { error: { param: 'previous_response_id' } } })
})

t.test('a response is in its file before a client is told of its end', async (t) => {
  const order: string[] = []
  const beforeWrite = async (data: string) => {
    if (!/"response","status":"completed"|"role":"assistant"/.test(data)) return true
    // As long as the answer would take.
    for (let count = 0; count < 3; count++) await ask('GET', '/v1/models')
    order.push('written')
    return !data.includes('lost')
  }
  const { ask, make, post } = await start(t, { beforeWrite })
  const told = async () => {
    order.push('told')
    await ask('GET', '/v1/models')
    t.same(order.splice(0), ['written', 'told'])
  }
  const { id } = await make({ input: 'one' })
  await told()
  await (await post(path, { input: 'one', stream: true })).text()
  await told()
  const background = await make({ input: 'one', background: true })
  const at = `${path}/${background.id}`
  await until(async () => (await ask('GET', at)).json['status'] === 'completed')
  await told()
  const { json } = await ask('POST', '/v1/conversations', {})
  t.match(await make({ input: 'one', conversation: json['id'] }), { store: true })
  t.same(order.splice(0), ['written', 'written'])
  const metadata = { a: 'lost' }
  t.match(await make({ input: 'one', metadata }), { store: false, output: said('first') })
  const stream = await eventsIn(await post(path, { input: 'one', metadata, stream: true }))
  t.match(stream.at(-1), { type: 'response.completed', response: { store: false } })
  t.equal((await ask('GET', `${path}/${id}`)).status, 200)
})

t.test('what cannot be written is told, and counted', async (t) => {
  const beforeWrite = async (data: string) => !data.includes('first')
  const { ask, make, url } = await start(t, { beforeWrite })
  const { json } = await ask('POST', '/v1/conversations', {})
  t.match(await make({ input: 'one' }), { store: false, output: said('first') })
  const alone = await make({ input: 'two', conversation: json['id'] })
  t.match(alone, { store: true, output: said('alone') })
  const items = `/v1/conversations/${String(json['id'])}/items`
  t.match(await ask('POST', items, { items: [{ role: 'user', content: 'first' }] }), {
    status: 500,
    json: { error: { code: 'storage_failed' } },
  })
  const metrics = await (await fetch(`${url}/metrics`)).text()
  t.match(metrics, /^cllm_responses_unkept_total\{model_name=""\} 1$/m)
  t.match(metrics, /^cllm_responses_unkept_total\{model_name=".+"\} 1$/m)
})

t.test('an answer that its conversation does not have says so', async (t) => {
  const beforeWrite = async (data: string) => !/"object":"conversation".*"assistant"/.test(data)
  const { ask, make } = await start(t, { beforeWrite })
  const { json } = await ask('POST', '/v1/conversations', {})
  const answer = await make({ input: 'one', conversation: json['id'] })
  t.match(answer, { store: false, output: said('first') })
})

t.test('what is not to be stored is not', async (t) => {
  const { ask, make } = await start(t)
  const { id, ...answer } = await make({ input: 'one', store: false })
  t.match(answer, { store: false, output: said('first') })
  t.match(await ask('GET', `${path}/${id}`), unknown)
})

t.test('a key has its own responses only', async (t) => {
  const { ask, make } = await start(t, { keys: ['ann', 'bob'] })
  const { id } = await make({ input: 'one' }, 'ann')
  const conversation = await ask('POST', '/v1/conversations', {}, 'ann')
  const there = `/v1/conversations/${String(conversation.json['id'])}`
  const of = async (key: string, id: string) => [
    await ask('GET', `${path}/${id}`, undefined, key),
    await ask('GET', `${path}/${id}?stream=true`, undefined, key),
    await ask('GET', `${path}/${id}/input_items`, undefined, key),
    await ask('POST', `${path}/${id}/cancel`, {}, key),
    await ask('POST', path, { input: 'two', previous_response_id: id }, key),
    await ask('DELETE', `${path}/${id}`, undefined, key),
  ]
  const strange = `resp_${'0'.repeat(32)}`
  const hidden = JSON.stringify(await of('bob', id)).replaceAll(id, strange)
  t.equal(hidden, JSON.stringify(await of('bob', strange)), 'as if it were not there')
  for (const { status } of await of('bob', id)) t.equal(status, 404)
  t.equal((await ask('GET', there, undefined, 'bob')).status, 404)
  t.equal((await ask('GET', there, undefined, 'ann')).status, 200)
  t.equal((await ask('GET', `${path}/${id}`, undefined, 'ann')).status, 200)
})

t.test('the folder keeps to its limits, and other keys cannot read it', async (t) => {
  const limits = { limitBytes: 4000, key: 'secret' }
  const { ask, make, folder, warned } = await start(t, limits)
  const { id: oldest } = await make({ input: 'one' })
  let newest = oldest
  for (let count = 0; count < 5; count++) newest = (await make({ input: 'one' })).id
  await until(async () => (await ask('GET', `${path}/${oldest}`)).status === 404)
  t.equal((await ask('GET', `${path}/${newest}`)).status, 200)
  t.same(warned, [])
  const other = await start(t, { folder, limitBytes: 4000, key: 'another' })
  t.match(await other.ask('GET', `${path}/${newest}`), unknown)
  t.match(other.warned, [/another key/])
})

const eventsIn = async (response: Response) => eventsOf(await response.text())

t.test('a response is computed in the background, polled and read again', async (t) => {
  const { ask, make, get, time } = await start(t, { stepMs: 10 })
  const begun = await make({ input: 'one', background: true })
  t.match(begun, { status: 'in_progress', background: true, output: [], usage: null })
  t.hasProps(begun, ['completed_at', 'incomplete_details'])
  const at = `${path}/${begun.id}`
  t.match(await ask('GET', at), { status: 200, json: { status: 'in_progress' } })
  const early = await ask('POST', path, { input: 'two', previous_response_id: begun.id })
  t.match(early, { status: 400, json: { error: { message: /no answer yet/ } } })
  const reading = get(`${at}?stream=true`)
  await compute(time, async () => (await ask('GET', at)).json['status'] === 'completed')
  t.match((await ask('GET', at)).json, { output: said('first'), usage: { output_tokens: Number } })

  const events = await eventsIn(await reading)
  t.match(events[0], { type: 'response.created', sequence_number: 0 })
  t.match(events.at(-1), { type: 'response.completed', response: { output: said('first') } })
  const rest = await eventsIn(await get(`${at}?stream=true&starting_after=3`))
  t.same(rest, events.slice(4))
  time.advance(10 * 60_000)
  const late = await eventsIn(await get(`${at}?stream=true&starting_after=3`))
  t.match(late, [{ type: 'response.completed', response: { id: begun.id } }])
  t.match(await ask('POST', `${at}/cancel`), { json: { status: 'completed' } }, 'it has ended')
  const second = make({ input: 'two', previous_response_id: begun.id })
  t.match(await drive(time, second), { output: said('second') })
})

t.test('a stream in the background goes on without its client', async (t) => {
  const { ask, post, time } = await start(t, { stepMs: 10 })
  const leaving = new AbortController()
  const body = { input: 'one', background: true, stream: true }
  const { body: stream } = await post(path, body, { signal: leaving.signal })
  const reader = stream!.pipeThrough(new TextDecoderStream()).getReader()
  const { value = '' } = await reader.read()
  const [id] = /resp_\w+/.exec(value)!
  leaving.abort()
  const at = `${path}/${id}`
  await compute(time, async () => (await ask('GET', at)).json['status'] !== 'in_progress')
  t.match((await ask('GET', at)).json, { status: 'completed', output: said('first') })
})

t.test('what is computed in the background is cancelled or removed', async (t) => {
  const { ask, make, client, time } = await start(t, { stepMs: 10 })
  const isIdle = async () => (await client.statistics()).running === 0
  const stopped = await make({ input: 'one', background: true })
  const answer = await ask('POST', `${path}/${stopped.id}/cancel`)
  t.match(answer, { status: 200, json: { id: stopped.id, status: 'cancelled' } })
  t.match(await ask('GET', `${path}/${stopped.id}`), { json: { status: 'cancelled' } })
  const removed = await make({ input: 'one', background: true })
  t.equal((await ask('DELETE', `${path}/${removed.id}`)).status, 200)
  await compute(time, isIdle)
  t.match(await ask('GET', `${path}/${removed.id}`), unknown)
})

t.test('an item that is kept is known by its id after a restart', async (t) => {
  const { ask, folder } = await start(t)
  const { json } = await ask('POST', path, { input: 'one' })
  const [{ id }] = json['output'] as [Json]
  const { ask: askNext } = await start(t, { folder })
  const input = [{ content: 'one' }, { type: 'item_reference', id }, { content: 'two' }]
  const named = { input: input.map((turn) => ({ role: 'user', ...turn })) }
  t.match((await askNext('POST', path, named)).json, { output: said('second') })
  const { ask: askElsewhere } = await start(t)
  t.match(await askElsewhere('POST', path, named), {
    status: 400,
    json: { error: { param: 'input.1' } },
  })
})

t.test('a server computes what another one computed in the background at its end', async (t) => {
  const seeds: unknown[] = []
  let left = 0
  const before = await start(t, {
    stepMs: 10,
    beforeWrite: async (data) => {
      const { fields, by } = JSON.parse(data) as { fields?: Json; by?: string }
      if (fields && by === undefined) left++
      return seeds.push(fields?.['seed']) > 0
    },
  })
  const { json: conversation } = await before.ask('POST', '/v1/conversations', {})
  const there = `/v1/conversations/${String(conversation['id'])}`
  const make = async (more: object = {}) =>
    await before.make({ input: 'one', background: true, max_output_tokens: -1, ...more })
  const { json: first } = await drive(before.time, before.ask('POST', path, { input: 'one' }))
  const [{ id }] = first['output'] as [Json]
  const turns = [{ content: 'one' }, { type: 'item_reference', id }, { content: 'two' }]
  const input = turns.map((turn) => ({ role: 'user', ...turn }))
  const [lost, other, stopped] = [
    await make({ metadata: { a: 'b' } }),
    await make({ input }),
    await make(),
  ]
  const broken = await make({ conversation: conversation['id'], random_seed: 7 })
  t.equal(seeds.at(-1), 7, 'the seed that was asked for')
  await drive(before.time, before.client.close())
  await until(() => left === 4)

  const defaults = { maxTokens: 1 }
  const { ask, get, client } = await start(t, { folder: before.folder, defaults })
  const of = async ({ id }: { id: string }) => (await ask('GET', `${path}/${id}`)).json
  t.match(await ask('POST', `${path}/${stopped.id}/cancel`), { json: { status: 'cancelled' } })
  t.match(await of(stopped), { status: 'cancelled' })
  t.match(await ask('POST', path, { input: 'two', previous_response_id: lost.id }), { status: 400 })
  const { created_at } = lost
  for (const json of await Promise.all([of(lost), of(lost)])) t.match(json, { created_at })
  await until(async () => (await of(lost))['status'] !== 'in_progress')
  t.match(await of(lost), { status: 'completed' }, 'no limit still, whatever the default is')
  t.equal((await client.statistics()).requests.done, 1, 'computed once')
  t.match(await of(lost), { created_at, metadata: { a: 'b' }, output: said('first') })
  const events = await eventsIn(await get(`${path}/${other.id}?stream=true`))
  t.match(events[0], { type: 'response.created' })
  const response = { output: said('second') }
  t.match(events.at(-1), { type: 'response.completed', response }, 'it named an item')
  t.equal((await ask('DELETE', there)).status, 200)
  t.match(await of(broken), { status: 'failed', error: { message: /There is no conversation/ } })
})

t.test('while its model loads, a response stays as it is, as that may fail', async (t) => {
  let isLeft = false
  const before = await start(t, {
    stepMs: 10,
    beforeWrite: async (data) => {
      const { fields, by } = JSON.parse(data) as { fields?: Json; by?: string }
      isLeft ||= fields !== undefined && by === undefined
      return true
    },
  })
  const { folder } = before
  const { id } = await before.make({ input: 'one', background: true })
  await drive(before.time, before.client.close())
  await until(() => isLeft)
  const failure = new CllmError('insufficient_memory', 'too large')
  const beforeInfo = async () => await Promise.reject(failure)
  const loading = await start(t, { folder, isReady: false, beforeInfo })
  for (const _ of [1, 2]) {
    const { status, json } = await loading.ask('GET', `${path}/${id}`)
    t.match([status, json], [200, { status: 'in_progress' }])
  }
  const { ask } = await start(t, { folder })
  await until(async () => (await ask('GET', `${path}/${id}`)).json['status'] === 'completed')
})

/** Two servers of one folder, as in a rolling restart, and what lets time go on for one, or by default both. */
async function startTwo(t: Test, input = 'one') {
  const older = await start(t, { stepMs: 3000 })
  const newer = await start(t, { stepMs: 3000, folder: older.folder })
  const both = [older, newer] as const
  const pass = async (isDone: () => boolean | Promise<boolean>, of: readonly Started[] = both) =>
    await until(async () => {
      advance(of, 100)
      return await isDone()
    })
  const begun = await older.make({ input, background: true })
  const at = `${path}/${begun.id}`
  const of = async ({ ask }: Started) => (await ask('GET', at)).json
  const requests = async ({ client }: Started) => (await client.statistics()).requests
  return { older, newer, at, pass, of, requests }
}

t.test(
  'a server leaves alone what another one computes, and tells what becomes of it',
  async (t) => {
    const { older, newer, at, pass, of, requests } = await startTwo(t)
    t.match(await of(newer), { status: 'in_progress', output: [] })
    const reading = newer.get(`${at}?stream=true&starting_after=1`)
    const since = newer.time.now()
    await pass(async () => (await of(newer))['status'] === 'completed')
    t.ok(newer.time.now() - since > 12_000, 'longer than a server is missed')
    t.match(await of(newer), { output: said('first') })
    t.same(await of(newer), await of(older))
    t.match(await requests(newer), { done: 0, cancelled: 0 })
    const response = { status: 'completed', output: said('first') }
    t.match(await drive(newer.time, reading.then(eventsIn)), [
      { type: 'response.in_progress', sequence_number: 1, response: { output: [] } },
      { type: 'response.completed', sequence_number: 2, response },
    ])

    const { json } = await older.ask('POST', '/v1/conversations', {})
    const items = `/v1/conversations/${String(json['id'])}/items`
    t.match(await newer.ask('GET', items), { status: 200, json: { data: [] } })
    const added = { items: [{ role: 'user', content: 'one' }] }
    t.match(await older.ask('POST', items, added), { status: 200 })
    t.match(await newer.ask('GET', items), { status: 200, json: { data: [{ role: 'user' }] } })
  },
)

t.test('what another server computes is cancelled or removed', async (t) => {
  for (const way of ['cancelled', 'removed']) {
    // So long that its end does not come before the other server's word.
    const { older, newer, at, pass, of, requests } = await startTwo(t, 'long')
    const events = older.get(`${at}?stream=true`).then(eventsIn)
    await pass(() => older.time.now() > 9000)
    const isCancel = way === 'cancelled'
    const asked = isCancel ? newer.ask('POST', `${at}/cancel`) : newer.ask('DELETE', at)
    await pass(async () => (await requests(older)).cancelled === 1, [older])
    const response = { status: 'cancelled', store: true, output: said(/^f/) }
    t.match((await events).at(-1), { type: 'response.incomplete', ...(isCancel && { response }) })
    const expected = isCancel ? response : { error: { code: 'not_found' } }
    for (const server of [older, newer]) t.match(await of(server), expected)
    const { json } = await drive(newer.time, asked)
    t.match(json, isCancel ? response : { deleted: true })
    t.match(await requests(newer), { done: 0, cancelled: 0 })
  }
})

t.test('a server takes over from one that shows no life, which then leaves it', async (t) => {
  const { older, newer, at, pass, of, requests } = await startTwo(t)
  const left = older.get(`${at}?stream=true`).then(eventsIn)
  const reading = newer.get(`${at}?stream=true`).then(eventsIn)
  t.match(await of(newer), { status: 'in_progress' })
  const running = async () => (await newer.client.statistics()).running === 1
  await pass(running, [newer])
  await pass(async () => (await requests(older)).cancelled === 1, [older])
  t.notMatch((await left).at(-1), { type: /completed|incomplete|failed/ })
  t.match(await of(older), { status: 'in_progress' })
  await pass(async () => (await of(newer))['status'] === 'completed')
  t.match(await of(older), { status: 'completed', output: said('first') })
  const events = await reading
  t.match(events[0], { type: 'response.in_progress' })
  t.match(events[1], { type: 'response.created' })
  t.match(events.at(-1), { type: 'response.completed' })
  t.match(await requests(newer), { done: 1 })
})

t.test('a reader of what another server takes over waits until that can', async (t) => {
  const older = await start(t, { stepMs: 3000 })
  let refuse: ((error: CllmError) => void) | undefined
  let asked = 0
  const beforeInfo = async () => {
    if (++asked === 1) await new Promise<void>((_, reject) => (refuse = reject))
  }
  const newer = await start(t, { stepMs: 10, folder: older.folder, beforeInfo })
  const begun = await older.make({ input: 'one', background: true })
  const pass = async (isDone: () => boolean) =>
    await until(() => {
      newer.time.advance(100)
      return isDone()
    })
  const reading = newer.get(`${path}/${begun.id}?stream=true`).then(eventsIn)
  await pass(() => refuse !== undefined)
  const since = newer.time.now()
  await pass(() => newer.time.now() > since + 10_000)
  refuse!(new CllmError('engine_unavailable', 'Not now'))
  let events: Json[] | undefined
  void reading.then((all) => (events = all))
  await pass(() => events !== undefined)
  t.match(events!.at(-1), { type: 'response.completed', response: { output: said('first') } })
})

t.test('readers that come back, to one server or the other, miss nothing', async (t) => {
  const older = await start(t, { stepMs: 10 })
  const newer = await start(t, { stepMs: 10, folder: older.folder })
  const begun = await older.make({ input: 'some', background: true })
  const isLast = ({ type }: Json) => type === 'response.completed'
  /** Reads so many events at a time, in turns from each server. */
  const read = async (atOnce: number, servers: readonly Started[]): Promise<Json[]> => {
    const events: Json[] = []
    for (let turn = 0; !events.some(isLast); turn++) {
      const last = events.at(-1)?.['sequence_number'] as number | undefined
      const from = last === undefined ? '' : `&starting_after=${last}`
      const { get } = servers[turn % servers.length]!
      const { body } = await get(`${path}/${begun.id}?stream=true${from}`)
      let [text, count] = ['', 0]
      for await (const part of body!.pipeThrough(new TextDecoderStream())) {
        text += part
        const parts = text.split('\n\n')
        text = parts.pop()!
        const came = parts.map((one) => JSON.parse(one.slice(one.indexOf('data: ') + 6)) as Json)
        // That it is computed elsewhere is told under the number that the client has.
        const own = came.filter(
          ({ type, sequence_number: number }) => type !== 'response.in_progress' || number !== last,
        )
        events.push(...own.slice(0, atOnce - count))
        if ((count += came.length) >= atOnce) break
      }
    }
    return events
  }
  const ways = [
    read(1, [older]),
    read(7, [older]),
    read(Infinity, [older]),
    read(1, [older, newer]),
    read(5, [older, newer]),
  ]
  let all: Json[][] = []
  void Promise.all(ways).then((events) => (all = events))
  let isOver = false
  void ways[2]!.then(() => (isOver = true))
  await until(() => {
    // The events are kept for five minutes from then on, and who comes back for each is slow.
    advance(isOver ? [newer] : [older, newer], 10)
    return all.length > 0
  })
  for (const [way, events] of all.entries()) {
    const numbers = events.map(({ sequence_number }) => sequence_number)
    t.same(numbers, [...numbers.keys()], `way ${way}: each event once and in order`)
    t.match(events.at(-1), { response: { output: said('f'.repeat(100)) } })
    const text = events.map(({ type, delta }) =>
      type === 'response.output_text.delta' ? delta : '',
    )
    if (way < 3) t.equal(text.join(''), 'f'.repeat(100))
  }
})

t.test('what cannot be in the background is refused', async (t) => {
  const { ask, make } = await start(t)
  const refused = await ask('POST', path, { input: 'one', background: true, store: false })
  t.match(refused, { status: 400, json: { error: { param: 'background' } } })
  const wrong = await ask('POST', path, {
    input: [{ role: 'user' }, { type: 'function_call' }],
    background: true,
  })
  t.match(wrong, { status: 400, json: { error: { param: 'input.1.name' } } })
  const { id } = await make({ input: 'one' })
  t.match(await ask('POST', `${path}/${id}/cancel`), { status: 400 })
})

t.test('without a folder nothing is kept', async (t) => {
  const server = await serve({ protocols: [openAiProtocol()], backend: { script } })
  t.teardown(() => server.close())
  const { store, id } = (await (await server.post(path, { input: 'one' })).json()) as Json
  t.equal(store, false)
  t.equal((await server.get(`${path}/${String(id)}`)).status, 404)
  for (const more of [{ background: true }, { previous_response_id: 'a' }, { conversation: 'b' }]) {
    const response = await server.post(path, { input: 'one', ...more })
    t.equal(response.status, 400)
    t.match(await response.json(), { error: { message: /--responses/ } })
  }
})

t.test('a conversation has the turns of its responses', async (t) => {
  const { ask, make, folder } = await start(t)
  const at = '/v1/conversations'
  const { json: begun } = await ask('POST', at, { metadata: { a: 'b' } })
  const id = String(begun['id'])
  t.match(begun, { id: /^conv_/, object: 'conversation', created_at: Number, metadata: { a: 'b' } })
  t.match(await make({ input: 'one', conversation: id }), { conversation: { id } })
  t.match(await make({ input: 'two', conversation: { id } }), { output: said('second') })
  const { json: list } = await ask('GET', `${at}/${id}/items?order=asc`)
  const roles = (list['data'] as Json[]).map(({ role }) => role)
  t.same(roles, ['user', 'assistant', 'user', 'assistant'])
  const [last] = (await ask('GET', `${at}/${id}/items?limit=1`)).json['data'] as Json[]
  const item = `${at}/${id}/items/${String(last?.['id'])}`
  t.match(await ask('GET', item), { json: { role: 'assistant', content: [{ text: 'second' }] } })
  t.match(await ask('DELETE', item), { json: { id } })
  t.match(await ask('GET', item), unknown)
  const items = [{ role: 'assistant', content: 'second' }]
  const kept = { id: /^msg_/, status: 'completed', content: [{ annotations: [] }] }
  t.match(await ask('POST', `${at}/${id}/items`, { items }), { json: { data: [kept] } })
  const wrong = { items: [...items, { type: 'function_call_output', output: 'x' }] }
  for (const where of [at, `${at}/${id}/items`]) {
    const { status, json } = await ask('POST', where, wrong)
    t.match({ status, json }, { status: 400, json: { error: { param: 'items.1.call_id' } } })
  }
  t.match(await make({ input: 'three', conversation: id }), { output: said('third') })
  const { json } = await ask('GET', '/admin/programs')
  t.match(json, { data: { programs: [{ id, calls: 3 }] } })
  t.match(await ask('POST', `${at}/${id}`, { metadata: { c: 'd' } }), {
    json: { metadata: { c: 'd' } },
  })
  const twin = { id: 'twin', role: 'user', content: 'two' }
  await ask('POST', `${at}/${id}/items`, { items: [twin, twin] })
  await make({ input: [twin], conversation: id })
  const all = (await ask('GET', `${at}/${id}/items?limit=100`)).json['data'] as Json[]
  t.equal(new Set(all.map((item) => item['id'])).size, all.length, 'a pager finds its place')
  const again = await start(t, { folder })
  t.match(await again.ask('GET', `${at}/${id}`), { json: { metadata: { c: 'd' } } })
  const both = { input: 'x', conversation: id, previous_response_id: 'y' }
  t.equal((await ask('POST', path, both)).status, 400)
  t.match(await ask('DELETE', `${at}/${id}`), { json: { deleted: true } })
  t.match(await ask('GET', `${at}/${id}/items`), unknown)
  t.match(await ask('POST', path, { input: 'x', conversation: id }), unknown)
})
