import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  createEngine,
  type GenerateEvent,
  type GenerateRequest,
  PluginRegistry,
  silentLogger,
  SimulatedClock,
  systemClock,
  systemRandom,
  pause,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { drive, FakeBackend, type FakeBackendOptions, firstComeFirstServed } from '@cllm/testing'
import {
  type ApiKey,
  type BatchObject,
  batches,
  batchesProtocol,
  type CreateLimitCounter,
  hashKey,
  keyRing,
  type KeyRing,
  openAiProtocol,
  type RequestObserver,
  Services,
  usageProtocol,
} from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { BatchFolder } from '../../../src/protocols/batches/batch-folder.js'
import { openFolder } from '../../../src/protocols/batches/folder-queue.js'
import { BatchThrottle } from '../../../src/protocols/batches/batch-throttle.js'
import { yieldingEngines } from '../../../src/protocols/batches/yielding-engines.js'
import { watchEngines } from '../../../src/engines/watch-engines.js'
import { requestScope } from '../../../src/security/authenticate.js'
import { goesOn } from '../../../src/routes/koa-context.js'
import { testEach } from '../../each-client.js'
import { rawPost, rawRequest, serve, type ServeOptions, until, warningsIn } from '../../serve.js'

const body = (index: number) => ({
  model: 'fake',
  messages: [{ role: 'user', content: `Number ${index}` }],
  max_tokens: 5,
  seed: index,
})
const endpoint = '/v1/chat/completions'
const lineOf = (index: number, more: object = {}) =>
  JSON.stringify({
    custom_id: `line-${index}`,
    method: 'POST',
    url: endpoint,
    body: { ...body(index), ...more },
  })
const linesOf = (count: number) =>
  Array.from({ length: count }, (_, index) => lineOf(index)).join('\n')

const asked = { request: { prompt: { text: 'Hello' } } }

interface FilePage {
  readonly data: readonly { readonly id: string }[]
  readonly next_page: string | null
}

interface Line {
  custom_id: string
  response: { status_code: number; body: { choices: object[]; error?: { message: string } } }
}

/** What the tests read of batches, files and lists. */
interface Shown {
  id: string
  status: string
  output_file_id: string
  error_file_id: string
  request_counts: { completed: number }
  errors: { data: object[] }
  data: object[]
}

async function batching(t: Test, folder: string, more: ServeOptions = {}) {
  const served = await serve({
    protocols: [batchesProtocol({ folder, concurrency: 3 }), openAiProtocol()],
    ...more,
  })
  t.teardown(served.close)
  const own = (headers: Record<string, string> = {}) => ({
    async upload(content: string, purpose = 'batch', more: Record<string, string> = {}) {
      const form = new FormData()
      for (const [name, value] of Object.entries(more)) form.set(name, value)
      form.set('purpose', purpose)
      form.set('file', new Blob([content]), 'lines.jsonl')
      return await fetch(`${served.url}/v1/files`, { method: 'POST', body: form, headers })
    },
    async create(file: string) {
      const fields = { input_file_id: file, endpoint, completion_window: '24h' }
      const init = { headers: { 'Content-Type': 'application/json', ...headers } }
      return (await (await served.post('/v1/batches', fields, init)).json()) as { id: string }
    },
    async get(path: string) {
      const response = await served.get(path, { headers })
      return { status: response.status, body: (await response.json()) as Shown }
    },
    async ended(id: string) {
      for (;;) {
        const { body: batch } = await this.get(`/v1/batches/${id}`)
        if (/completed|failed|cancelled|expired/.test(batch.status)) return batch
      }
    },
    async content(file: string) {
      const text = await (await served.get(`/v1/files/${file}/content`, { headers })).text()
      return text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as Line)
    },
  })
  return { ...served, own }
}

t.test('files and batches are there while models load', async (t) => {
  const isReady = () => false
  const { own, post } = await batching(t, t.testdir({}), { transport: { isReady } })
  const mine = own()
  t.equal((await post(endpoint, body(1))).status, 503)
  const { id: file } = (await (await mine.upload(linesOf(1))).json()) as Shown
  const { id } = await mine.create(file)
  t.equal((await mine.get('/v1/files')).body.data.length, 1)
  t.equal((await mine.get('/v1/batches')).body.data.length, 1)
  t.equal((await mine.ended(id)).status, 'completed')
})

testEach('a batch answers each line as a request would be', async (t) => {
  const folder = join(t.testdir({}), 'batches')
  const { own, post, url } = await batching(t, folder)
  const mine = own()
  const uploaded = (await (
    await mine.upload(`${linesOf(20)}\n${lineOf(20, { max_tokens: 'x' })}`)
  ).json()) as {
    id: string
  }
  t.match(uploaded, {
    object: 'file',
    purpose: 'batch',
    filename: 'lines.jsonl',
    status: 'processed',
  })
  const batch = await mine.create(uploaded.id)
  t.match(batch, { object: 'batch', status: 'validating', endpoint })
  const done = await mine.ended(batch.id)
  t.match(done, {
    status: 'completed',
    request_counts: { total: 21, completed: 20, failed: 1 },
  })
  const answers = await mine.content(done.output_file_id)
  t.same(
    answers.map(({ custom_id }) => custom_id).sort(),
    Array.from({ length: 20 }, (_, index) => `line-${index}`).sort(),
    'each line once',
  )
  for (const { custom_id, response } of answers.slice(0, 5)) {
    const direct = await (await post(endpoint, body(Number(custom_id.slice(5))))).json()
    t.equal(response.status_code, 200)
    t.same(response.body.choices, (direct as Line['response']['body']).choices)
  }
  const [failed] = await mine.content(done.error_file_id)
  t.match(failed, { custom_id: 'line-20', response: { status_code: 400 } })
  t.match(failed?.response.body.error?.message, /max_tokens/)
  t.match((await mine.get('/v1/batches')).body, { data: [{ id: batch.id }], has_more: false })
  t.match((await mine.get('/v1/files?purpose=batch_output')).body.data, { length: 2 })
  t.match((await mine.get(`/v1/batches?after=${batch.id}`)).body, { data: [], has_more: false })
  t.equal((await mine.get('/v1/files?after=file-of-before')).status, 400)
  const headers = { 'anthropic-version': '2023-06-01' }
  const described = { type: 'file', id: uploaded.id, filename: 'lines.jsonl', size_bytes: Number }
  const forAnthropic = await (await fetch(`${url}/v1/files?purpose=batch`, { headers })).json()
  t.match(forAnthropic, { data: [described], first_id: uploaded.id, has_more: false })
  const one = await (await fetch(`${url}/v1/files/${uploaded.id}`, { headers })).json()
  t.match(one, { ...described, mime_type: 'application/jsonl', created_at: /Z$/ })
  const seen = new Set<string>()
  let query = ''
  for (let turn = 0; turn < 5; turn++) {
    const asked = await fetch(`${url}/v1/files?limit=1${query}`, { headers })
    const { data, next_page } = (await asked.json()) as FilePage
    t.notOk(seen.has(data[0]!.id), 'each page is another one')
    seen.add(data[0]!.id)
    if (next_page === null) break
    query = turn === 0 ? `&page=${next_page}` : `&after_id=${next_page}`
  }
  t.equal(seen.size, 3)
  const { mode } = await stat(join(folder, 'files', `${uploaded.id}.jsonl`))
  t.equal(mode & 0o777, 0o600)
  const removed = await fetch(`${url}/v1/files/${uploaded.id}`, { method: 'DELETE', headers })
  t.same(await removed.json(), { id: uploaded.id, type: 'file_deleted' })
  t.equal((await mine.get(`/v1/files/${uploaded.id}`)).status, 404)
  // As who reads it while another client deletes it.
  await rm(join(folder, 'files', `${done.output_file_id}.jsonl`))
  t.equal((await mine.get(`/v1/files/${done.output_file_id}/content`)).status, 404)
})

t.test('without a folder the routes name the flag', async (t) => {
  const served = await serve({
    protocols: [
      batches.create({ concurrency: 1, share: 0.1, fileLimitBytes: 1 }, new Services()),
      openAiProtocol(),
    ],
  })
  t.teardown(served.close)
  for (const path of ['/v1/files', '/v1/files/file-1', '/v1/batches', '/v1/batches/a/cancel']) {
    const answer = path.endsWith('cancel') ? await served.post(path, {}) : await served.get(path)
    t.equal(answer.status, 404, path)
    t.match(await answer.json(), { error: { message: /--batches FOLDER/ } })
  }
})

t.test('what is wrong with a file or a batch is said', async (t) => {
  const { own, post, get } = await batching(t, join(t.testdir({}), 'batches'))
  const mine = own()
  t.match(await (await mine.upload(linesOf(1), 'fine-tune')).json(), {
    error: { param: 'purpose', message: /fine-tune/ },
  })
  const expiring = { 'expires_after[anchor]': 'created_at', 'expires_after[seconds]': '3600' }
  t.match(await (await mine.upload(linesOf(1), 'batch', expiring)).json(), {
    error: { code: 'unsupported', param: 'expires_after' },
  })
  const output_expires_after = { anchor: 'created_at', seconds: 3600 }
  t.match(await (await get('/v1/batches?limit=0')).json(), {
    error: { message: 'limit: expected an integer from 1 to 100, instead got "0"' },
  })
  const batch = { input_file_id: 'file-x', endpoint, output_expires_after }
  t.match(await (await post('/v1/batches', batch)).json(), {
    error: { code: 'unsupported', param: 'output_expires_after' },
  })
  t.match(await (await post('/v1/files', {})).json(), { error: { message: /multipart/ } })
  const disposition = '--x\r\nContent-Disposition: form-data; name="purpose"'
  const headers = { 'Content-Type': 'multipart/form-data; boundary=x' }
  const forms: [form: string, message: RegExp][] = [
    [`${disposition}\r\n\r\nbatch\r\n`.repeat(101), /at most 100 parts/],
    [`${disposition}${'\r\nX: y'.repeat(4000)}\r\n\r\nbatch\r\n`, /heads of at most 16384 bytes/],
    [`${disposition}\r\n\r\nbatch\r\n`.repeat(100), /Missing required field: file/],
  ]
  for (const [form, message] of forms) {
    const answer = await post('/v1/files', `${form}--x--\r\n`, { headers })
    t.match(await answer.json(), { error: { code: 'invalid_request', message } })
  }
  for (const boundary of ['a b', 'a;b=c', "x'()+_,-./:=?"]) {
    const quoted = { 'Content-Type': `multipart/form-data; boundary="${boundary}"; charset=utf-8` }
    const form = `${disposition}\r\n\r\nbatch\r\n--x--\r\n`.replaceAll('--x', `--${boundary}`)
    const answer = await post('/v1/files', form, { headers: quoted })
    t.match(await answer.json(), { error: { message: 'Missing required field: file' } }, boundary)
  }
  t.match(await (await post('/v1/batches', { input_file_id: 'file-x', endpoint })).json(), {
    error: { message: /no file "file-x"/ },
  })
  t.equal((await get('/v1/files/..%2F..%2Fetc')).status, 404)
  const lines = [lineOf(1), '{', lineOf(1), lineOf(2, { stream: true }), '{"custom_id":"a"}']
  const { id } = (await (await mine.upload(lines.join('\n'))).json()) as { id: string }
  const failed = await mine.ended((await mine.create(id)).id)
  t.equal(failed.status, 'failed')
  t.match(failed.errors.data, [
    { line: 2, message: /JSON/ },
    { line: 3, message: /earlier line/ },
    { line: 4, message: /stream/ },
    { line: 5, message: /method/ },
  ])
})

t.test('a batch and its file are there together, whatever two servers do at once', async (t) => {
  const place = t.testdir({})
  const [here, there] = [new BatchFolder(place), new BatchFolder(place)]
  // Neither computes anything, so that batches stay under way.
  const hold = async () => ({ lost: new AbortController().signal, isHeld: () => false })
  const start = async (folder: BatchFolder) => {
    const shared = openFolder(folder, { clock: systemClock, logger: silentLogger, hold })
    return await batching(t, '', { protocols: [batchesProtocol({ shared }), openAiProtocol()] })
  }
  const [one, other] = [await start(here), await start(there)]
  const mine = one.own()
  const upload = async () => ((await (await mine.upload(linesOf(2))).json()) as { id: string }).id
  const remove = async (file: string) =>
    (await fetch(`${other.url}/v1/files/${file}`, { method: 'DELETE' })).status
  const [first, second] = [await upload(), await upload()]

  const put = here.put.bind(here)
  let status: number | undefined
  here.put = async (...given) => {
    status ??= await remove(first)
    await put(...given)
  }
  t.match(await mine.create(first), { error: { message: /was deleted meanwhile/ } })
  t.equal(status, 200)
  t.same(await here.list('batches'), [])

  const drop = there.remove.bind(there)
  let id: string | undefined
  there.remove = async (...given) => {
    id ??= (await mine.create(second)).id
    await drop(...given)
  }
  t.equal(await remove(second), 400, 'it is in use')
  t.match(await here.get('batches', id!), { object: { input_file_id: second } })
  t.equal((await mine.get(`/v1/files/${second}`)).status, 200)
  t.ok((await here.sizeOf(second)) > 0)
})

t.test('a file may take longer than other bodies, while it comes', async (t) => {
  const protocols = [batchesProtocol({ folder: t.testdir() })]
  const server = await serve({ protocols, transport: { bodyTimeoutMs: 800 } })
  t.teardown(() => server.close())
  const edge = 'edge'.repeat(8)
  const field = (name: string) => `--${edge}\r\nContent-Disposition: form-data; name="${name}"`
  const begin = `${field('purpose')}\r\n\r\nbatch\r\n${field('file')}; filename="a"\r\n\r\n`
  const [piece, end] = ['x'.repeat(1_200_000), `\r\n--${edge}--\r\n`]
  const length = begin.length + 2 * piece.length + end.length
  const client = await rawRequest(
    server.port,
    `POST /v1/files HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=${edge}\r\n` +
      `Content-Length: ${length}\r\n\r\n${begin}${piece}`,
  )
  // Its time began later, so that the file's is over when it is refused.
  const other = await rawRequest(server.port, rawPost('/v1/batches', { a: 1 }).slice(0, -1))
  await until(() => other.closed)
  t.match(other.received, /^HTTP\/1.1 408 /)
  client.socket.write(piece + end)
  await until(() => client.received !== '')
  t.match(client.received, /^HTTP\/1.1 200 .*"bytes":2400000/s)
  client.socket.destroy()
})

t.test('a batch goes on where a crash has left it', async (t) => {
  const folder = join(t.testdir({}), 'batches')
  const first = await batching(t, folder)
  const mine = first.own()
  const { id: file } = (await (await mine.upload(linesOf(8))).json()) as { id: string }
  const { id } = await mine.create(file)
  const done = await mine.ended(id)
  await first.close()
  // As if it had ended within the fourth line.
  const output = join(folder, 'files', `${done.output_file_id}.jsonl`)
  const whole = (await readFile(output, 'utf8')).split('\n')
  await writeFile(output, `${whole.slice(0, 3).join('\n')}\n${whole[3]?.slice(0, 40)}`)
  const head = join(folder, 'batches', `${id}.json`)
  const kept = JSON.parse(await readFile(head, 'utf8')) as { object: object }
  await writeFile(
    head,
    JSON.stringify({ ...kept, object: { ...kept.object, status: 'in_progress' } }),
  )

  const second = (await batching(t, folder)).own()
  const again = await second.ended(id)
  t.match(again, { status: 'completed', request_counts: { total: 8, completed: 8, failed: 0 } })
  const answers = await second.content(again.output_file_id)
  t.equal(new Set(answers.map(({ custom_id }) => custom_id)).size, 8)
  t.equal(answers.length, 8, 'each line once')
  t.same(
    answers.slice(0, 3).map((line) => JSON.stringify(line)),
    whole.slice(0, 3),
  )
})

t.test('a batch of before that cannot be read holds up no new one', async (t) => {
  const batches = { [`batch_${'0'.repeat(32)}.json`]: '{' }
  const folder = t.testdir({ batches, files: {} })
  const { own, log } = await batching(t, folder)
  const mine = own()
  const said = { level: 'error', message: 'earlier batches cannot be read' }
  await until(() => log.some(({ level }) => level === 'error'))
  t.match(
    log.filter(({ level }) => level === 'error'),
    [said],
  )
  const { id: file } = (await (await mine.upload(linesOf(2))).json()) as { id: string }
  const { id } = await mine.create(file)
  t.match(await mine.ended(id), { status: 'completed', request_counts: { completed: 2 } })
})

t.test(
  'of two servers with a folder one computes its batches, the other when that one has ended',
  async (t) => {
    const folder = join(t.testdir({}), 'batches')
    const first = await batching(t, folder)
    const mine = first.own()
    const { id: file } = (await (await mine.upload(linesOf(4))).json()) as { id: string }
    const { id: before } = await mine.create(file)
    t.match(await mine.ended(before), { status: 'completed' })
    await first.close()
    const head = join(folder, 'batches', `${before}.json`)
    const kept = JSON.parse(await readFile(head, 'utf8')) as { object: object }
    const underWay = { status: 'in_progress', output_file_id: undefined }
    await writeFile(head, JSON.stringify({ ...kept, object: { ...kept.object, ...underWay } }))

    let [asked, free, lose] = ['', () => {}, () => {}]
    const holdFolder = async (path: string) => {
      asked = path
      await new Promise<void>((resolve) => (free = resolve))
      const lost = new AbortController()
      lose = () => lost.abort()
      return { lost: lost.signal, isHeld: () => !lost.signal.aborted }
    }
    const second = await batching(t, folder, {
      protocols: [batchesProtocol({ folder, holdFolder }), openAiProtocol()],
    })
    const other = second.own()
    t.equal(asked, folder)
    const { id: early } = await other.create(file)
    for (const id of [before, early]) {
      t.match((await other.get(`/v1/batches/${id}`)).body.status, /in_progress|validating/)
    }
    free()
    for (const id of [before, early]) {
      const { status, output_file_id: output } = await other.ended(id)
      t.equal(status, 'completed')
      t.equal((await other.content(output)).length, 4, 'each line once')
    }

    asked = ''
    const { id: sixty } = (await (await other.upload(linesOf(60))).json()) as { id: string }
    const { id: many } = await other.create(sixty)
    const done = async () => {
      const { body } = await other.get(`/v1/batches/${many}`)
      return body
    }
    await until(async () => ((await done()).request_counts?.completed ?? 0) > 0)
    lose()
    await until(() => asked !== '')
    const left = await done()
    t.equal(left.status, 'in_progress')
    const { id: late } = await other.create(file)
    t.equal((await other.get(`/v1/batches/${late}`)).body.status, 'validating')
    t.same(await done(), left, 'no line is answered')
    free()
    const { output_file_id: whole } = await other.ended(many)
    const lines = await other.content(whole)
    t.equal(new Set(lines.map(({ custom_id }) => custom_id)).size, 60)
    t.equal(lines.length, 60, 'each line once')
    t.match(await other.ended(late), { status: 'completed' })
  },
)

t.test("a batch is its tenant's, and can be cancelled", async (t) => {
  const key = (name: string) => ({
    name,
    tenant: name,
    role: 'user' as const,
    hash: hashKey(`secret-of-${name}`),
  })
  const keys = keyRing(() => [key('ann'), key('bob')])
  const { own, url } = await batching(t, join(t.testdir({}), 'batches'), {
    transport: { security: { keys } },
  })
  const as = (name: string) => ({ Authorization: `Bearer secret-of-${name}` })
  const [ann, bob] = [own(as('ann')), own(as('bob'))]
  const { id: file } = (await (await ann.upload(linesOf(300))).json()) as { id: string }
  const { id } = await ann.create(file)
  t.equal((await bob.get(`/v1/batches/${id}`)).status, 404)
  t.equal((await bob.get(`/v1/files/${file}`)).status, 404)
  t.same((await bob.get('/v1/batches')).body.data, [])
  const cancel = async () =>
    await fetch(`${url}/v1/batches/${id}/cancel`, { method: 'POST', headers: as('ann') })
  t.match(await (await cancel()).json(), { status: 'cancelling' })
  const ended = await ann.ended(id)
  t.equal(ended.status, 'cancelled')
  t.ok(ended.request_counts.completed < 300)
  t.equal((await cancel()).status, 400)
})

t.test('lines count towards the limits of their key, which may change', async (t) => {
  const key = (name: string, limits: Partial<ApiKey>): ApiKey => ({
    name,
    tenant: name,
    role: 'user',
    hash: hashKey(`secret-of-${name}`),
    ...limits,
  })
  // uploading and asking for the batch are two requests
  let valid = [
    key('ann', { requestsPerMinute: 4 }),
    key('bob', { tokensPerMonth: 1 }),
    key('eve', {}),
  ]
  const listed = keyRing(() => valid)
  const keys: KeyRing = {
    find: async (secret) => listed.find(secret),
    withHash: async (hash) => listed.withHash(hash),
  }
  let refused = 0
  const counters: Map<string, number>[] = []
  const limitCounters: CreateLimitCounter = () => {
    const used = new Map<string, number>()
    counters.push(used)
    const of = (hash: string) => ({ consumedPoints: used.get(hash) ?? 0, msBeforeNext: 60_000 })
    return {
      get: async (hash) => of(hash),
      async penalty(hash, points) {
        used.set(hash, of(hash).consumedPoints + points)
        if (of(hash).consumedPoints > 4) refused++
        return of(hash)
      },
    }
  }
  const folder = t.testdir({})
  const served = await batching(t, join(folder, 'batches'), {
    protocols: [
      batchesProtocol({ folder: join(folder, 'batches'), concurrency: 3 }),
      openAiProtocol(),
      usageProtocol({ folder: join(folder, 'usage') }),
    ],
    transport: { security: { keys, limitCounters } },
  })
  const { own, clock } = served
  const as = (name: string) => own({ Authorization: `Bearer secret-of-${name}` })
  const begin = async (name: string, lines: number) => {
    const { id } = (await (await as(name).upload(linesOf(lines))).json()) as { id: string }
    return (await as(name).create(id)).id
  }
  const statusOf = async (name: string, id: string) =>
    (await as(name).get(`/v1/batches/${id}`)).body
  const ann = await begin('ann', 5)
  await until(async () => {
    const { request_counts: counts } = await statusOf('ann', ann)
    return refused > 0 && counts.completed >= 2
  })
  t.match(await statusOf('ann', ann), { status: 'in_progress', request_counts: { completed: 2 } })
  const other = await begin('eve', 3)
  t.match(await as('eve').ended(other), { status: 'completed' }, 'others do not wait for it')

  const bob = await begin('bob', 8)
  await until(async () => (await statusOf('bob', bob)).request_counts.completed > 0)
  clock.advance(30_000)

  for (const used of counters) used.clear()
  refused = 0
  clock.advance(30_000)
  await until(async () => (await statusOf('ann', ann)).status === 'completed')
  t.match(await statusOf('ann', ann), { request_counts: { completed: 5, failed: 0 } })

  // an admin sees what becomes of it
  valid = [valid[0]!, key('root', { role: 'admin' })]
  await until(async () => {
    clock.advance(60_000)
    return (await statusOf('root', bob)).status === 'cancelled'
  })
  const ended = await statusOf('root', bob)
  t.ok(ended.request_counts.completed <= 3, 'those that began before tokens were used')
  t.match(ended, {
    errors: { data: [{ code: 'unauthenticated', message: /valid no longer/ }] },
  })
})

t.test('no change of a batch is lost', async (t) => {
  const folder = new BatchFolder(t.testdir({}))
  const id = `batch_${'0'.repeat(32)}`
  await folder.put('batches', { object: { id, metadata: {} } as BatchObject })
  const names = Array.from({ length: 20 }, (_, index) => `change-${index}`)
  await Promise.all(
    names.map((name) =>
      folder.update(id, ({ metadata }) => ({ metadata: { ...metadata, [name]: '' } })),
    ),
  )
  const kept = await folder.get('batches', id)
  t.same(Object.keys(kept?.object.metadata ?? {}), names)
  await t.rejects(
    folder.update(id, () => {
      throw new Error('no')
    }),
    /no/,
  )
  t.match(
    await folder.update(id, () => undefined),
    { object: { id } },
    'an error is not the last word',
  )
  t.equal(await folder.update('batch_x', () => ({})), undefined)
})

t.test('where clients never stop, a batch gets its share of the time', async (t) => {
  const clock = new SimulatedClock(1000)
  const pass = async (ms: number) => await drive(clock, pause(clock, ms))
  const throttle = new BatchThrottle({ clock, share: 0.1 })
  const token = { type: 'token' } as GenerateEvent
  const first = throttle.onSubmit(asked)
  t.notOk(throttle.isReleased)
  await pass(950)
  t.notOk(throttle.isReleased, 'the window is due, and a client waits for its first token')
  first.onEvent(token, clock.now())
  t.ok(throttle.isReleased)
  await pass(40)
  const closed: number[] = []
  throttle.onThrottled(() => closed.push(clock.now()))
  const second = throttle.onSubmit(asked)
  t.notOk(throttle.isReleased, 'a new client closes it')
  t.equal(closed.length, 1)
  await pass(10)
  second.onEvent(token, clock.now())
  await pass(50)
  t.ok(throttle.isReleased, 'then it goes on')
  await pass(20)
  t.notOk(throttle.isReleased, 'for what was left')

  let open = 0
  for (let at = 0; at < 20_000; at += 10) {
    await pass(10)
    if (throttle.isReleased) open += 10
  }
  t.ok(open > 1500 && open < 2500, `${open} of 20,000 ms`)

  const late = throttle.onSubmit(asked)
  let isForced = false
  for (let at = 0; at < 3000 && !isForced; at += 10) {
    await pass(10)
    isForced = throttle.isReleased
  }
  t.ok(isForced, 'a client that never gets its first token does not close it for ever')
  for (const watch of [late, second]) watch.onEnd(clock.now())
  await pass(200)
  t.notOk(throttle.isReleased)
  first.onEnd(clock.now())
  t.ok(throttle.isReleased, 'nobody waits')

  const never = new BatchThrottle({ clock, share: 0 })
  never.onSubmit(asked).onEvent(token, clock.now())
  await pass(50_000)
  t.notOk(never.isReleased)
})

t.test('however many lines wait for clients, Node warns of no leak', async (t) => {
  const warnings = warningsIn(t)
  const throttle = new BatchThrottle({ clock: new SimulatedClock(1000), share: 0 })
  const client = throttle.onSubmit(asked)
  const { signal } = new AbortController()
  const lines = Array.from({ length: 20 }, async () => {
    await throttle.released(AbortSignal.any([signal]))
    return throttle.onThrottled(() => {})
  })
  client.onEnd(1000)
  for (const stopWatching of await Promise.all(lines)) stopWatching()
  t.same(await warnings(), [])
})

t.test('a batch leaves the engine when a client comes, and goes on the same', async (t) => {
  const clock = new SimulatedClock(1000)
  const backend = new FakeBackend({ clock, stepMs: () => 10, slots: 4 })
  const engine = createEngine({ backend, policy: firstComeFirstServed, clock })
  const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
  const throttle = new BatchThrottle({ clock, share: 0 })
  const directory = { open: () => client, list: () => ['fake'], nameOf: () => 'fake' } as never
  const ends: unknown[] = []
  const keys: unknown[] = []
  const observer: RequestObserver = {
    onSubmit({ key }) {
      keys.push(key)
      return { onEvent() {}, onEnd: (_now, error) => void ends.push(error) }
    },
  }
  const watched = watchEngines(directory, { observers: [throttle, observer], clock })
  const lines = yieldingEngines(watched, throttle, { clock, random: systemRandom }).open()
  const request: GenerateRequest = {
    prompt: { tokens: [5, 6, 7] },
    maxTokens: 60,
    sampling: { temperature: 1, seed: 3, ignoreEos: true },
  }
  const collect = async (events: AsyncIterable<GenerateEvent>) => {
    const heard: GenerateEvent[] = []
    for await (const event of events) heard.push(event)
    return heard
  }
  const shown = (heard: readonly GenerateEvent[]) =>
    heard.map((event) =>
      event.type === 'end'
        ? [event.reason, event.usage.generatedTokens]
        : event.type === 'token'
          ? event.token
          : 0,
    )
  const alone = await drive(clock, collect(client.submit(request)))
  const key = { name: 'ann', role: 'user', tenant: 'ann', hash: '' } as const
  const batch = requestScope.run({ key }, async () => await collect(lines.submit(request)))
  const besides: number[] = []
  const other = { prompt: { tokens: [9, 9] }, maxTokens: 4, sampling: { ignoreEos: true } }
  const visit = async () => {
    for await (const event of watched.open().submit(other)) {
      if (event.type === 'token') besides.push(engine.statistics().running)
    }
  }
  for (const wait of [55, 130, 40]) {
    await drive(clock, pause(clock, wait))
    await drive(clock, visit())
  }
  const resumed = await drive(clock, batch)
  t.same(shown(resumed), shown(alone), 'the same tokens, one start and one end')
  t.equal(besides.length, 12)
  t.ok(Math.max(...besides) <= 1, 'nothing ran beside the others')
  t.equal(ends.filter((error) => error === goesOn).length, 3)
  t.equal(ends.filter((error) => error === undefined).length, 4)
  const ann = ['ann', 'ann', 'ann', 'ann']
  t.same(keys.filter(Boolean), ann, 'each part belongs to the key of the first')

  const leaving = new AbortController()
  const left = collect(lines.submit(request, { signal: leaving.signal }))
  await drive(clock, pause(clock, 55))
  const visitor = throttle.onSubmit(asked)
  await drive(clock, pause(clock, 55))
  t.equal(ends.at(-1), goesOn)
  leaving.abort()
  await t.rejects(drive(clock, left), { code: 'cancelled' })
  t.match(
    ends.slice(8),
    [{ code: 'cancelled' }],
    'one that is cancelled while it pauses is told of',
  )
  visitor.onEnd(clock.now())

  const limited = collect(lines.submit({ ...request, timeoutMs: 1000 }))
  await drive(clock, pause(clock, 55))
  const guest = throttle.onSubmit(asked)
  await drive(clock, pause(clock, 5000))
  guest.onEnd(clock.now())
  t.same(shown(await drive(clock, limited)), shown(alone), 'its time limit stands still meanwhile')
})

t.test('what a batch embeds waits for clients, too', async (t) => {
  const clock = new SimulatedClock(1000)
  const throttle = new BatchThrottle({ clock, share: 0 })
  const vector = { vector: [1], promptTokens: 1 }
  const client = { embed: async () => vector }
  const directory = { open: () => client, list: () => ['fake'], nameOf: () => 'fake' } as never
  const lines = yieldingEngines(directory, throttle, { clock, random: systemRandom }).open()
  const visit = throttle.onSubmit(asked)
  let made: unknown
  const embedding = lines.embed({ text: 'a' }).then((one) => (made = one))
  await drive(clock, pause(clock, 1000))
  t.equal(made, undefined)
  visit.onEnd(clock.now())
  t.equal(await embedding, vector)
})

t.test('clients have their first tokens as soon beside a batch as without one', async (t) => {
  /** 60 clients that come at any time, with 40 tokens of prompt; the times to their first tokens. */
  const side = async (workers: number) => {
    const clock = new SimulatedClock(1000)
    // A batch's prompt takes 200 ms.
    const stepMs: FakeBackendOptions['stepMs'] = (batch) =>
      10 + batch.reduce((sum, { tokens }) => sum + tokens.length, 0)
    const backend = new FakeBackend({ clock, stepMs, slots: 2, batchSize: 256 })
    const engine = createEngine({ backend, policy: firstComeFirstServed, clock })
    const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
    const throttle = new BatchThrottle({ clock, share: 0 })
    const directory = { open: () => client, list: () => ['fake'], nameOf: () => 'fake' } as never
    const watched = watchEngines(directory, { observers: [throttle], clock })
    const lines = yieldingEngines(watched, throttle, { clock, random: systemRandom }).open()
    let made = 0
    const ask = (length: number, maxTokens: number): GenerateRequest => {
      const family = 1 + (made++ % 240)
      const tokens = Array.from({ length }, (_, index) => 4 + ((family * (index + 7)) % 250))
      return { prompt: { tokens }, maxTokens, cache: false, sampling: { ignoreEos: true, seed: 1 } }
    }
    const over = new AbortController()
    const firsts: number[] = []
    let answered = 0
    const visit = async (at: number) => {
      await new Promise<void>((resolve) => void clock.at(at, resolve))
      const heard = []
      for await (const { type } of watched.open().submit(ask(40, 4))) {
        if (type === 'token') heard.push(clock.now() - at)
      }
      firsts.push(heard[0]!)
    }
    const work = async () => {
      while (!over.signal.aborted) {
        for await (const event of lines.submit(ask(190, 20), over)) {
          if (event.type === 'end') answered++
        }
      }
    }
    const working = Array.from({ length: workers }, async () => await work().catch(() => {}))
    const visits = Array.from({ length: 60 }, (_, nth) => visit(2000 + 997 * nth + 13 * (nth % 7)))
    await drive(clock, Promise.all(visits))
    over.abort()
    await drive(clock, Promise.all(working))
    t.same(backend.violations, [])
    return { firsts: firsts.sort((a, b) => a - b), answered, interrupts: backend.interrupts }
  }
  const [alone, beside] = [await side(0), await side(2)]
  for (const nth of [30, 59]) {
    const ratio = beside.firsts[nth]! / alone.firsts[nth]!
    t.ok(ratio <= 1.1, `${ratio.toFixed(2)} of ${alone.firsts[nth]} ms`)
  }
  t.ok(beside.answered > 60, `${beside.answered} lines meanwhile`)
  t.ok(beside.interrupts > 30, `${beside.interrupts} steps were left`)
})
