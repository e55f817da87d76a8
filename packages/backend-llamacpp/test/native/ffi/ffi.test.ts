import { join } from 'node:path'
import { silentLogger, systemClock } from '@cllm/core'
import { writeSyntheticModel } from '@cllm/gguf'
import type * as Create from '../../../src/create-llamacpp-backend.js'
import type { LlamaCppOptions } from '../../../src/llamacpp-options.js'
import * as addon from '../../../src/native/addon/opened-llama.js'
import {
  loadedLibraries,
  type NativeFunctions,
  openFfi,
} from '../../../src/native/ffi/bind-functions.js'
import { loadFfiModel } from '../../../src/native/ffi/ffi-door.js'
import { loadedGpuLibrary } from '../../../src/native/binaries.js'
import type { LoadModelOptions } from '../../../src/native/native.js'
import type { NativeModel } from '../../../src/native/native-model.js'
import type { LogitsContext } from '../../../src/native/native-context.js'
import type * as OpenLlama from '../../../src/native/open-llama.js'
import { openLlama } from '../../../src/native/open-llama.js'
import { checkCells, loadModel, recordingLogger } from '../../open-tiny.js'

import t, { type Test } from 'tap'

async function loadTiny(t: Test) {
  const modelPath = join(t.testdir(), 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out: modelPath, seed: 1 })
  const llama = await openLlama('off', silentLogger)
  const options = { gpuLayers: 'auto', contextSize: 512, mmap: true, mlock: false } as const
  const loaded = await loadModel({ ...options, modelPath })
  t.teardown(() => loaded.dispose())
  return { llama, loaded, modelPath, options }
}

const settings = {
  contextSize: 512,
  sequences: 2,
  batchSize: 64,
  threads: 2,
  flashAttention: 'auto',
  kvCacheType: 'f16',
} as const

t.test('a model says the same through the C API as through the addon', async (t) => {
  const { loaded, modelPath, options } = await loadTiny(t)
  const addon = await loadModel({ ...options, modelPath, path: 'addon' })
  t.equal(loaded.vocabularySize, addon.vocabularySize)
  t.equal(loaded.chatTemplate, addon.chatTemplate)
  t.equal(loaded.gpuLayers, addon.gpuLayers)
  const all = (model: NativeModel) => {
    const tokens = Array.from({ length: loaded.vocabularySize }, (_, token) => token)
    const texts = ['', 'a b', '<|im_end|>', 'Ünïcödé 漢字 🦙', 'a\u0000b', ' '.repeat(300)]
    return {
      tokens: tokens.map((token) => [model.getTokenAttributes(token), model.isEogToken(token)]),
      strings: tokens.map((token) => model.getTokenString(token)),
      plain: texts.map((text) => [...model.tokenize(text, false)]),
      special: texts.map((text) => [...model.tokenize(text, true)]),
      texts: texts.map((text) => model.detokenize(model.tokenize(text, true), true)),
      hidden: model.detokenize(model.tokenize('<|im_end|>x', true)),
      type: model.getVocabularyType(),
      bos: [model.tokenBos(), model.shouldPrependBosToken()],
      eos: model.tokenEos(),
      gaps: [model.prefixToken(), model.suffixToken(), model.middleToken()],
      trained: model.getTrainContextSize(),
      parameters: model.getTotalParameters(),
      size: model.getTotalSize(),
    }
  }
  t.same(all(loaded.native), all(addon.native))
  await addon.dispose()
})

t.test('a context', async (t) => {
  const { loaded } = await loadTiny(t)
  const context = (await loaded.createContext({ ...settings, outputs: 4 }))!
  t.equal(context.getThreads(), 2)
  const tokens = loaded.native.tokenize('Once upon a time', false)
  const last = tokens.length - 1
  await decode(context, tokens, [0, last])
  const first = context.logits(0)!
  const logits = context.logits(last)!
  t.equal(logits.length, loaded.vocabularySize)
  t.ok(logits.every(Number.isFinite))
  t.not(first, logits)
  t.equal(context.logits(1), undefined, 'no logits were asked for there')
  t.equal(context.logits(tokens.length), undefined, 'nor beyond the batch')

  const before = logits.slice()
  context.disposeSequence(0)
  context.setThreads(1)
  t.equal(context.getThreads(), 1)
  await decode(context, tokens, [0, last])
  t.same(context.logits(last), before, 'one thread computes the same')
  t.equal(context.logits(last), logits, 'in the same place')

  await checkCells(t, context, last)

  const run = { sequence: 0, position: 9, tokens: [5], outputs: [] }
  await t.rejects(context.decodeBatch([run]), { code: 'backend_failed' }, 'a gap is refused')
  const long = { sequence: 0, position: 2, tokens: Array<number>(64).fill(5), outputs: [] }
  await t.rejects(context.decodeBatch([long, { ...run, sequence: 1 }]), {
    code: 'backend_failed',
    message: /at most 64 tokens/,
  })

  const quantized = { ...settings, kvCacheType: 'q8_0' } as const
  const without = await loaded.createContext({ ...quantized, flashAttention: false })
  t.equal(without, undefined, 'q8_0 values need flash attention')
  await (await loaded.createContext({ ...quantized, flashAttention: true }))!.dispose()
  await context.dispose()
  await context.dispose()
  t.throws(() => context.logits(last), { code: 'backend_failed', message: /disposed/ })
  await t.rejects(context.decodeBatch([]), { code: 'backend_failed', message: /disposed/ })
})

t.test('however much of a model a GPU has, its passes are waited for', async (t) => {
  const { modelPath, options } = await loadTiny(t)
  const functions = openFfi()
  const overrideTensors = [{ pattern: 'ffn_.*', device: 'CPU' }]
  const shares = [
    { onGpu: 'none', gpuLayers: 0 },
    { onGpu: 'some', gpuLayers: 1 },
    { onGpu: 'some', gpuLayers: -1, placement: { overrideTensors } },
    { onGpu: 'some', gpuLayers: -1, placement: { devices: ['CPU'] } },
    { onGpu: 'all', gpuLayers: -1 },
    { onGpu: 'all', gpuLayers: 3 },
    { onGpu: 'all', gpuLayers: 99 },
  ] as const
  const read: (readonly number[])[] = []
  for (const { onGpu, ...share } of shares) {
    const loaded = await loadFfiModel(functions, { ...options, modelPath, ...share })
    t.equal(loaded.onGpu, onGpu)
    const layers = { none: 0, some: share.gpuLayers === 1 ? 1 : 3, all: 3 }
    t.equal(loaded.gpuLayers, layers[onGpu], 'however all of them are asked for')
    const context = (await loaded.createContext({ ...settings, outputs: 4 }))!
    await decode(context, Uint32Array.of(5, 6, 7), [2])
    read.push([...context.logits(2)!])
    t.equal(context.logitsAddress(1), undefined)
    const gap = { sequence: 0, position: 9, tokens: [5], outputs: [] }
    await t.rejects(context.decodeBatch([gap]), { code: 'backend_failed' })
    await context.dispose()
    await loaded.dispose()
  }
  for (const logits of read) {
    // Another buffer type has other kernels: the last bits may differ.
    t.ok(logits.every((logit, id) => Math.abs(logit - read[0]![id]!) < 1e-4))
  }
})

t.test('what would end the process is refused', async (t) => {
  const { loaded, options } = await loadTiny(t)
  const { native } = loaded
  for (const token of [-1, loaded.vocabularySize, 1.5]) {
    t.throws(() => native.getTokenString(token), RangeError)
    t.throws(() => native.getTokenAttributes(token), RangeError)
    t.throws(() => native.isEogToken(token), RangeError)
  }
  t.throws(() => native.detokenize(Uint32Array.of(1e6)), RangeError)
  const other = await loadTiny(t)
  await other.loaded.dispose()
  await other.loaded.dispose()
  t.throws(() => other.loaded.native.tokenize('a', false), /disposed/)
  await t.rejects(loadModel({ ...options, modelPath: 'missing.gguf' }), /load.* missing\.gguf/)
})

t.test('what is in use is freed when it is not any more', async (t) => {
  const { loaded } = await loadTiny(t)
  const open = async () => (await loaded.createContext(settings))!
  const begin = (context: LogitsContext) => decode(context, new Uint32Array(64).fill(5), [63])
  const [context, other] = [await open(), await open()]
  const pass = begin(context)
  await Promise.all([context.dispose(), context.dispose()])
  t.throws(() => context.logits(63), { code: 'backend_failed', message: /disposed/ })
  await pass

  await begin(other)
  const saving = other.saveSequence(0, false, (bytes) => new Uint8Array(bytes))
  const making = loaded.createContext({ ...settings, contextSize: 8192 })
  const loading = loaded.loadAdapter('none.gguf')
  await Promise.all([loaded.dispose(), loaded.dispose()])
  t.ok((await saving)!.length > 0)
  t.equal(await loading, undefined)
  const made = (await making)!
  await t.rejects(other.decodeBatch([]), /disposed/, 'contexts end with their model')
  await t.rejects(made.decodeBatch([]), /disposed/, 'as does one that was being made')
  await made.dispose()
  await t.rejects(loaded.createContext(settings), /disposed/)
})

t.test('a context that is made by half is freed', async (t) => {
  const { options, modelPath } = await loadTiny(t)
  const functions = openFfi()
  let freed = 0
  const lacking = {
    ...functions,
    ggml_threadpool_new: () => null,
    llama_free(...context: Parameters<typeof functions.llama_free>) {
      freed++
      functions.llama_free(...context)
    },
  } as unknown as NativeFunctions
  const loaded = await loadFfiModel(lacking, { ...options, modelPath, gpuLayers: 0 })
  await t.rejects(loaded.createContext(settings), /could not start 2 threads/)
  t.equal(freed, 1)
  await loaded.dispose()
})

t.test('the libraries of builds for GPUs are found by the names that they have', (t) => {
  for (const gpu of ['', '.cuda', '.vulkan']) {
    const others = [
      'libllama-common.so',
      'libggml-cuda.so',
      'llama-addon.node',
      'libggml-cpu-x64.so',
    ]
    const folder = `/bins/linux-x64${gpu.replace('.', '-')}`
    const files = [`libllama${gpu}.v0.5.0.so`, 'libggml-base.so', `libggml${gpu}.v0.5.0.so`]
    const [llamaFile, ggml, registry] = files.map((file) => `${folder}/${file}`)
    const paths = [...others, ...files].map((file) => `${folder}/${file}`)
    t.same(loadedLibraries(paths), { llama: llamaFile, ggml, registry })
    t.throws(() => loadedLibraries(others.map((file) => `${folder}/${file}`)), /library llama/)
    t.equal(loadedGpuLibrary('cuda', paths), `${folder}/libggml-cuda.so`)
    t.equal(loadedGpuLibrary('vulkan', paths), undefined)
    t.equal(loadedGpuLibrary(false, paths), undefined)
  }
  t.end()
})

t.test('libraries that are not what they should be', async (t) => {
  await openLlama('off', silentLogger)
  const libraries = loadedLibraries()
  t.equal(openFfi(libraries).llama_version(), '0.5.0-dev')
  t.throws(() => openFfi({ ...libraries, llama: libraries.ggml }), /llama_version/)
  t.throws(() => openFfi({ ...libraries, llama: join(t.testdir(), 'none.so') }), /none\.so/)

  const logger = recordingLogger()
  let loads = 0
  const openForCpu: typeof addon.openForCpu = async (log) => {
    const opened = await addon.openForCpu(log)
    const door = opened.door()
    const loadModel = (options: LoadModelOptions) => (loads++, door.loadModel(options))
    return { ...opened, door: () => ({ ...door, loadModel }) }
  }
  const module = await t.mockImport<typeof OpenLlama>('../../../src/native/open-llama.js', {
    '../../../src/native/addon/opened-llama.js': { ...addon, openForCpu },
    // as where koffi has no binary
    '../../../src/native/ffi/ffi-door.js': {
      ffiDoor() {
        throw new Error('no such thing')
      },
    },
  })
  const modelPath = join(t.testdir(), 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out: modelPath, seed: 1 })
  const llama = await module.openLlama('off', logger)
  const options = { gpuLayers: 0, contextSize: 512, mmap: true, mlock: false } as const
  const door = await llama.openDoor('ffi')
  t.equal(door.name, 'addon')
  const loaded = await door.loadModel({ ...options, modelPath })
  t.match(logger.lines, [{ level: 'warn', message: /no such thing.*slower/ }])
  await loaded.dispose()

  const { createLlamaCppBackend } = await t.mockImport<typeof Create>(
    '../../../src/create-llamacpp-backend.js',
    { '../../../src/native/open-llama.js': module },
  )
  const open = (options: Partial<LlamaCppOptions>, availableMemory = () => Infinity) =>
    createLlamaCppBackend(
      { modelPath, slots: 8, threads: 1, gpu: 'off', ...options },
      { clock: systemClock, logger, availableMemory },
    )
  logger.lines.length = loads = 0
  const backend = await open({})
  t.match(backend, { limits: { slots: 8, outputs: 512 }, capabilities: { samplers: false } })
  t.equal(loads, 1, 'the weights are read once')
  t.equal(logger.lines.filter(({ level }) => level === 'warn').length, 1)
  await backend.dispose()
  await t.rejects(open({ kvTokens: 512, rope: { freqScale: 0.5 } }), {
    code: 'invalid_configuration',
    message: /^kvTokens, rope: expected llama\.cpp's C API, which cannot be used here/,
  })
  await t.rejects(
    open({}, () => 5.5e6),
    { code: 'insufficient_memory' },
    'the slots cannot share cells',
  )
})

t.test('a built library that cannot be used', async (t) => {
  const { options, modelPath } = await loadTiny(t)
  const logger = recordingLogger()
  const llama = await openLlama('off', logger)
  const none = `${modelPath}-none.so`
  for (const library of [none, loadedLibraries().ggml]) {
    logger.lines.length = 0
    const door = await llama.openDoor('ffi', library)
    t.equal(door.name, 'prebuilt')
    t.equal(logger.lines.length, 1)
    t.match(logger.lines, [{ level: 'warn', message: /(none\.so|llama_version).*prebuilt/ }])
    await (await door.loadModel({ ...options, modelPath })).dispose()
  }
})

async function decode(context: LogitsContext, tokens: Uint32Array, outputs: readonly number[]) {
  await context.decodeBatch([{ sequence: 0, position: 0, tokens: [...tokens], outputs }])
}
