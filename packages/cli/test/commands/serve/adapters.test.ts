import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { nextNumber } from '@cllm/core'
import { writeLoraAdapter } from '@cllm/gguf'
import t, { type Test } from 'tap'
import { inside } from '../../inside.js'
import { firstChildOf } from '../../plain-process.js'
import { model, serve, stop } from '../../serve-process.js'
import { until } from '../../until.js'

const width = 288
const folder = t.testdir({})

/** An adapter for stories15m of rank 1, from a seed; 0: one that changes nothing. */
async function adapter(name: string, seed: number, architecture = 'llama'): Promise<string> {
  let state = seed
  const numbers = () =>
    Float32Array.from({ length: width }, () => {
      state = nextNumber(state)
      return seed === 0 ? 0 : (state / 2 ** 31 - 1) / 4
    })
  const matrices = ['blk.1.attn_v.weight', 'blk.3.attn_output.weight'].map((weight) => ({
    weight,
    rank: 1,
    a: numbers(),
    b: numbers(),
  }))
  const out = join(folder, `${name}.gguf`)
  await writeLoraAdapter({ out, architecture, matrices })
  return out
}

const files = {
  nothing: await adapter('nothing', 0),
  sailor: await adapter('sailor', 7),
  pirate: await adapter('pirate', 11),
}

async function post(url: string, path: string, body: unknown): Promise<Response> {
  const headers = { 'content-type': 'application/json' }
  return await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
}

const prompt = 'Once upon a time'
const greedy = { prompt, temperature: 0, seed: 1 }

async function tell(t: Test, url: string, more: object, count = 40): Promise<string> {
  const response = await post(url, '/completion', { ...greedy, n_predict: count, ...more })
  const body = (await response.json()) as { content?: string }
  t.equal(response.status, 200)
  return body.content ?? ''
}

t.test('adapters are models, and requests choose them', async (t) => {
  const lora = [`nothing=${files.nothing}`, `sailor=${files.sailor}:2`]
  const args = ['--model', model, '--model-id', 'stories', '--slots', '4']
  const server = await serve(t, ...args, ...lora.flatMap((one) => ['--lora', one]))
  const { url } = server
  const json = async (path: string) => (await (await fetch(url + path)).json()) as never

  const base = await tell(t, url, {})
  const sailor = await tell(t, url, { model: 'stories:sailor' })
  t.not(sailor, base)
  t.equal(await tell(t, url, { model: 'stories:nothing' }), base, 'zeros change nothing')
  t.equal(await tell(t, url, { model: 'sailor' }), sailor, 'by its name alone, as with vLLM')
  t.equal(await tell(t, url, { lora: [{ id: 1, scale: 2 }] }), sailor, "as llama-server's clients")
  t.equal(await tell(t, url, { lora: 'sailor' }), sailor)
  t.equal(await tell(t, url, { lora: [{ name: 'sailor', scale: 0 }] }), base)
  t.not(await tell(t, url, { lora: [{ id: 1, scale: -1 }] }), sailor)

  t.match(await json('/lora-adapters'), [
    { id: 0, name: 'nothing', path: files.nothing, scale: 0 },
    { id: 1, name: 'sailor', path: files.sailor, scale: 0 },
  ])
  const names = ['stories', 'stories:nothing', 'stories:sailor']
  t.match(await json('/v1/models'), { data: names.map((id) => ({ id })) })
  t.match(await json('/v1/models/stories:sailor'), { id: 'stories:sailor', parent: 'stories' })
  t.match(await json('/models'), {
    data: names.map((id) => ({
      id,
      status: { value: 'loaded' },
      architecture: { input_modalities: ['text'] },
    })),
    models: names.map((name) => ({ name, capabilities: ['completion'] })),
  })
  const tags = names.map((name) => ({ name: name.includes(':') ? name : `${name}:latest` }))
  t.match(await json('/api/tags'), { models: tags })
  const chat = { messages: [{ role: 'user', content: 'Hi' }], max_tokens: 5, temperature: 0 }
  const answer = await post(url, '/v1/chat/completions', { ...chat, model: 'stories:sailor' })
  t.match(await answer.json(), { model: 'stories:sailor', usage: { completion_tokens: 5 } })
  const generate = { model: 'stories:sailor', prompt, raw: true, stream: false }
  const options = { temperature: 0, num_predict: 40, repeat_penalty: 1, top_k: 0, top_p: 1 }
  const told = await post(url, '/api/generate', { ...generate, options })
  t.match(await told.json(), { response: sailor })

  const metrics = await (await fetch(`${url}/metrics`)).text()
  t.match(metrics, /model_name="stories"/)
  t.match(metrics, /^cllm_slots/m)

  // Applied to all that name none.
  const defaults = [{ id: 1, scale: 2 }]
  t.equal((await post(url, '/lora-adapters', defaults)).status, 200)
  t.equal(await tell(t, url, {}), sailor)
  t.equal(await tell(t, url, { lora: [] }), base, 'an empty list is the model alone')
  t.match(await json('/lora-adapters'), [{ scale: 0 }, { scale: 2 }])
  t.equal((await post(url, '/lora-adapters', [])).status, 200)
  t.equal(await tell(t, url, {}), base)

  const load = async (lora_name: string, lora_path: string, more = {}) =>
    await post(url, '/v1/load_lora_adapter', { lora_name, lora_path, ...more })
  t.match(await (await load('pirate', files.pirate, { scale: 2 })).text(), /'pirate' added/)
  const pirate = await tell(t, url, { model: 'stories:pirate' })
  t.equal(new Set([base, sailor, pirate]).size, 3)

  // Side by side each gets the text that it gets alone; then the engine is killed.
  const choices = [{}, { lora: 'sailor' }, { lora: 'pirate' }, { lora: [{ id: 2, scale: 2 }] }]
  const expected = [base, sailor, pirate, pirate]
  t.same(await Promise.all(choices.map((choice) => tell(t, url, choice))), expected)
  const whole = await Promise.all(choices.map((choice) => tell(t, url, choice, 120)))
  await rm(files.nothing)
  const streams = choices.map((choice) => tell(t, url, { ...choice, stream: false }, 120))
  const busy = async () =>
    ((await json('/slots')) as { n_past: number }[]).every(({ n_past: tokens }) => tokens > 20)
  await until(busy)
  process.kill(await firstChildOf(server.child), 'SIGKILL')
  t.same(await Promise.all(streams), whole, 'as if nothing had happened')
  t.same(await tell(t, url, { model: 'stories:pirate' }), pirate, 'with the adapter loaded later')

  const embed = async (model: string) => {
    const made = await post(url, '/v1/embeddings', { model, input: 'the sea' })
    return ((await made.json()) as { data: { embedding: number[] }[] }).data[0]!.embedding
  }
  const vectors = await Promise.all(['stories', 'stories:pirate', 'stories:sailor'].map(embed))
  t.equal(new Set(vectors.map(([first]) => first)).size, 3, 'embeddings have adapters')

  const unload = async (lora_name: string) =>
    await post(url, '/v1/unload_lora_adapter', { lora_name })
  t.match(await (await unload('pirate')).text(), /'pirate' removed/)
  const failures: [Promise<Response>, number, RegExp][] = [
    [post(url, '/completion', { ...greedy, lora: 'pirate' }), 404, /sailor \(1\).*pirate/],
    [post(url, '/completion', { ...greedy, model: 'stories:pirate' }), 404, /stories:pirate/],
    [post(url, '/completion', { ...greedy, lora: 5 }), 400, /lora: expected the name/],
    [post(url, '/completion', { ...greedy, lora: [{ scale: 1 }] }), 400, /lora/],
    [post(url, '/v1/embeddings', { model: 'stories:nobody', input: 'x' }), 404, /stories:nobody/],
    [post(url, '/lora-adapters', [{ id: 9, scale: 1 }]), 404, /no adapter 9/],
    [post(url, '/lora-adapters', { id: 1 }), 400, /a JSON array, instead got a object/],
    [load('sailor', files.pirate), 400, /unload it first/],
    [load('other', join(folder, 'none.gguf')), 400, /none\.gguf cannot be read/],
    [load('qwen', await adapter('qwen', 5, 'qwen3')), 400, /"llama.*qwen3/],
    [unload('pirate'), 404, /pirate/],
  ]
  for (const [response, status, message] of failures) {
    const body = await (await response).text()
    t.equal((await response).status, status, body)
    t.match(body, message)
  }
  t.match(
    await (await load('sailor', files.pirate, { load_inplace: true, scale: 2 })).text(),
    /added/,
  )
  t.equal(await tell(t, url, { model: 'stories:sailor' }), pirate)
  t.equal((await post(url, '/models/unload', { model: 'stories' })).status, 200)
  t.equal(await tell(t, url, { model: 'stories:sailor' }), pirate, 'loaded again without it')
  await stop(t, server)
  t.match(await server.errors, /nothing.*left out/)
})

t.test('an adapter that cannot be loaded ends the start, and says why', async (t) => {
  const qwen = await adapter('strange', 5, 'qwen3')
  const cases: [string[], RegExp][] = [
    [['--lora', `x=${qwen}`], /strange\.gguf.*"llama", as the model has, instead got qwen3/],
    [['--lora', 'gone.gguf'], /--lora: expected a list of NAME=PATH\[:SCALE\]/],
  ]
  for (const [args, message] of cases) {
    const words = [
      'serve',
      '--port',
      '0',
      '--gpu',
      'off',
      '--log-level',
      'silent',
      '--model',
      model,
    ]
    const { code, stderr } = await inside([...words, ...args])
    t.not(code, 0)
    t.match(stderr, message)
  }
})
