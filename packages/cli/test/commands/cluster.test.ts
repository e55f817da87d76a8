import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { ClusterFront, RedisBus } from '@cllm/cluster'
import { RedisServer, whyNoRedis } from '@cllm/cluster/testing'
import type { EngineClient, GenerateRequest } from '@cllm/core'
import { plainEnvironment } from '@cllm/core/testing'
import t, { type Test } from 'tap'
import { bin, model } from '../serve-process.js'

const usual = ['--threads', '1', '--gpu', 'off', '--log-level', 'error', '--slots', '8']

function start(t: Test, ...args: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [bin, ...args], {
    env: plainEnvironment(process.env),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

/** What a command prints, and its exit code. */
async function run(t: Test, ...args: readonly string[]) {
  const child = start(t, ...args)
  const [out, err, [code]] = await Promise.all([
    text(child.stdout!),
    text(child.stderr!),
    once(child, 'exit') as Promise<[number]>,
  ])
  return { out, err, code }
}

/** Starts a worker with stories15m and waits until it serves. */
async function startWorker(t: Test, url: string) {
  const child = start(t, 'worker', '--cluster', url, '--model', model, ...usual)
  const errors = text(child.stderr!)
  const line = await Promise.race([
    once(createInterface(child.stdout!), 'line').then(String),
    errors,
  ])
  const [, id = ''] = /^worker (\S+) serves stories15m/.exec(line) ?? []
  t.not(id, '', `a worker serves: ${line}`)
  return { child, id, kill: () => child.kill('SIGKILL') }
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
  maxTokens: 50,
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

const missing = whyNoRedis()

t.test('workers that are killed lose no token', { skip: missing ?? false }, async (t) => {
  const redis = await RedisServer.start()
  t.teardown(async () => await redis.kill())
  const { url } = redis
  const workers = await Promise.all([1, 2, 3].map(async () => await startWorker(t, url)))
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

  await t.test('a worker dies, and then another one', async (t) => {
    const answers = await serveAll(client, (count) => {
      if (count === 100) workers[0]?.kill()
      if (count === 500) workers[1]?.kill()
    })
    t.same(answers, undisturbed)
    t.ok(counts.movedExactly >= 4, `${counts.movedExactly} requests moved`)
    t.equal(counts.movedInexactly, 0)
  })

  await t.test('Redis dies and comes back empty', async (t) => {
    let back: Promise<void> = Promise.resolve()
    const answers = await serveAll(client, (count) => {
      if (count === 200) back = redis.kill().then(async () => await redis.restart())
    })
    await back
    t.same(answers, undisturbed)
  })

  await t.test('the commands of a cluster', async (t) => {
    const served = start(t, 'serve', '--cluster', url, '--port', '0', '--log-level', 'error')
    const [line] = (await once(createInterface(served.stdout!), 'line')) as [string]
    t.match(line, /^listening on http/)
    const base = line.replace('listening on ', '')
    const response = await fetch(`${base}/v1/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ prompt: 'Once upon a time', max_tokens: 5, temperature: 0 }),
    })
    t.match(await response.json(), { model: 'stories15m-q8_0', usage: { completion_tokens: 5 } })

    t.equal((await fetch(`${base}/health/ready`)).status, 200)
    const { out } = await run(t, 'cluster', '--json', '--cluster', url)
    const listed = JSON.parse(out) as { id: string; state: string; fingerprint: string }[]
    const last = workers[2]!
    t.ok(
      listed.some(({ id, state }) => id === last.id && state === 'up'),
      out,
    )
    t.equal(new Set(listed.map(({ fingerprint }) => fingerprint)).size, 1)

    const wrong = await run(t, 'cluster', 'drain', `${last.id.slice(0, -1)}x`, '--cluster', url)
    t.equal(wrong.code, 2)
    t.match(wrong.err, `did you mean "${last.id}"`)
    const exit = once(last.child, 'exit')
    const drained = await run(t, 'cluster', 'drain', last.id, '--cluster', url)
    t.same([drained.code, drained.err], [0, `${last.id} drains\n`])
    t.same(await exit, [0, null])
  })
})

t.test('a cluster that is not there is told at once', async (t) => {
  for (const command of ['serve', 'worker']) {
    const { code, err } = await run(
      t,
      command,
      '--cluster',
      'redis://127.0.0.1:1',
      '--model',
      model,
    )
    t.equal(code, 1)
    t.match(err, /error: The cluster at redis:\/\/127.0.0.1:1 cannot be reached/)
  }
})
