import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { PluginRegistry, SimulatedClock, systemClock } from '@cllm/core'
import { registerPlugin } from '@cllm/host'
import { float32, uint32 } from '@cllm/gguf'
import t from 'tap'
import { createLlamaCppBackend } from '../src/create-llamacpp-backend.js'
import { checkLlamaCppOptions, type LlamaCppOptions } from '../src/llamacpp-options.js'
import {
  checkMemory,
  paddedContext,
  planContext,
  planMemory,
  poolThatFits,
} from '../src/model/memory-plan.js'
import { type ModelShape, readModelShape } from '../src/model/model-shape.js'
import type { ContextSettings } from '../src/model/open-context.js'
import type { Llama } from '../src/native/node-llama-cpp.js'
import { gpuLayersOf, openForCpu } from '../src/native/addon/opened-llama.js'
import { openLlama } from '../src/native/open-llama.js'
import { createLlamaCppPlugin } from '../src/plugin.js'
import { MachineLoad } from '../src/threads/cores.js'
import { generate, loadModel, openTiny, recordingLogger, tinyModel } from './open-tiny.js'
import { writeTinyModel } from './tiny-models.js'

const settings = {
  slots: 16,
  contextSize: 2048,
  batchSize: 512,
  kvCacheType: 'f16',
  flashAttention: 'auto',
} as const

/** Qwen3-0.6B in Q4_K_M. */
const qwen3: ModelShape = {
  architecture: 'qwen3',
  quantization: 'Q4_K_M',
  trainingContext: 40_960,
  vocabularySize: 151_936,
  layers: 28,
  hiddenSize: 1024,
  feedForwardSize: 3072,
  attentionHeads: 16,
  keyValueHeads: 8,
  keyLength: 128,
  valueLength: 128,
  cacheElementsPerToken: 28 * 8 * 256,
  stateElementsPerSlot: 0,
  isRecurrent: false,
  looksAhead: false,
  slidingWindow: undefined,
  rmsNormEpsilon: 1e-6,
  ropeTheta: 1e6,
  pooling: 0,
  sizeBytes: 523_914_592,
}

t.test('options', async (t) => {
  const modelPath = 'model.gguf'
  t.same(checkLlamaCppOptions({ modelPath }), {
    modelPath,
    gpu: 'auto',
    gpuLayers: 'auto',
    slots: 8,
    batchSize: 512,
    kvCacheType: 'f16',
    flashAttention: 'auto',
    mmap: true,
    mlock: false,
    ignoreMemoryCheck: false,
    native: 'ffi',
    mediaCacheBytes: 268_435_456,
    mmprojOptional: false,
    mmprojOffload: true,
    poll: 5,
    padBatches: true,
  })
  const wrong: [object, RegExp][] = [
    [{}, /modelPath/],
    [{ modelPath, slots: 257 }, /256.*slots/],
    [{ modelPath, slots: 0 }, /slots/],
    [{ modelPath, slots: 20, batchSize: 10 }, /one token per slot \(20\), got 10/],
    [{ modelPath, kvCacheType: 'q8_0', flashAttention: false }, /q8_0.*needs flash attention/],
    [{ modelPath, native: 'addon', poll: 0 }, /poll.*need native 'ffi', got 'addon'/],
    [{ modelPath, native: 'addon', kvCacheType: 'q4_0' }, /need native 'ffi'/],
    [{ modelPath, kvCacheType: 'q4_1', flashAttention: false }, /q4_1.*needs flash attention/],
    [{ modelPath, rope: { scaling: 'much' } }, /rope\.scaling/],
    [{ modelPath, gpu: 'tpu' }, /gpu/],
    [{ modelPath, threads: 1.5 }, /threads/],
    [{ modelPath, contextsize: 5 }, /contextsize/],
    [{ modelPath, slots: 0, gpu: 'tpu' }, /slots.*gpu|gpu.*slots/],
  ]
  for (const [options, message] of wrong) {
    t.throws(() => checkLlamaCppOptions(options as never), {
      code: 'invalid_configuration',
      message,
    })
  }
})

t.test('the memory plan', async (t) => {
  t.equal(planMemory(qwen3, settings).text, '16 slots × 2,048 tokens = 3.8 GB')
  const half = planMemory(qwen3, { ...settings, kvCacheType: 'q8_0' })
  t.equal(half.text, '16 slots × 2,048 tokens = 2.0 GB')
  t.equal(paddedContext(1), 256)
  t.equal(paddedContext(257), 512)

  const plan = planMemory(qwen3, settings)
  const free = (ram: number, vram = 0, unified = false) => ({ ram, vram, unified })
  t.doesNotThrow(() => checkMemory(plan, settings, free(plan.total)))
  t.doesNotThrow(() => checkMemory(plan, settings, free(1e9, plan.total - 1e9)))
  t.throws(() => checkMemory(plan, settings, free(1e9, plan.total - 1e9, true)), {
    code: 'insufficient_memory',
  })
  t.throws(() => checkMemory(plan, settings, free(3e9)), {
    code: 'insufficient_memory',
    message:
      '524 MB for the model, 16 slots × 2,048 tokens = 3.8 GB and 355 MB of buffers need 4.6 GB, ' +
      'and 3.0 GB is free: lower slots (9 would fit) or contextSize, or share 2048 or more tokens ' +
      "among all slots with kvTokens, or set kvCacheType to 'q8_0'",
    details: { available: 3e9, weights: qwen3.sizeBytes },
  })
  t.throws(() => checkMemory(plan, settings, free(5e8)), { message: /smaller model/ })
  const one = { ...settings, slots: 1 }
  const message = /is free: lower contextSize, or set kvCacheType to 'q8_0'$/
  t.throws(() => checkMemory(planMemory(qwen3, one), one, free(1e9)), { message })

  const pool = { ...settings, kvTokens: 20_000 }
  t.equal(planMemory(qwen3, pool).text, '20,000 tokens for 16 slots = 2.3 GB')
  t.throws(() => checkMemory(planMemory(qwen3, pool), pool, free(2e9)), {
    message: /lower kvTokens/,
  })
  const unified = { ...settings, kvUnified: 'on' } as const
  const whole = planMemory(qwen3, { ...settings, kvTokens: 16 * 2048 })
  t.equal(planMemory(qwen3, unified).compute, whole.compute, 'a token looks at the cells of all')
  t.equal(poolThatFits(qwen3, settings, free(plan.total)), undefined, 'each has its own')
  t.equal(poolThatFits(qwen3, settings, free(6e8)), undefined, 'not one context fits')
  t.equal(poolThatFits(qwen3, { ...settings, slots: 1 }, free(6e8)), undefined)
  const kvTokens = poolThatFits(qwen3, settings, free(3e9)) ?? 0
  t.ok(kvTokens > 4 * 2048 && kvTokens < 16 * 2048, `${kvTokens} tokens fit`)
  t.ok(planMemory(qwen3, { ...settings, kvTokens }).total < 3e9)
})

t.test('a projector is counted where it is to be', async (t) => {
  const logger = recordingLogger()
  const llama = await openLlama('off', logger)
  const whole = checkLlamaCppOptions({ modelPath: 'model.gguf', ...settings })
  const load = new MachineLoad(systemClock)
  const context = {
    ...whole,
    contextSize: 2048,
    outputs: 64,
    threads: { start: 1, startAlone: 1, most: 1 },
    load,
  }
  const sees = { ...qwen3, projectorBytes: 1e9 }
  const planned = async (vram: number, given: Partial<ContextSettings> = {}) => {
    const freeMemory = async () => ({ ram: 16e9, vram, unified: false })
    const gpu = vram > 0 && ('cuda' as const)
    const settings = { ...context, ...given }
    const planned = await planContext({ ...llama, gpu, freeMemory }, sees, settings, { logger })
    return [planned.settings.mmprojOffload, planned.plan.total, logger.lines.at(-1)?.message]
  }
  const total = planMemory(qwen3, context).total + 1.6e9
  const told = (place: string) =>
    `memory: 524 MB for the model, 1.6 GB for the projector ${place}, 16 slots × 2,048 tokens = 3.8 GB, ` +
    `112 MB of buffers`
  t.same(await planned(0), [false, total, told('in RAM')])
  t.same(await planned(8e9), [true, total, told('on the GPU')])
  t.same(await planned(8e9, { mmprojOffload: false }), [false, total, told('in RAM')])
  t.same(await planned(3e9), [false, total, told('in RAM, as the GPU has little')])
  t.same(await planned(3e9, { gpuLayers: 0 }), [true, total, told('on the GPU')])
  const plan = planMemory(sees, settings)
  t.throws(() => checkMemory(plan, settings, { ram: 4e9, vram: 0, unified: false }), {
    message: /^524 MB for the model, 1\.6 GB for the projector, .* lower slots \(6 would fit\)/,
  })
  const path = await tinyModel(t)
  t.equal((await readModelShape(path, path)).projectorBytes, (await readFile(path)).length)
  t.equal((await readModelShape(path, `${path}.none`)).projectorBytes, undefined)
})

t.test('layers leave room for the projector on the GPU', async (t) => {
  const opened = await openForCpu(() => {})
  const modelPath = await tinyModel(t)
  const llama = Object.create(await opened.llama(), {
    gpu: { value: 'cuda' },
    supportsGpuOffloading: { value: true },
    vramPaddingSize: { value: 2e5 },
    getVramState: { value: async () => ({ total: 2e9, free: 1e6, used: 0, unifiedSize: 0 }) },
  }) as Llama
  const runtime = { ...opened, gpu: 'cuda' as const, llama: async () => llama }
  const layers = async (gpuReserve: number) => {
    const wanted = { gpuLayers: 'auto', contextSize: 512, mmap: true, mlock: false } as const
    return await gpuLayersOf(runtime, { ...wanted, modelPath, gpuReserve })
  }
  t.equal(await layers(0), 3)
  const some = await layers(5.5e5)
  t.ok(some > 0 && some < 3, `${some} layers`)
  t.equal(await layers(2e6), 0)
})

t.test('it covers what llama.cpp allocates', async (t) => {
  for (const kind of ['tiny', 'llama', 'gemma3', 'mamba'] as const) {
    const modelPath = await tinyModel(t, kind)
    const shape = await readModelShape(modelPath)
    const options = { gpuLayers: 0, contextSize: 256, mmap: true, mlock: false } as const
    const loaded = await loadModel({ ...options, modelPath, path: 'addon' })
    for (const tried of [
      { ...settings, contextSize: 256 },
      { ...settings, slots: 2, contextSize: 512, batchSize: 32 },
      { ...settings, slots: 1, contextSize: 1024, flashAttention: false },
    ]) {
      const { slots: sequences, batchSize, flashAttention, kvCacheType } = tried
      const context = await loaded.createContext({
        contextSize: sequences * paddedContext(tried.contextSize),
        sequences,
        batchSize,
        threads: 1,
        flashAttention,
        kvCacheType,
      })
      const { slots, compute } = planMemory(shape, tried)
      // The addon tells it, and only this test asks.
      const told = context as unknown as { getMemoryBreakdown(): { cpuRam: number } }
      const used = told.getMemoryBreakdown().cpuRam
      t.ok(slots + compute >= used, `${kind}: ${slots} + ${compute} for ${used}`)
      await context!.dispose()
    }
    await loaded.dispose()
  }
})

t.test('states of every kind of layer are counted', async (t) => {
  const elements = async (fields: Parameters<typeof writeTinyModel>[2]) => {
    const path = join(t.testdir(), 'model.gguf')
    const { stateElementsPerSlot, ...shape } = await readModelShape(
      await writeTinyModel(path, 'llama', fields),
    )
    return { each: stateElementsPerSlot / shape.layers, ...shape }
  }
  const plain = await elements({})
  t.equal(plain.each, 0)
  const { hiddenSize, attentionHeads } = plain
  const rwkv = await elements({ 'llama.wkv.head_size': uint32(8) })
  t.equal(rwkv.each, hiddenSize * (8 + 2), 'and the last two tokens')
  const shifted = { 'llama.wkv.head_size': uint32(8), 'llama.token_shift_count': uint32(1) }
  t.equal((await elements(shifted)).each, hiddenSize * (8 + 1))
  const kimi = { 'llama.kda.head_dim': uint32(16), 'llama.ssm.conv_kernel': uint32(4) }
  t.equal((await elements(kimi)).each, attentionHeads * (16 * 16 + 3 * 3 * 16))
})

t.test('loading', async (t) => {
  const modelPath = await tinyModel(t)
  const logger = recordingLogger()
  const backend = await openTiny(t, { modelPath, slots: 2, contextSize: 1000 }, logger)
  t.equal(backend.limits.contextSize, 512)
  t.equal(backend.model.id, 'tiny')
  t.match(logger.lines, [
    { level: 'warn', message: /contextSize 1000 is more.*512/ },
    { level: 'info', message: /for the model, 2 slots × 512 tokens = \d MB/ },
  ])
  const clock = systemClock
  const q8 = await openTiny(t, { modelPath, kvCacheType: 'q8_0', mmap: false })
  t.same((await q8.step([{ slot: 0, position: 0, tokens: [1], outputs: [] }])).outputs, [[]])

  const create = (path: string, availableMemory?: () => number) =>
    createLlamaCppBackend(
      { modelPath: path, threads: 1, gpu: 'off' },
      { clock, logger, ...(availableMemory && { availableMemory }) },
    )
  await t.rejects(
    create(modelPath, () => 1e6),
    { code: 'insufficient_memory', message: /8 slots × 512 tokens.*1 MB is free/ },
  )
  const small = await create(modelPath, () => 5.5e6)
  t.ok((small.limits.kvTokens ?? 0) >= 512, 'where memory is short, slots share cells')
  const told = logger.lines.find(({ message }) => message.includes('they share cells'))
  t.match(told, {
    level: 'warn',
    message: /8 slots of 512 tokens: they share cells for \d+ tokens/,
  })
  await small.dispose()
  for (const wrong of [
    { contextSize: 400, kvTokens: 300 },
    { kvTokens: 512, kvUnified: 'off' },
    { kvTokens: 512, native: 'addon' },
  ] as const) {
    await t.rejects(openTiny(t, { modelPath, ...wrong }), { code: 'invalid_configuration' })
  }
  await t.rejects(openTiny(t, { kind: 'llama', kvCacheType: 'q8_0' }), {
    code: 'invalid_configuration',
    details: { field: 'kvCacheType' },
  })
  const folder = t.testdir({ 'text.gguf': 'no model, only some text' })
  await t.rejects(create(join(folder, 'none.gguf')), {
    code: 'model_unavailable',
    message: /none\.gguf cannot be read/,
  })
  await t.rejects(create(folder), {
    code: 'model_unavailable',
    message: `${folder} cannot be read: expected a GGUF file, found a folder`,
  })
  await t.rejects(create(join(folder, 'text.gguf')), {
    code: 'model_invalid',
    message: /text\.gguf is no GGUF file/,
  })
  const bytes = await readFile(await tinyModel(t))
  await writeFile(join(folder, 'short.gguf'), bytes.subarray(0, bytes.length - 50_000))
  await t.rejects(create(join(folder, 'short.gguf')), {
    code: 'model_invalid',
    message: /llama\.cpp cannot load .*short\.gguf: tensor .* model is corrupted or incomplete/,
  })
})

t.test('times are those of the clock', async (t) => {
  const modelPath = await tinyModel(t)
  const clock = new SimulatedClock(5)
  const logger = recordingLogger()
  const backend = await createLlamaCppBackend(
    { modelPath, threads: 1, gpu: 'off' },
    { clock, logger },
  )
  const { decodeMs, sampleMs } = await backend.step([
    { slot: 0, position: 0, tokens: [1], outputs: [] },
  ])
  t.same([decodeMs, sampleMs], [0, 0])
  await backend.dispose()
  await backend.dispose()
})

t.test('a model in parts is as large as all of them', async (t) => {
  const path = await tinyModel(t)
  const { sizeBytes } = await readModelShape(path)
  t.equal(sizeBytes, (await readFile(path)).length)
  const part = (number: number) => path.replace('.gguf', `-0000${number}-of-00002.gguf`)
  await copyFile(path, part(1))
  await copyFile(path, part(2))
  t.equal((await readModelShape(part(1))).sizeBytes, 2 * sizeBytes)
})

t.test('a file recommends how to sample, and what is out of range is left out', async (t) => {
  const modelPath = await writeTinyModel(join(t.testdir(), 'sampling.gguf'), 'llama', {
    'general.sampling.temp': float32(0.6),
    'general.sampling.top_k': uint32(20),
    'general.sampling.top_p': float32(0.95),
    'general.sampling.min_p': float32(3),
    'general.sampling.penalty_repeat': float32(1.1),
    'general.sampling.penalty_last_n': uint32(32),
  })
  const { model } = await openTiny(t, { modelPath })
  const recommended = {
    temperature: 0.6,
    topK: 20,
    topP: 0.95,
    repetitionPenalty: 1.1,
    penaltyLastN: 32,
  }
  t.same(model.sampling, recommended)
  t.same((await openTiny(t)).model.sampling, {})
})

t.test('the plugin', async (t) => {
  const registry = new PluginRegistry()
  await registerPlugin(createLlamaCppPlugin(), registry)
  t.throws(() => registry.checkBackend('llamacpp', { modelPath: 'a.gguf', slot: 4 }), {
    code: 'invalid_configuration',
    message: /^backend "llamacpp": .*slot/,
  })
  const modelPath = join(t.testdir(), 'copy.gguf')
  await copyFile(await tinyModel(t), modelPath)
  const backend = await registry.createBackend(
    'llamacpp',
    { modelPath, slots: 1, threads: 1, gpu: 'off' },
    { clock: systemClock, logger: recordingLogger() },
  )
  t.equal(backend.model.id, 'copy')
  await backend.dispose()
})

t.test("what only llama.cpp's C API knows", async (t) => {
  const texts = new Map<string, string>()
  const answer = async (options: Partial<LlamaCppOptions>) => {
    const backend = await openTiny(t, { ...options, slots: 2 })
    const tokens = backend.tokenizer.encode('One day a dragon and a fox')
    const [drawn] = await generate(backend, [
      { slot: 0, tokens, count: 10, params: { temperature: 0 } },
    ])
    return { backend, text: drawn!.join() }
  }
  const { text } = await answer({})
  for (const options of [
    { ubatchSize: 4 },
    { poll: 0 },
    { threads: 2, poll: 100 },
    { kvUnified: 'on' },
    { kvCacheType: 'f32' },
    { placement: { devices: ['CPU'], overrideTensors: [{ pattern: 'blk', device: 'CPU' }] } },
    { placement: { splitMode: 'none', mainGpu: 0, tensorSplit: [1] } },
  ] as const) {
    texts.set(JSON.stringify(options), (await answer(options)).text)
  }
  t.same([...new Set(texts.values())], [text], 'the same text, however it is computed')
  const rope = { scaling: 'linear', freqScale: 0.5 } as const
  const stretched = await answer({ rope, contextSize: 1000 })
  t.equal(stretched.backend.limits.contextSize, 1000, 'twice the training context')
  t.not(stretched.text, text)
  const quantized = await answer({ kvCacheType: 'q4_0' })
  t.ok(quantized.text.length > 0)
  await t.rejects(openTiny(t, { placement: { devices: ['TPU'] } }), {
    code: 'invalid_configuration',
    message: 'devices: expected a device of CPU, got "TPU"',
  })
})
