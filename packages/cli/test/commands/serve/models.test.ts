import { copyFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { resolveModel } from 'cllm'
import { Ollama } from 'ollama'
import OpenAI, { NotFoundError } from 'openai'
import t from 'tap'
import { listening, start } from '../../start-process.js'
import { until } from '../../until.js'

const { path: model } = await resolveModel('stories15m')
const cache = t.testdir({
  // Holds an engine's process up while there is a file `gate`.
  'gate.cjs': `const gate = require('node:path').join(__dirname, 'gate')
    const isEngine = /engine-child/.test(process.argv[1])
    while (isEngine && require('node:fs').existsSync(gate))
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20)`,
})
const gate = join(cache, 'gate')
const file = join(cache, 'stories15m-q8_0.gguf')
await copyFile(model, file)
const args = ['--model', `a=${model}`, '--model', `b=${model}`, '--model-alias', 'gpt=b']
const usual = ['serve', '--port', '0', '--gpu', 'off', '--threads', '1', '--slots', '2']
const nodeOptions = `${process.env['CLLM_TEST_NODE_OPTIONS'] ?? ''} --require "${gate}.cjs"`
const env = { CLLM_CACHE: cache, CLLM_LOG_LEVEL: 'error', NODE_OPTIONS: nodeOptions }
const { url } = await listening(t, start(t, [...usual, ...args], env))
const ollama = new Ollama({ host: url })
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'none', maxRetries: 0 })

interface Memory {
  readonly weights_bytes: number
  readonly total_bytes: number
  readonly available_bytes: number
}

interface Listed {
  readonly id: string
  readonly status: { readonly value: string }
}

async function catalog(query: string) {
  const answer = await fetch(`${url}/models/catalog${query}`)
  return (await answer.json()) as {
    readonly available_bytes: number
    readonly data: readonly { readonly id: string; readonly total_bytes: number }[]
  }
}

async function states(): Promise<Readonly<Record<string, string>>> {
  const { data } = (await (await fetch(`${url}/models`)).json()) as { data: Listed[] }
  return Object.fromEntries(data.map(({ id, status }) => [id, status.value]))
}

const tell = async (name: string): Promise<string> => {
  const body = { model: name, prompt: 'Once upon a time', temperature: 0, max_tokens: 20 }
  return (await openai.completions.create(body)).choices[0]?.text ?? ''
}

t.test('the memory of models, before any is loaded', async (t) => {
  const memory = async (query: string) => {
    const answer = await fetch(`${url}/models/memory?${query}`)
    return { status: answer.status, ...((await answer.json()) as { data: Memory; error: string }) }
  }
  const one = await memory('model=a')
  t.match(one, { status: 200, data: { model: 'a', slots: 1, ctx_size: 4096 } })
  t.ok(one.data.total_bytes > one.data.weights_bytes && one.data.available_bytes > 0)
  const half = await memory('model=a&ctx_size=2048')
  t.equal(half.data.weights_bytes, one.data.weights_bytes)
  // 6 layers × 288 × 2 for keys and values × 2 bytes for each token, and some of the buffers
  const more = (one.data.total_bytes - half.data.total_bytes) / 2048
  t.ok(more >= 6912 && more < 10_000, `${more} bytes a token`)
  t.match(await memory('model=tinyllama-1.1b-chat'), { status: 200, data: { slots: 1 } })
  t.match(await memory('model=nothing'), { status: 404, error: /'nothing' not found/ })
  t.match(await memory(''), { status: 400, error: /Missing required field: model/ })
  t.match(await memory('model=a&slots=0'), { status: 400, error: /slots: .*1 to 4096/ })
  const [usual, larger] = [await catalog(''), await catalog('?slots=8')]
  const of = ({ data }: typeof usual) => data.find(({ id }) => id === 'qwen3-0.6b')!
  t.ok(usual.available_bytes > 0 && of(larger).total_bytes > of(usual).total_bytes)
  t.match(of(usual), { title: /Qwen3 0\.6B/, present: Boolean, size_bytes: Number })
  t.same(await states(), { a: 'unloaded', b: 'unloaded' })
})

t.test('a model that is asked to leave while it is loaded leaves at once', async (t) => {
  const post = async (path: string): Promise<number> => {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ model: 'a' })
    return (await fetch(url + path, { method: 'POST', headers, body })).status
  }
  await writeFile(gate, '')
  const loading = post('/models/load')
  await until(async () => (await states())['a'] === 'loading')
  t.equal(await post('/models/unload'), 200)
  t.equal(await loading, 503, 'it was not loaded')
  await rm(gate)
  t.same(await states(), { a: 'unloaded', b: 'unloaded' })
})

t.test('two models, each loaded at its first use', async (t) => {
  t.same(await states(), { a: 'unloaded', b: 'unloaded' })
  const texts = await Promise.all([tell('a'), tell('a'), tell('gpt'), tell('b')])
  t.equal(new Set(texts).size, 1)
  t.not(texts[0], '')
  t.same(await states(), { a: 'loaded', b: 'loaded' })
  const error: unknown = await tell('c').catch((reason: unknown) => reason)
  t.ok(error instanceof NotFoundError)
  t.match(error, { status: 404, message: /a, b, gpt/ })
  await t.rejects(ollama.show({ model: 'c' }), { status_code: 404, message: /a, b/ })
  for (const path of ['/generate', '/completion']) {
    const headers = { 'content-type': 'application/json' }
    const body = JSON.stringify({ prompt: 'x', model: 'c' })
    const response = await fetch(url + path, { method: 'POST', headers, body })
    t.equal(response.status, 404)
    t.match(await response.text(), /a, b, gpt/)
  }
})

t.test('keep_alive', async (t) => {
  const names = async () => (await ollama.ps()).models.map(({ name }) => name)
  t.same(await names(), ['a:latest', 'b:latest'])
  const unload = await ollama.generate({ model: 'a', prompt: '', keep_alive: 0 })
  t.equal(unload.done_reason, 'unload')
  t.same(await names(), ['b:latest'])
  const load = await ollama.chat({ model: 'a:latest', messages: [], keep_alive: '1h30m' })
  t.equal(load.done_reason, 'load')
  const expires = (await ollama.ps()).models.map(({ expires_at: at }) => String(at))
  t.equal(expires.length, 2)
  await t.rejects(ollama.chat({ model: 'a', messages: [], keep_alive: 'soon' }), {
    status_code: 400,
    message: /keep_alive/,
  })
})

t.test('what was counted stays when a model leaves memory, and goes on', async (t) => {
  const counted = async (): Promise<readonly number[]> => {
    const text = await (await fetch(`${url}/metrics`)).text()
    const of = (name: string): number => Number(text.split(`\n${name} `)[1]?.split('\n')[0])
    const own = ['cllm_generation_tokens_total{model_name="b"}', 'llamacpp:tokens_predicted_total']
    return own.map(of)
  }
  await tell('b')
  const before = await counted()
  t.ok(before[0]! >= 20)
  const unload = { method: 'POST', body: JSON.stringify({ model: 'b' }) }
  const headers = { 'content-type': 'application/json' }
  t.equal((await fetch(`${url}/models/unload`, { ...unload, headers })).status, 200)
  await until(async () => (await states())['b'] === 'unloaded')
  t.same(await counted(), before)
  await tell('b')
  t.same(
    await counted(),
    before.map((count) => count + 20),
  )
})

t.test('pull and delete', async (t) => {
  await t.rejects(ollama.pull({ model: '../secret' }), { name: 'ResponseError', status_code: 404 })
  const said: string[] = []
  for await (const { status } of await ollama.pull({ model: 'stories15m', stream: true })) {
    said.push(status)
  }
  t.equal(said[0], 'pulling manifest')
  t.equal(said.at(-1), 'success')
  t.match((await ollama.list()).models.at(-1), { name: 'stories15m:latest' })
  t.equal(await tell('stories15m'), await tell('a'), 'it can be used at once')
  await t.rejects(ollama.delete({ model: 'a' }), { status_code: 400, message: /its file stays/ })
  await ollama.delete({ model: 'stories15m' })
  t.match(await states(), { stories15m: 'unloaded' })
  await t.rejects(ollama.delete({ model: 'stories15m' }), {
    name: 'ResponseError',
    status_code: 404,
  })
})
