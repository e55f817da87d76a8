import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Recording } from '@cllm/core'
import { plainEnvironment } from '@cllm/testing'
import { resolveModel } from 'cllm'
import t from 'tap'
import { inside } from '../../inside.js'
import { listening, start } from '../../start-process.js'

const { path: model } = await resolveModel('stories15m')
const key = 'sk-canary-of-a-key-0123456789'
const canary = 'yellowcanaryprompt'

interface Line {
  readonly level: number
  readonly pid: number
  readonly msg: string
  readonly requestId?: string
  readonly [field: string]: unknown
}

const plugin = `export default {
  name: 'broken-policy', apiVersion: 1, options: { parse: (value) => value },
  register(host) {
    const create = () => ({ name: 'broken', plan() { throw new Error('broken') } })
    host.registerPolicy({ name: 'broken', doc: 'Fails.', create })
  },
}`

/** The process that serves the engine, found as an operator would. */
const childOf = (pid: number): number =>
  Number(
    execFileSync('ps', ['-o', 'pid=', '--ppid', String(pid)], {
      env: plainEnvironment(process.env),
      encoding: 'utf8',
    }).trim(),
  )

t.test('what is logged, recorded and counted of a real server', async (t) => {
  const folder = t.testdir({ 'broken.mjs': plugin })
  const crashes = join(folder, 'crashes')
  const log = join(folder, 'log.jsonl')
  const args = ['--model', model, '--slots', '2', '--threads', '1', '--gpu', 'off', '--port', '0']
  args.push('--log-level', 'info', '--log-file', log, '--recorder-folder', crashes)
  args.push('--plugin', join(folder, 'broken.mjs'))
  const server = start(t, ['serve', ...args], { CLLM_API_KEY: key })
  const { url } = await listening(t, server)
  const ask = async (path: string, body?: unknown, more: Record<string, string> = {}) =>
    await fetch(`${url}${path}`, {
      method: body === undefined ? 'GET' : path.startsWith('/admin') ? 'PUT' : 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more },
      ...(body === undefined
        ? {}
        : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
  const lines = (): Line[] =>
    readFileSync(log, 'utf8')
      .trim()
      .split('\n')
      .map((text) => JSON.parse(text) as Line)
  const counters = async (): Promise<Map<string, number>> => {
    const text = await (await ask('/metrics')).text()
    const samples = text
      .split('\n')
      .filter((sample) => /^cllm_\S+_(total|count|bucket)\b/.test(sample))
    return new Map(
      samples.map((sample) => {
        const at = sample.lastIndexOf(' ')
        return [sample.slice(0, at), Number(sample.slice(at + 1))]
      }),
    )
  }
  const sum = (samples: Map<string, number>, name: string) =>
    [...samples].reduce(
      (all, [series, value]) => (series.startsWith(`${name}{`) ? all + value : all),
      0,
    )

  const prompt = `Once upon a time there was a ${canary} who`
  const plain = { prompt, max_tokens: 6, ignore_eos: true }
  const id = { 'x-request-id': 'one-of-mine' }
  t.equal((await ask('/generate', plain, id)).status, 200)
  const page = await (await ask('/metrics')).text()
  t.match(page, /^cllm_cache_longest_pause_seconds\{model_name="[^"]+"\} 0$/m, 'nothing waited')
  await (await ask('/generate_stream', plain)).text()
  const messages = [{ role: 'user', content: prompt }]
  t.equal((await ask('/v1/chat/completions', { messages, max_tokens: 3 })).status, 200)
  t.equal((await ask('/generate', { ...plain, max_tokens: canary })).status, 400)
  t.equal((await ask('/generate', `{"prompt": "${canary}`)).status, 400)
  t.equal((await ask(`/generate?q=${canary}`, { prompt: { [canary]: 1 } })).status, 400)
  t.equal((await ask('/generate', plain, { authorization: `Bearer ${key}x` })).status, 401)
  const before = await counters()
  t.equal(sum(before, 'cllm_generation_tokens_total'), 15)

  await t.test('the log level reaches the process of the engine, a new one too', async (t) => {
    const child = childOf(server.pid!)
    const faults = () => lines().filter(({ pid, level }) => pid !== server.pid && level >= 50)
    const breakIt = async () => {
      t.equal((await ask('/admin/scheduler', { policy: 'broken' })).status, 200)
      t.equal((await ask('/generate', { ...plain, max_tokens: 1 })).status, 200)
    }
    await breakIt()
    t.equal(faults().length, 1)
    t.equal((await ask('/admin/log-level', { level: 'silent' })).status, 200)
    await breakIt()
    t.equal(faults().length, 1, 'a policy that fails is no news any more')
    t.equal((await ask('/admin/log-level', { level: 'error' })).status, 200)
    await breakIt()
    t.equal(faults().length, 2)

    const stream = await ask('/generate_stream', { ...plain, max_tokens: 200 })
    process.kill(child, 'SIGKILL')
    t.match(await stream.text(), /"done":true,"generated_tokens":200/)
    t.not(childOf(server.pid!), child)
    const loaded = lines().filter(({ pid, level }) => pid !== server.pid && level === 30)
    t.ok(loaded.length > 0, 'the first engine told what it loaded')
    t.same(new Set(loaded.map(({ pid }) => pid)), new Set([child]), 'the second one was not to')
  })

  await t.test('counters go on', async (t) => {
    const after = await counters()
    for (const [series, value] of before) {
      t.ok((after.get(series) ?? -1) >= value, `${series}: ${after.get(series)}`)
    }
    t.equal(sum(after, 'cllm_generation_tokens_total'), 15 + 3 + 200)
    t.equal(sum(after, 'cllm_requests_total'), sum(after, 'cllm_engine_requests_total'))
  })

  await t.test('the crash was recorded and can be replayed', async (t) => {
    const isWritten = () => {
      const files = readdirSync(crashes).filter((name) => name.endsWith('.json'))
      return files.length === 0 ? undefined : files
    }
    while (isWritten() === undefined) await delay(20)
    const [name = '', ...more] = isWritten() ?? []
    t.same(more, [])
    const text = readFileSync(join(crashes, name), 'utf8')
    t.notMatch(text, canary)
    t.notMatch(text, key)
    const recording = JSON.parse(text) as Recording
    t.match(recording.reason, /SIGKILL/)
    t.equal(recording.arrivals.filter(({ end }) => end === undefined).length, 1)
    const asked = (await (await ask('/admin/recorder')).json()) as Recording
    t.equal(asked.arrivals.length, 7)
    t.equal(asked.policy, 'chunked+fcfs', 'the fallback, which has taken over')
    const file = join(folder, 'asked.json')
    writeFileSync(file, JSON.stringify(asked))
    const replay = async (): Promise<string> => {
      const { code, stdout } = await inside(['simulate', '--replay', file, '--json'])
      t.equal(code, 0)
      return stdout
    }
    const first = await replay()
    t.match(JSON.parse(first), { requests: 7, summary: { requests: { ok: 7 } } })
    t.equal(await replay(), first)
  })

  server.kill('SIGTERM')
  t.same(await once(server, 'exit'), [0, null])
  const text = readFileSync(log, 'utf8')
  t.notMatch(text, canary, 'no prompt in the log')
  t.notMatch(text, 'canary-of-a-key', 'no key in the log')
  const mine = lines().filter(({ requestId }) => requestId === 'one-of-mine')
  t.match(mine, [{ msg: 'request', path: '/generate', status: 200, key: 'api-key' }])
  const requests = lines().filter(({ msg }) => msg === 'request')
  t.ok(requests.length >= 7)
  for (const { requestId } of requests) t.match(requestId, /^([0-9a-f]{32}|one-of-mine)$/)
})
