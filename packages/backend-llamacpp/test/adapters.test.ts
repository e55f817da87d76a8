import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type AppliedAdapter,
  type Backend,
  CllmError,
  createEngine,
  type GenerateRequest,
  nextNumber,
  PluginRegistry,
  systemClock,
  systemRandom,
} from '@cllm/core'
import { LocalEngineClient } from '@cllm/host'
import { firstComeFirstServed, testBackend } from '@cllm/testing'
import { type LoraMatrices, text, writeGguf, writeLoraAdapter } from '@cllm/gguf'
import t, { type Test } from 'tap'
import { LlamaCppAdapters } from '../src/model/adapters.js'
import { openTiny, sampling } from './open-tiny.js'
import { writeTinyModel } from './tiny-models.js'

const width = 32
const prompt = [1, 264, 270, 271, 280, 265, 264, 290]

const fail = (): never => {
  throw new Error('not to be called')
}

/** Numbers from −1 to 1. */
function random(seed: number, count: number): Float32Array {
  let state = seed
  return Float32Array.from({ length: count }, () => {
    state = nextNumber(state)
    return state / 2 ** 31 - 1
  })
}

/** What an adapter of rank 2 adds to two matrices of the tiny model. */
function matricesOf(seed: number): LoraMatrices[] {
  return ['blk.0.attn_q.weight', 'blk.1.attn_output.weight'].map((weight, index) => ({
    weight,
    rank: 2,
    a: random(seed + index, 2 * width),
    b: random(seed + 10 + index, 2 * width),
  }))
}

async function writeAdapter(t: Test, name: string, matrices: readonly LoraMatrices[], alpha = 0) {
  const out = join(t.testdirName, `${name}.gguf`)
  await writeLoraAdapter({ out, architecture: 'llama', matrices, alpha })
  return out
}

/** Greedy tokens after the prompt. */
async function greedy(
  backend: Backend,
  adapters: readonly AppliedAdapter[],
  slot = 0,
  count = 24,
): Promise<number[]> {
  backend.release(slot)
  const sampler = backend.createSampler(sampling({ temperature: 0, ignoreEos: true }), prompt)
  const tokens = [...prompt]
  for (let computed = 0; tokens.length < prompt.length + count;) {
    const rest = tokens.slice(computed)
    const outputs = [tokens.length - 1]
    const item = { slot, position: computed, tokens: rest, outputs, sampler, adapters }
    const [drawn] = (await backend.step([item])).outputs
    computed = tokens.length
    tokens.push(drawn![0]!.token)
  }
  sampler.dispose()
  return tokens.slice(prompt.length)
}

t.test(
  'an adapter does what its matrices do in the weights, as strongly as its scale says',
  async (t) => {
    const backend = await openTiny(t, { kind: 'llama' })
    const matrices = matricesOf(1)
    const path = await writeAdapter(t, 'random', matrices)
    const strong = await writeAdapter(t, 'alpha', matrices, 4) // alpha ÷ rank is 2
    const zero = matrices.map((one) => ({ ...one, b: new Float32Array(one.b.length) }))
    const nothing = await writeAdapter(t, 'zero', zero)
    const load = async (path: string) => (await backend.adapters?.load(path))!
    const [adapter, twice, none] = [await load(path), await load(strong), await load(nothing)]
    t.not(adapter.key, twice.key)

    const merged = async (scale: number) => {
      const modelPath = join(t.testdirName, `merged-${scale}.gguf`)
      await writeTinyModel(modelPath, 'llama', {}, [], (name, values) => {
        for (const { weight, rank, a, b } of matrices) {
          if (name !== weight) continue
          for (let index = 0; index < values.length; index++) {
            const [row, column] = [Math.floor(index / width), index % width]
            for (let r = 0; r < rank; r++) {
              values[index]! += scale * b[row * rank + r]! * a[r * width + column]!
            }
          }
        }
      })
      return await greedy(await openTiny(t, { modelPath }), [])
    }
    const base = await greedy(backend, [])
    t.same(await greedy(backend, [{ adapter: none, scale: 1 }]), base, 'zeros change nothing')
    for (const scale of [1, -0.5, 2]) {
      const expected = await merged(scale)
      t.notSame(expected, base)
      t.same(await greedy(backend, [{ adapter, scale }]), expected, `scale ${scale}`)
    }
    t.same(await greedy(backend, [{ adapter: twice, scale: 1 }]), await merged(2), 'alpha')
    const both = [adapter, twice].map((adapter) => ({ adapter, scale: 0.5 }))
    t.same(await greedy(backend, both), await merged(1.5), 'two at once')
    t.same(await greedy(backend, []), base, 'and none again')

    const embed = async (adapters: readonly AppliedAdapter[] = []) =>
      (await backend.embed!([prompt], adapters))[0]!
    const plain = await embed()
    const adapted = await embed([{ adapter, scale: 1 }])
    t.notSame(adapted, plain, 'embeddings have them, too')
    t.same(await embed([{ adapter: none, scale: 1 }]), plain)
    t.same(await embed(), plain, 'and none again')

    adapter.dispose()
    t.same(await greedy(backend, []), base)
    t.same(await greedy(backend, [{ adapter: twice, scale: 0.5 }]), await merged(1))
    const sampler = backend.createSampler(sampling(), prompt)
    const item = { position: 0, tokens: prompt, outputs: [] }
    const mixed = [
      { ...item, slot: 1, sampler, adapters: [{ adapter: twice, scale: 1 }] },
      { ...item, slot: 2, sampler },
    ]
    await t.rejects(backend.step(mixed), /different adapters/)
    const strange = [{ adapter: { key: 'strange', dispose() {} }, scale: 1 }]
    await t.rejects(backend.step([{ ...item, slot: 1, adapters: strange }]), /of this backend/)
  },
)

t.test('the contract of a backend with adapters', async (t) => {
  const backend = await openTiny(t, { kind: 'llama' })
  const adapter = await writeAdapter(t, 'contract', matricesOf(40))
  await testBackend(t, () => backend, { adapter })
  const unified = await openTiny(t, { kind: 'llama', kvUnified: 'on' })
  await writeAdapter(t, 'contract', matricesOf(40))
  await testBackend(t, () => unified, { adapter })
})

t.test('a file that is no adapter of the model is refused, and why is said', async (t) => {
  const backend = await openTiny(t, { kind: 'llama' })
  const [query] = matricesOf(1)
  const at = (name: string) => join(t.testdirName, name)
  const gguf = async (name: string, fields: Record<string, string>, matrices = [query!]) => {
    await writeLoraAdapter({ out: at(name), architecture: 'llama', matrices })
    const metadata = Object.fromEntries(
      Object.entries({
        'general.type': 'adapter',
        'general.architecture': 'llama',
        'adapter.type': 'lora',
        ...fields,
      }).map(([key, value]) => [key, text(value)]),
    )
    const tensors = matrices.map(({ weight, a, rank }) => ({
      name: `${weight}.lora_a`,
      type: 'F32' as const,
      shape: [a.length / rank, rank],
      data: () => [new Uint8Array(a.buffer)],
    }))
    await writeGguf(at(name), metadata, tensors)
    return at(name)
  }
  const whole = await writeAdapter(t, 'whole', matricesOf(3))
  const bytes = await readFile(whole)
  await writeFile(at('cut.gguf'), bytes.subarray(0, bytes.length - 300))
  await writeFile(at('text.gguf'), 'This is no GGUF file at all, as one can see.')
  const wide = { weight: 'blk.0.attn_q.weight', rank: 1, a: random(1, 64), b: random(2, 64) }
  const strange = { ...wide, weight: 'blk.9.attn_q.weight' }
  const cases: [string | Promise<string>, RegExp, string?][] = [
    [at('nowhere.gguf'), /nowhere\.gguf cannot be read/, 'model_unavailable'],
    [t.testdirName, /cannot be read: expected a GGUF file, found a folder/, 'model_unavailable'],
    ['/dev/null', /cannot be read: /, 'model_unavailable'],
    [at('text.gguf'), /text\.gguf: expected an adapter in a GGUF file[^T]*beginning$/],
    [gguf('model.gguf', { 'general.type': 'model' }), /general\.type "adapter".*got model/],
    [gguf('vector.gguf', { 'adapter.type': 'control' }), /adapter\.type "lora".*got control/],
    [gguf('qwen.gguf', { 'general.architecture': 'qwen3' }), /qwen\.gguf.*"llama".*got qwen3/],
    [gguf('half.gguf', {}), /both \.lora_a and \.lora_b.*lora_a alone/],
    [gguf('empty.gguf', {}, []), /with matrices, instead got none/],
    [writeAdapter(t, 'wide', [wide]), /attn_q\.weight as matrices for weights of 32×32.*64×1/],
    [writeAdapter(t, 'strange', [strange]), /blk\.9.*another model/],
    [at('cut.gguf'), /cut\.gguf: expected a whole adapter.*cut off/],
  ]
  for (const [path, expected, code = 'model_invalid'] of cases) {
    await t.rejects(backend.adapters!.load(await path), { code, message: expected })
  }
  t.same((await greedy(backend, [])).length, 24, 'the backend goes on')
  const base = { modelPath: at('gone.gguf'), architecture: 'llama' }
  const orphans = new LlamaCppAdapters({ loadAdapter: fail }, { setAdapters: fail }, base)
  const gone = {
    code: 'backend_failed',
    message: /gone\.gguf, the adapter's model, cannot be read/,
  }
  await t.rejects(orphans.load(whole), gone, 'the adapter is not to blame')
  const addon = await openTiny(t, { kind: 'llama', native: 'addon' })
  t.equal(addon.adapters, undefined)
})

t.test('an engine with two adapters gives each request the text that it gives alone', async (t) => {
  const backend = await openTiny(t, { kind: 'llama', slots: 4 })
  const parts = { backend, policy: firstComeFirstServed, options: { cacheRamBytes: 1e6 } }
  const engine = createEngine({ ...parts, clock: systemClock })
  const client = new LocalEngineClient(engine, new PluginRegistry(), systemRandom)
  for (const [index, name] of ['one', 'two'].entries()) {
    const path = await writeAdapter(t, name, matricesOf(20 + 5 * index))
    t.same(await client.loadAdapter({ name, path }), { id: index, name, path, scale: 1 })
  }
  const ask = async (request: Partial<GenerateRequest>): Promise<number[]> => {
    const tokens: number[] = []
    const all = { prompt: { tokens: prompt }, maxTokens: 20, ...request }
    const settings = { temperature: 0, ignoreEos: true }
    for await (const event of client.submit({ ...all, sampling: settings })) {
      if (event.type === 'token') tokens.push(event.token)
    }
    return tokens
  }
  const choices: Partial<GenerateRequest>[] = [
    {},
    { adapters: [{ adapter: 'one' }] },
    { adapters: [{ adapter: 1 }] },
    { adapters: [{ adapter: 'one', scale: 0.5 }, { adapter: 'two' }] },
    { adapters: [{ adapter: 'two', scale: 0 }] },
  ]
  const alone: number[][] = []
  for (const choice of choices) alone.push(await ask({ ...choice, cache: false }))
  t.same(alone[4], alone[0], 'scale 0 is the model alone')
  t.equal(new Set(alone.map(String)).size, 4, 'the others all differ')
  for (let round = 0; round < 2; round++) {
    t.same(await Promise.all(choices.map(ask)), alone, 'side by side, with shared prefixes')
  }
  const { slots } = await client.statistics()
  t.ok(slots.every(({ state }) => state === 'idle'))

  await t.rejects(ask({ adapters: [{ adapter: 'three' }] }), /one \(0\), two \(1\).*"three"/)
  await t.rejects(ask({ adapters: [{ adapter: 'one' }, { adapter: 0 }] }), /each adapter once/)
  const streaming = client.submit({
    prompt: { tokens: prompt },
    adapters: [{ adapter: 'one' }],
    sampling: { ignoreEos: true },
  })
  await streaming.next()
  await client.unloadAdapter('one')
  await t.rejects(ask({ adapters: [{ adapter: 'one' }] }), /model_not_found|expected two/)
  let tokens = 0
  for await (const event of streaming) tokens += Number(event.type === 'token')
  t.equal(tokens, 100, 'what uses it goes on')
  t.same(await ask({ adapters: [{ adapter: 'two' }] }), alone[2])
  // Another file of that name shares nothing with the first one.
  await client.loadAdapter({ name: 'one', path: join(t.testdirName, 'two.gguf') })
  t.same(await ask({ adapters: [{ adapter: 'one' }] }), alone[2])
  t.same(
    (await client.adapters()).map(({ id, name }) => [id, name]),
    [
      [1, 'two'],
      [2, 'one'],
    ],
  )
  const error = await client.loadAdapter({ name: 'one', path: 'x' }).catch((error) => error)
  t.ok(CllmError.isInstance(error))
  t.match(error, { code: 'invalid_request', message: /unload it first/ })
  await client.close()
})
