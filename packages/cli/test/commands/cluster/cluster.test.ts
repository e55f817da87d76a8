import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import type { ReadableStream } from 'node:stream/web'
import { fileURLToPath } from 'node:url'
import { ClusterFront, RedisBus } from '@cllm/cluster'
import { RedisServer, whyNoRedis } from '../../../../cluster/test/redis-server.js'
import { type EngineClient, type GenerateRequest, silentLogger } from '@cllm/core'
import type { BatchObject } from '@cllm/http-koa'
import t, { type Test } from 'tap'
import { localSources } from '../../models/local-sources.js'
import { inside } from '../../inside.js'
import { sharedBatchStore } from '../../../src/batches/shared-batches.js'
import { clusterKeys, openClusterKeys } from '../../../src/keys/cluster-keys.js'
import { childrenOf } from '../../plain-process.js'
import { model } from '../../serve-process.js'
import { listening, start } from '../../start-process.js'
import { until } from '../../until.js'

const usual = ['--threads', '1', '--gpu', 'off', '--log-level', 'error', '--slots', '8']

/** Starts a worker and waits until it serves. */
async function workerWith(t: Test, ...args: readonly string[]) {
  const child = start(t, ['worker', ...args])
  const errors = text(child.stderr)
  const line = await Promise.race([
    once(createInterface(child.stdout), 'line').then(String),
    errors,
  ])
  const [, id = '', served] = /^worker (\S+) serves (\S+)/.exec(line) ?? []
  t.not(id, '', `a worker serves: ${line}`)
  return { child, id, served, errors, kill: () => child.kill('SIGKILL') }
}

/** {@link workerWith} stories15m. */
async function startWorker(t: Test, url: string, ...more: readonly string[]) {
  const worker = await workerWith(t, '--cluster', url, '--model', model, ...usual, ...more)
  t.match(worker.served, /^stories15m/)
  return worker
}

const schema = {
  type: 'object',
  properties: { name: { type: 'string', maxLength: 40 }, age: { type: 'integer' } },
  required: ['name', 'age'],
}

/** Greedy, sampled and constrained requests. */
const requests: readonly GenerateRequest[] = Array.from({ length: 16 }, (_, index) => ({
  prompt: {
    text: `Story ${index}. Once upon a time there was a ${['cat', 'boy', 'tree'][index % 3]}`,
  },
  maxTokens: 60,
  sampling:
    index % 3 === 0
      ? { temperature: 0, ignoreEos: true }
      : index % 3 === 1
        ? { temperature: 0.9, topP: 0.95, repetitionPenalty: 1.1, seed: index, ignoreEos: true }
        : { temperature: 0.8, seed: index, constraint: { type: 'json-schema' as const, schema } },
}))

/** Serves all of them at once; calls back with the number of tokens so far. */
async function serveAll(client: EngineClient, onTokens: (count: number) => void = () => {}) {
  let count = 0
  return await Promise.all(
    requests.map(async (request) => {
      const tokens: number[] = []
      let content = ''
      let reason: string | undefined
      for await (const event of client.submit(request)) {
        if (event.type === 'token') {
          tokens.push(event.token)
          onTokens(++count)
        }
        if (event.type !== 'start') content += event.text
        if (event.type === 'end') reason = event.reason
      }
      return { tokens, content, reason }
    }),
  )
}

/** Starts `cllm serve`; returns its URL. */
async function startServer(t: Test, ...args: readonly string[]) {
  const { child, url: base } = await listening(t, start(t, ['serve', '--port', '0', ...args]))
  return { child, base }
}

/** The events of a stream. */
async function* eventsOf({ body }: Response): AsyncGenerator<string> {
  const input = Readable.fromWeb(body as ReadableStream)
  for await (const line of createInterface({ input })) {
    if (line.startsWith('data: ')) yield line.slice('data: '.length)
  }
}

async function post(url: string, body: object, key?: string): Promise<Response> {
  return await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
    },
    body: JSON.stringify(body),
  })
}

/** As the first server said. */
let fingerprint: string | undefined

/** Where there is a cluster, this runs while that waits. */
async function oneOfSeveral(t: Test): Promise<void> {
  await t.test('one of several engines of a server is killed: no token is lost', async (t) => {
    const served = ['--model', model, ...usual]
    const { child, base } = await startServer(t, '--workers', '2', ...served)
    const engines = childrenOf(child)
    t.equal(engines.length, 2)
    const answer = async (index: number, onBegun: () => void) => {
      const response = await post(`${base}/v1/completions`, {
        prompt: `Story ${index}. Once upon a time`,
        max_tokens: 150,
        temperature: index % 2,
        seed: index,
        ignore_eos: true,
        stream: true,
      })
      let content = ''
      let computedBy = ''
      for await (const data of eventsOf(response)) {
        if (data === '[DONE]') continue
        const chunk = JSON.parse(data) as {
          system_fingerprint: string
          choices: { text: string }[]
        }
        if (computedBy === '') onBegun()
        content += chunk.choices[0]?.text ?? ''
        computedBy = chunk.system_fingerprint
      }
      return { content, computedBy }
    }
    const all = async (onBegun: () => void = () => {}) =>
      await Promise.all(Array.from({ length: 8 }, (_, index) => answer(index, onBegun)))
    const undisturbed = await all()
    t.ok(undisturbed.every(({ content }) => content.length > 100))
    t.match(undisturbed[0]?.computedBy, /^b0-[0-9a-f]{16}$/)
    // A request without a token is placed again, which is no move: the first one to have a token is the other one's.
    process.kill(engines[1]!, 'SIGSTOP')
    let begun = 0
    const disturbed = await all(() => {
      if (++begun > 1) return
      process.kill(engines[0]!, 'SIGKILL')
      process.kill(engines[1]!, 'SIGCONT')
    })
    t.same(disturbed, undisturbed)

    const metrics = await (await fetch(`${base}/metrics`)).text()
    const [, moved = '0'] = /cllm_requests_moved_total\{.*exact="true"\} (\d+)/.exec(metrics) ?? []
    t.ok(Number(moved) >= 1, `${moved} requests moved`)
    const health = await (await fetch(`${base}/health?level=detailed`)).json()
    t.match(health, { data: { workers: [{ id: 'engine-1' }, { id: 'engine-2', state: 'up' }] } })
    const one = await post(`${base}/generate`, { prompt: 'Once', max_tokens: 2 })
    const id = one.headers.get('x-request-id')
    const report = await (await fetch(`${base}/requests/${id}`)).json()
    t.match(report, { data: { id, worker: /^engine-[12]$/, moves: 0 } })
    fingerprint = undisturbed[0]?.computedBy
  })
}

/** Asks a route that answers in JSON. */
const ask = async (at: string, body?: object) =>
  (await (body ? await post(at, body) : await fetch(at)).json()) as Record<string, unknown>

/** What one front keeps is there at the other. */
async function sharesResponses(t: Test, base: string, other: string): Promise<void> {
  const path = '/v1/responses'
  const asked = { input: 'Once', max_output_tokens: 8, temperature: 0 }
  const first = await ask(base + path, asked)
  const next = { ...asked, input: 'upon', previous_response_id: first['id'] }
  t.match(await ask(other + path, next), { object: 'response', output: [{}] })
  t.same(await ask(`${other}${path}/${String(first['id'])}`), first)

  const { id } = await ask(`${base}/v1/conversations`, {})
  const texts = Array.from({ length: 16 }, (_, index) => `text ${index}`)
  const add = async (content: string, index: number) => {
    const at = `${index % 2 === 0 ? base : other}/v1/conversations/${String(id)}/items`
    return await ask(at, { items: [{ role: 'user', content }] })
  }
  await Promise.all(texts.map(add))
  const { data } = await ask(`${other}/v1/conversations/${String(id)}/items?limit=100`)
  const added = data as { content: [{ text: string }] }[]
  t.same(new Set(added.map(({ content: [{ text: said }] }) => said)), new Set(texts))
}

interface Batch {
  readonly id: string
  readonly status: string
  readonly output_file_id: string
  readonly error_file_id: string
  readonly request_counts: { readonly completed: number }
}

/** The batches of a front. */
function batchesOf(base: string) {
  const path = '/v1/completions'
  return {
    path,
    upload: async (content: string) => {
      const form = new FormData()
      form.set('purpose', 'batch')
      form.set('file', new Blob([content]), 'lines.jsonl')
      const response = await fetch(`${base}/v1/files`, { method: 'POST', body: form })
      return ((await response.json()) as { id: string }).id
    },
    create: async (file: string) => {
      const asked = { input_file_id: file, endpoint: path }
      return (await (await post(`${base}/v1/batches`, asked)).json()) as Batch
    },
    /** Asks for a batch until it is so: until it has ended. */
    ended: async (
      { id }: Pick<Batch, 'id'>,
      isSo = ({ status }: Batch) => /completed|cancelled|failed/.test(status),
    ) => {
      for (;;) {
        const batch = (await (await fetch(`${base}/v1/batches/${id}`)).json()) as Batch
        if (isSo(batch)) return batch
        // The server has other things to do than to answer this.
        await pause(20)
      }
    },
    content: async (file: string) => {
      const text = await (await fetch(`${base}/v1/files/${file}/content`)).text()
      return text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { custom_id: string; response: { status_code: number } })
    },
  }
}

/** Batches whose front died before it had made their job, with how each one ends. */
async function withoutJobs(store: ReturnType<typeof sharedBatchStore>) {
  const ends = [
    ['batch_1', 'validating', 'failed'],
    ['batch_2', 'cancelling', 'cancelled'],
  ] as const
  const created_at = Math.floor(Date.now() / 1000)
  const about = { object: 'file', bytes: 1, created_at, filename: 'lines.jsonl' } as const
  await store.create({ object: { ...about, id: 'file-1', purpose: 'batch' } }, Buffer.from('{'))
  for (const [id, status] of ends) {
    const request_counts = { total: 0, completed: 0, failed: 0 }
    const expires_at = created_at + 86_400
    const batch = { id, status, input_file_id: 'file-1', endpoint: '/v1/completions' }
    const object = { ...batch, created_at, expires_at, request_counts } as BatchObject
    await store.put('batches', { object })
  }
  return ends.map(([id, , end]) => [id, end] as const)
}

/**
 * A batch and a response whose front and only worker die. Both are looked for anew after some seconds: resolves with
 * what checks how they went on, and with the worker that took over.
 */
async function loseAll<Last>(
  t: Test,
  url: string,
  worker: { readonly kill: () => void },
  startLast: () => Promise<Last>,
) {
  const bus = await RedisBus.connect({ url })
  const lost = await withoutJobs(sharedBatchStore(bus))
  const kept = ['--responses', 'cluster', '--cache-key', 'secret', '--cluster-batches']
  const [front, { base }] = await Promise.all([
    startServer(t, '--cluster', url, ...kept),
    startServer(t, '--cluster', url, ...kept),
  ])
  await sharesResponses(t, front.base, base)
  const { path, upload, create, ended, content } = batchesOf(base)
  for (const [id, status] of lost) t.match(await ended({ id }), { status }, 'it lost its job')
  await bus.close()

  const long = {
    input: 'Once',
    max_output_tokens: 100,
    temperature: 1,
    seed: 1,
    ignore_eos: true,
  }
  const { output } = await ask(`${base}/v1/responses`, long)
  const count = 120
  const lines = Array.from({ length: count }, (_, index) => {
    const body = { model: 'stories15m-q8_0', prompt: `Story ${index}`, max_tokens: 6 }
    const wrong = index === 7 ? { max_tokens: 'x' } : {}
    return JSON.stringify({
      custom_id: `line-${index}`,
      method: 'POST',
      url: path,
      body: { ...body, ...wrong },
    })
  })
  const input = await upload(lines.join('\n'))
  const batch = await create(input)
  const { completed } = (await ended(batch, (now) => now.request_counts.completed >= 30))
    .request_counts
  const begun = await ask(`${front.base}/v1/responses`, { ...long, background: true })
  t.match(begun, { status: 'in_progress' })
  front.child.kill('SIGKILL')
  worker.kill()
  t.ok(completed < count - 1, `${completed} lines are done`)
  const last = await startLast()
  const goOn = async (t: Test): Promise<void> => {
    const done = await ended(batch)
    t.match(done, {
      status: 'completed',
      request_counts: { total: count, completed: count - 1, failed: 1 },
    })
    const answers = await content(done.output_file_id)
    const expected = [...lines.keys()].filter((index) => index !== 7)
    t.same(
      answers.map(({ custom_id }) => custom_id),
      expected.map((index) => `line-${index}`),
      'each line once, in their order',
    )
    t.match(await content(done.error_file_id), [
      { custom_id: 'line-7', response: { status_code: 400 } },
    ])
    t.equal((await fetch(`${base}/v1/files/${input}`, { method: 'DELETE' })).status, 200)
    t.equal((await fetch(`${base}/v1/files/${input}`)).status, 404)

    let found: Record<string, unknown> = {}
    await until(async () => {
      found = await ask(`${base}/v1/responses/${String(begun['id'])}`)
      return found['status'] !== 'in_progress'
    }, 100)
    const textIn = (items: unknown) => (items as { content: unknown }[])[0]?.content
    t.same([found['status'], textIn(found['output'])], ['incomplete', textIn(output)])

    const wrong = await ended(await create(await upload('{')))
    t.match(wrong, { status: 'failed', errors: { data: [{ line: 1 }] } })
    const slow = lines.map((line) => line.replace('"max_tokens":6', '"max_tokens":200')).join('\n')
    const cancelled = await create(await upload(slow))
    const cancel = `${base}/v1/batches/${cancelled.id}/cancel`
    t.match(await (await post(cancel, {})).json(), { status: 'cancelling' })
    t.equal((await ended(cancelled)).status, 'cancelled')
    t.equal((await post(cancel, {})).status, 400)
  }
  return { last, goOn }
}

const missing = whyNoRedis()
if (missing !== undefined) await oneOfSeveral(t)

t.test('workers that are killed lose no token', { skip: missing ?? false }, async (t) => {
  const redis = await RedisServer.start()
  t.teardown(async () => await redis.kill())
  const { url } = redis
  const readyFile = join(t.testdir({}), 'ready')
  const [migrating, ...workers] = await Promise.all([
    startWorker(t, url, '--drain-migrate'),
    ...[1, 2, 3].map(async () => await startWorker(t, url)),
  ])
  const startLast = async () =>
    await startWorker(t, url, '--ready-file', readyFile, '--drain-timeout', '9999999')
  const bus = await RedisBus.connect({ url })
  const front = new ClusterFront({ id: 'front-of-test', bus })
  await front.start()
  t.teardown(async () => {
    await front.close()
    await bus.close()
  })
  const client = front.client('stories15m-q8_0')
  await client.ready()
  const undisturbed = await serveAll(client)
  t.ok(undisturbed.every(({ tokens, reason }) => tokens.length > 3 && reason !== undefined))
  const counts = client.workers.counts

  await t.test('a worker is stopped that hands over its streams', async (t) => {
    const ended = once(migrating.child, 'exit')
    const others = (signal: NodeJS.Signals): void => {
      for (const { child } of workers) process.kill(-child.pid!, signal)
    }
    // A request without a token is placed again, which is no move: the first one to have a token is the migrating one's.
    others('SIGSTOP')
    const answers = await serveAll(client, (count) => {
      if (count > 1) return
      migrating.child.kill('SIGTERM')
      others('SIGCONT')
    })
    t.same(answers, undisturbed)
    t.same(await ended, [0, null])
    t.ok(counts.movedExactly >= 1, `${counts.movedExactly} requests moved`)
    counts.movedExactly = 0
  })

  await t.test('a worker dies, and then another one', async (t) => {
    const answers = await serveAll(client, (count) => {
      if (count === 60) workers[0]?.kill()
      if (count === 300) workers[1]?.kill()
    })
    t.same(answers, undisturbed)
    t.ok(counts.movedExactly >= 2, `${counts.movedExactly} requests moved`)
    t.equal(counts.movedInexactly, 0)
  })

  await t.test('Redis dies and comes back empty', async (t) => {
    let back: Promise<void> = Promise.resolve()
    const answers = await serveAll(client, (count) => {
      if (count === 120) back = redis.kill().then(async () => await redis.restart())
    })
    await back
    t.same(answers, undisturbed)
  })

  const { last, goOn } = await loseAll(t, url, workers[2]!, startLast)
  await oneOfSeveral(t)

  await t.test('a worker that is stopped while it fetches its model has not failed', async (t) => {
    const folder = t.testdir({})
    const sources = await localSources(folder)
    t.teardown(() => sources.close())
    const spec = sources.upload('test/stories', 'stories.gguf', await readFile(model))
    sources.halt()
    const env = { HF_ENDPOINT: sources.env['HF_ENDPOINT'], CLLM_CACHE: join(folder, 'models') }
    const child = start(t, ['worker', '--cluster', url, '--model', spec, ...usual], env)
    await once(createInterface(child.stderr), 'line') // fetching …
    child.kill('SIGTERM')
    t.same(await once(child, 'exit'), [0, null])
  })

  await t.test('the commands of a cluster', async (t) => {
    const keys = ['--cluster-keys', '--requests-per-minute', '2', '--log-level', 'error']
    const [{ base }, added] = await Promise.all([
      startServer(t, '--cluster', url, ...keys),
      inside(['keys', 'add', 'anna', '--role', 'admin'], { CLLM_CLUSTER: url }),
    ])
    t.equal(added.code, 0, added.stderr)
    const key = added.stdout.trim()
    const asked = { prompt: 'Once upon a time', max_tokens: 5, temperature: 0 }
    t.equal((await post(`${base}/v1/completions`, asked)).status, 401)
    // The front reads the keys several times a second.
    let answer: unknown
    await until(async () => {
      const response = await post(`${base}/v1/completions`, asked, key)
      answer = await response.json()
      return response.status !== 401
    })
    t.match(answer, {
      model: 'stories15m-q8_0',
      system_fingerprint: fingerprint,
      usage: { completion_tokens: 5 },
    })

    const admin = { authorization: `Bearer ${key}` }
    const shared = await fetch(`${base}/admin/keys`, { headers: admin })
    t.match(await shared.json(), { data: [{ name: 'anna', role: 'admin', asks: true }] })
    const nobody = `${base}/admin/keys?name=bert`
    const refused = await fetch(nobody, { method: 'DELETE', headers: admin })
    t.match(await refused.json(), { error: /there is no key "bert"/ })

    t.equal((await fetch(`${base}/health/ready`)).status, 200)
    const { stdout: out } = await inside(['cluster', '--json', '--cluster', url])
    const listed = JSON.parse(out) as { id: string; state: string; fingerprint: string }[]
    t.ok(
      listed.some(({ id, state }) => id === last.id && state === 'up'),
      out,
    )
    t.same(
      [...new Set(listed.map((worker) => worker.fingerprint))],
      [fingerprint],
      'the same on one machine',
    )

    const stranger = await RedisBus.connect({ url })
    const model = { id: 'stories15m-q8_0' }
    const old = { kind: 'worker', id: 'old-1', state: 'up', host: 'elsewhere', info: { model } }
    await stranger.announce('old-1', JSON.stringify(old), 600_000)
    const shown = await inside(['cluster', '--cluster', url])
    t.match(
      shown.stdout,
      /old-1.*incompatible.*stories15m[^]*speak the cluster protocol 1, this cllm/,
    )
    t.match(
      (await inside(['cluster', '--json', '--cluster', url])).stdout,
      /"state":"incompatible"/,
    )
    const refusal = await inside(['cluster', 'drain', 'old-1', '--cluster', url])
    t.match([refusal.code, refusal.stderr], [2, /old-1 is of another version/])
    // The front looks at the list twice a second.
    const detailed = `${base}/health?level=detailed`
    let health = ''
    await until(async () => {
      health = await (await fetch(detailed)).text()
      return health.includes('incompatible')
    })
    t.match(JSON.parse(health), { data: { healthy: true, workers: [{ state: 'up' }] } })
    t.match(health, '{"id":"old-1","state":"incompatible","slots":0,"open":0}')
    await stranger.withdraw('old-1')

    const record = JSON.parse((await stranger.members()).get(last.id) ?? '{}') as object
    await stranger.announce('dead-1', JSON.stringify({ ...record, id: 'dead-1' }), 600_000)
    t.match((await inside(['cluster', '--cluster', url])).stdout, /dead-1 +│? *lost/)
    const lost = await inside(['cluster', 'drain', 'dead-1', '--cluster', url])
    t.match([lost.code, lost.stderr], [2, /dead-1 is lost/])
    await stranger.withdraw('dead-1')
    await stranger.close()

    t.equal((await inside(['keys', 'revoke', 'anna', '--cluster', url])).code, 0)
    const revokedAt = performance.now()
    await until(async () => (await post(`${base}/v1/completions`, asked, key)).status === 401)
    const ms = performance.now() - revokedAt
    t.comment(`refused ${ms} ms after it was revoked`)
  })

  await t.test('a batch and a response outlive their front and all workers', goOn)

  await t.test('a worker is drained', async (t) => {
    const wrong = await inside(['cluster', 'drain', `${last.id.slice(0, -1)}x`, '--cluster', url])
    t.equal(wrong.code, 2)
    t.match(wrong.stderr, `did you mean "${last.id}"`)
    t.equal(existsSync(readyFile), true)
    const exit = once(last.child, 'exit')
    const drained = await inside(['cluster', 'drain', last.id, '--migrate', '--cluster', url])
    t.same([drained.code, drained.stderr], [0, `${last.id} drains\n`])
    t.same(await exit, [0, null])
    t.notMatch(await last.errors, 'TimeoutOverflowWarning', 'a timer of months is none of 1 ms')
    t.equal(existsSync(readyFile), false, 'a probe sees that it has gone')
  })
})

t.test('a cluster that is not there is told at once', async (t) => {
  for (const command of ['serve', 'worker']) {
    const there = ['--cluster', 'redis://127.0.0.1:1', '--model', model]
    const { code, stderr } = await inside([command, ...there], { CLLM_PORT: '0' })
    t.equal(code, 1)
    t.match(stderr, /error: The cluster at redis:\/\/127.0.0.1:1 cannot be reached/)
  }

  const child = start(t, ['worker', '--cluster', 'redis://127.0.0.1:1', '--model', model], {
    CLLM_DRAIN_MIGRTE: 'true',
  })
  t.match(await text(child.stderr), /unknown environment variable CLLM_DRAIN_MIGRTE; did you mean/)
})

t.test('a front that may not open the batches ends', { skip: missing ?? false }, async (t) => {
  const rights = ['on', '>FRONT', '~*', '&*', '+@all', '-info']
  const server = await RedisServer.start('--user', 'front', ...rights)
  t.teardown(async () => await server.kill())
  const there = ['--cluster', server.urlFor('front', 'FRONT'), '--cluster-batches']
  const child = start(t, ['serve', ...there, '--model', model], { CLLM_PORT: '0' })
  // Its output ends with it.
  const told = await text(child.stderr)
  t.match(told, /NOPERM.*users\.acl/)
  t.match(told, /"settings":\["model.spec"\].*settings of workers do nothing at a front/)
})

t.test('a key of a newer version is refused alone', { skip: missing ?? false }, async (t) => {
  const server = await RedisServer.start()
  const bus = await RedisBus.connect({ url: server.url })
  const told: unknown[] = []
  const logger = { ...silentLogger, error: (fields: object) => void told.push(fields) }
  const store = clusterKeys(bus)
  const anna = await store.add({ name: 'anna', tenant: 'a', role: 'user' })
  const keys = JSON.parse(String(await bus.command('GET', 'cllm:keys'))) as { keys: object[] }
  const newer = { ...keys.keys[0], name: 'auditor', role: 'auditor', hash: '0'.repeat(64) }
  const text = JSON.stringify({ keys: [newer, ...keys.keys] })
  await bus.command('SET', 'cllm:keys', text)
  const ring = await openClusterKeys(bus, { apiKey: null, file: null }, logger)
  t.match(ring.find(anna), { name: 'anna' })
  t.equal(ring.withHash(newer.hash), undefined)
  t.match(told, [{ key: 'auditor', err: /role/ }])
  await t.rejects(store.remove('anna'), { message: /keys\.0\.role/ })
  t.equal(await bus.command('GET', 'cllm:keys'), text, 'what it cannot write again stays')
  ring.close()
  await bus.close()
  await server.kill()
})

t.test(
  'what one machine has encoded is found by another',
  { skip: missing ?? false },
  async (t) => {
    const redis = await RedisServer.start()
    t.teardown(async () => await redis.kill())
    const folder = t.testdir({ model: '' })
    const there = ['--cluster', redis.url]
    const plugin = fileURLToPath(new URL('../serve/filing-plugin.js', import.meta.url))
    const backend = ['--plugin', plugin, '--backend', 'filing', '--model', join(folder, 'model')]
    const options = ['--backend-options', '{"mmprojPath":"any"}', '--log-level', 'error']
    await Promise.all(
      ['one', 'other'].map(async (disk) => {
        const own = ['--cache-disk', join(folder, disk)]
        await workerWith(t, ...there, ...backend, ...options, ...own)
      }),
    )
    const { base } = await startServer(t, ...there, '--router', 'round-robin')
    const prompt = { prompt_string: 'See <__media__>!', multimodal_data: [btoa('seen')] }
    for (let nth = 0; nth < 2; nth++) {
      t.equal((await post(`${base}/completion`, { prompt, n_predict: 1 })).status, 200)
    }
    const metrics = await (await fetch(`${base}/metrics`)).text()
    const outcomes = [...metrics.matchAll(/cllm_encodes_total\{.*outcome="(.*)"\} ([1-9])\n/g)]
    t.same(outcomes.map(([, outcome, count]) => `${count} ${outcome}`).toSorted(), [
      '1 encoded',
      '1 found',
    ])
  },
)
