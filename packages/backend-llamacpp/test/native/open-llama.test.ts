import { spawnSync } from 'node:child_process'
import { truncate, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { silentLogger } from '@cllm/core'
import { writeSyntheticModel } from '@cllm/gguf'
import { GgufFileType } from 'node-llama-cpp'
import t from 'tap'
import { checkCells, loadModel } from '../open-tiny.js'
import { openLlama } from '../../src/native/open-llama.js'
import { checkBindings } from '../../src/native/addon/addon-bindings.js'
import { hasNoGpu, openForCpu } from '../../src/native/addon/opened-llama.js'
import { binaryPackages, findBinary, gpuKinds } from '../../src/native/binaries.js'
import { quantizationOf, readGgufFile } from '../../src/native/gguf-file.js'
import { readGgufFileInfo } from '../../src/native/node-llama-cpp.js'
import { nodeLlamaCppVersion } from '../../src/native/native.js'

t.test('every native call that is used', async (t) => {
  const modelPath = join(t.testdir(), 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out: modelPath, seed: 1 })
  const llama = await openLlama('off', silentLogger)
  t.equal(llama.gpu, false)
  t.ok(llama.mathCores >= 1)
  const free = await llama.freeMemory()
  t.ok(free.ram > 1e8, 'free memory is in bytes')
  t.match(free, { vram: 0, unified: false })

  const loaded = await loadModel({
    modelPath,
    gpuLayers: 'auto',
    contextSize: 512,
    mmap: true,
    mlock: false,
    path: 'addon',
  })
  const { native } = loaded
  t.equal(loaded.gpuLayers, 0)
  t.ok(loaded.vocabularySize > 256)
  t.type(loaded.chatTemplate, 'string')

  const end = native.tokenEos()
  t.same([...native.tokenize('<|im_end|>', true)], [end])
  t.ok(native.tokenize('<|im_end|>', false).length > 1)
  t.equal(native.detokenize(native.tokenize('a b', false), false), 'a b')
  t.equal(native.getTokenString(end), '<|im_end|>')
  t.equal(native.getTokenAttributes(end) & 8, 8, 'a control token')
  t.ok(native.isEogToken(end))
  t.notOk(native.isEogToken(97))
  t.equal(native.getVocabularyType(), 2)
  t.equal(native.shouldPrependBosToken(), false)
  t.type(native.tokenBos(), 'number')
  t.equal(native.getTrainContextSize(), 512)
  t.ok(native.getTotalParameters() > 100_000)
  t.ok(native.getTotalSize() > 100_000)

  const settings = { contextSize: 512, sequences: 2, batchSize: 64, threads: 1 } as const
  const context = await loaded.createContext({
    ...settings,
    flashAttention: 'auto',
    kvCacheType: 'f16',
  })
  if (context === undefined) throw new Error('there is no context')
  t.equal(context.getThreads(), 1)

  const tokens = native.tokenize('Once upon a time', false)
  const last = tokens.length - 1
  const sampler = loaded.createSampler()
  sampler.applyConfig({ temperature: 0, seed: 1 })
  const runs = [
    { sequence: 0, position: 0, tokens: [...tokens], outputs: [0, last] },
    { sequence: 1, position: 0, tokens: [5], outputs: [0] },
  ]
  t.equal(await context.decodeBatch(runs), true, 'the addon aborts no pass')
  const drawn = await context.sampleToken(last, sampler)
  t.ok(drawn >= 0 && drawn < loaded.vocabularySize)
  t.equal(await context.sampleToken(last, sampler), drawn, 'greedy draws repeat')
  t.equal(await context.sampleToken(1, sampler), -1, 'no logits were asked for there')
  sampler.applyConfig({
    temperature: 1,
    seed: 1,
    topK: 10,
    topP: 0.9,
    minP: 0.01,
    repeatPenalty: 1.1,
    repeatPenaltyMaxTokens: 64,
    repeatPenaltyTokens: tokens,
    repeatPenaltyPresencePenalty: 0.1,
    repeatPenaltyFrequencyPenalty: 0.1,
    tokenBiasKeys: Uint32Array.of(7),
    tokenBiasValues: Float32Array.of(1000),
  })
  t.equal(await context.sampleToken(last, sampler), 7, 'the bias is applied')
  sampler.applyConfig({ temperature: 0, seed: 1 })
  t.equal(await context.sampleToken(last, sampler), drawn, 'what is left out is off again')

  await checkCells(t, context, last)

  const gap = { sequence: 0, position: 9, tokens: [5], outputs: [] }
  await t.rejects(context.decodeBatch([gap]), Error, 'a gap is refused')

  const quantized = { ...settings, kvCacheType: 'q8_0' } as const
  const without = await loaded.createContext({ ...quantized, flashAttention: false })
  t.equal(without, undefined, 'q8_0 values need flash attention')
  const q8 = await loaded.createContext({ ...quantized, flashAttention: true })
  t.ok(q8)
  await q8?.dispose()

  sampler.dispose()
  t.throws(() => sampler.applyConfig({ temperature: 0, seed: 1 }), /disposed/)
  await context.dispose()
  await loaded.dispose()
})

const isRoot = process.getuid?.() === 0
// root may lock all memory unless it gives up the right to
const limited = `ulimit -l 64 && exec ${isRoot ? 'setpriv --bounding-set -ipc_lock' : ''} "$@"`
const skip = spawnSync('sh', ['-c', limited, 'sh', 'true']).status !== 0 && 'no limit can be set'

t.test('a limit on locked memory is told', { skip }, async (t) => {
  const modelPath = join(t.testdir(), 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out: modelPath, seed: 1 })
  const { href } = new URL('../../dist/native/open-llama.js', import.meta.url)
  const program = `
    const { openLlama } = await import('${href}')
    const nothing = () => {}
    const warn = (_, text) => {
      console.log(text)
      process.exit()
    }
    const logger = { debug: nothing, info: nothing, warn, error: nothing }
    const door = await (await openLlama('off', logger)).openDoor('ffi')
    const options = { gpuLayers: 0, contextSize: 64, mmap: true, mlock: true }
    await door.loadModel({ ...options, modelPath: ${JSON.stringify(modelPath)} })
    setInterval(nothing, 1000) // the log comes from other threads`
  const node = [process.execPath, '--input-type=module', '--eval', program]
  const { stdout, stderr } = spawnSync('sh', ['-c', limited, 'sh', ...node], {
    encoding: 'utf8',
    timeout: 60_000,
  })
  t.match(stdout, /failed to mlock.*\n.*RLIMIT_MEMLOCK/, stderr)
})

t.test('the addon alone', async (t) => {
  t.ok(hasNoGpu('linux', () => false))
  t.notOk(hasNoGpu('linux', (path) => path === '/dev/dri'))
  t.notOk(hasNoGpu('darwin', () => false))
  const addon = await openForCpu(() => {})
  t.ok(addon.mathCores >= 1)
  t.ok((await addon.freeMemory()).ram > 1e8, 'in bytes')
  const bindings = createRequire(import.meta.url)(findBinary('cpu')!.file) as object
  const { getSystemMemoryInfo } = bindings as Record<string, () => Promise<object>>
  t.match(await getSystemMemoryInfo!(), { total: Number }, 'of the addon itself')
  t.ok(checkBindings(bindings))
})

t.test('a GPU that is not there', async (t) => {
  const gpu = process.platform === 'darwin' ? 'cuda' : 'metal'
  await t.rejects(openLlama(gpu, silentLogger), {
    code: 'invalid_configuration',
    message: new RegExp(`on this machine, got ${gpu}`),
    details: { field: 'gpu' },
  })
})

t.test('libraries are found by their packages, in the version that is known here', async (t) => {
  t.same(gpuKinds('linux', 'x64'), ['cuda', 'vulkan'])
  t.same(gpuKinds('darwin', 'arm64'), ['metal'])
  t.same(gpuKinds('linux', 'arm'), [])
  const [cpu = ''] = binaryPackages('cpu')
  const require = createRequire(import.meta.url)
  const manifest = join(dirname(require.resolve('node-llama-cpp')), '..', 'package.json')
  const { optionalDependencies } = require(manifest) as { optionalDependencies: object }
  for (const machine of ['linux x64', 'linux arm64', 'darwin arm64', 'darwin x64', 'win32 x64']) {
    const [platform = '', arch = ''] = machine.split(' ')
    for (const kind of ['cpu', ...gpuKinds(platform, arch)] as const) {
      const packages = binaryPackages(kind, platform, arch)
      for (const name of packages) t.ok(name in optionalDependencies, name)
    }
  }
  t.match(findBinary('cpu')?.file, `${cpu}/bins/`)
  if (`${process.platform} ${process.arch}` !== 'linux x64') return

  await t.rejects(openLlama('vulkan', silentLogger), { message: /run: cllm gpu add vulkan$/ })
  const packed = (version: string) => ({
    'package.json': JSON.stringify({ version }),
  })
  const folder = t.testdir({
    node_modules: {
      '@node-llama-cpp': {
        'linux-x64-cuda': packed(nodeLlamaCppVersion),
        'linux-x64-cuda-ext': packed(nodeLlamaCppVersion),
        'linux-x64-vulkan': packed('3.0.0'),
      },
    },
  })
  t.equal(findBinary('vulkan', folder), undefined, 'of another version')
  const bins = (name: string) => join(folder, 'node_modules/@node-llama-cpp', name, 'bins', name)
  const older = bins('linux-x64-cuda-ext')
  t.same(findBinary('cuda', folder), {
    file: join(bins('linux-x64-cuda'), 'llama-addon.node'),
    older,
  })
  await t.rejects(openLlama('cuda', silentLogger), { message: /run: cllm gpu add cuda$/ })
  await t.rejects(openLlama('cuda', silentLogger, folder), {
    message: /library for gpu 'cuda' does not work here \(Cannot find module/,
  })
})

t.test('the names of quantizations are those of node-llama-cpp', (t) => {
  const names = Object.entries(GgufFileType).filter(([, value]) => typeof value === 'number')
  for (const [name, value] of names) {
    t.equal(quantizationOf(value), name.replace(/^(MOSTLY|ALL)_/, ''))
  }
  t.equal(quantizationOf(undefined), 'unknown')
  t.equal(quantizationOf(names.length), 'unknown')
  t.end()
})

t.test('internals that have changed', (t) => {
  class AddonContext {
    init() {}
  }
  for (const [bindings, missing] of [
    [undefined, 'AddonContext.init'],
    [{ AddonContext }, 'AddonContext.initBatch'],
  ] as const) {
    t.throws(() => checkBindings(bindings), {
      code: 'internal',
      details: { missing, expected: nodeLlamaCppVersion },
      message: new RegExp(`node-llama-cpp@${nodeLlamaCppVersion}`),
    })
  }
  t.end()
})

t.test('the head of a GGUF file is what node-llama-cpp reads of it', async (t) => {
  const path = join(t.testdir(), 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out: path, seed: 1 })
  const { metadata, tensors } = await readGgufFile(path)
  const theirs = await readGgufFileInfo(path)
  const { general, qwen3 } = theirs.metadata as unknown as Record<string, object>
  t.same({ ...(metadata['general'] as object) }, general)
  t.match(qwen3, { block_count: Number })
  t.same(JSON.parse(JSON.stringify(metadata['qwen3'])), JSON.parse(JSON.stringify(qwen3)))
  const shapes = theirs.fullTensorInfo?.map(({ name, dimensions }) => ({ name, dimensions }))
  t.same(tensors, shapes)
  t.match(metadata['tokenizer'], { ggml: { tokens: [], model: 'gpt2' } }, 'without the vocabulary')
})

const integer = (value: number) => Buffer.from(Uint32Array.of(value).buffer)
const size = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer)
const text = (value: string) => Buffer.concat([size(Buffer.byteLength(value)), Buffer.from(value)])
const field = (name: string, type: number, ...value: Buffer[]) =>
  Buffer.concat([text(name), integer(type), ...value])
const gguf = (fields: readonly Buffer[], tensors: readonly string[] = [], version = 3) =>
  Buffer.concat([
    Buffer.from('GGUF'),
    integer(version),
    size(tensors.length),
    size(fields.length),
    ...fields,
    ...tensors.flatMap((name) => [text(name), integer(1), size(7), integer(0), size(0)]),
  ])

t.test('heads of all kinds: long ones, split ones, broken ones', async (t) => {
  const folder = t.testdir({})
  const write = async (name: string, bytes: Buffer) => {
    await writeFile(join(folder, name), bytes)
    return join(folder, name)
  }
  const tokens = Array.from({ length: 150_000 }, (_, index) => text(`token ${index}`))
  const long = gguf(
    [
      field('a.tokens', 9, integer(8), size(tokens.length), Buffer.concat(tokens)),
      field('a.types', 9, integer(5), size(5000), Buffer.alloc(20_000)),
      field('a.layers', 9, integer(4), size(3), integer(1), integer(0), integer(2)),
      field('a.nested', 9, integer(9), size(1), integer(8), size(1), text('x')),
      field('b', 8, text('a value')),
      field('b.c', 11, Buffer.from(BigInt64Array.of(-5n).buffer)),
      field('__proto__.polluted', 7, Buffer.of(1)),
      ...[0, 1, 2, 3, 6, 7, 12].map((type) =>
        field(`n.${type}`, type, Buffer.alloc(type === 12 ? 8 : [1, 1, 2, 2, 0, 0, 4, 1][type]!)),
      ),
    ],
    ['one'],
  )
  t.ok(long.length > 2 ** 21, 'it is read in steps')
  const head = await readGgufFile(await write('long.gguf', long))
  t.same(JSON.parse(JSON.stringify(head)), {
    metadata: {
      a: { tokens: [], types: [], layers: [1, 0, 2], nested: [] },
      b: 'a value',
      'b.c': -5,
      ['__proto__']: { polluted: true },
      n: { 0: 0, 1: 0, 2: 0, 3: 0, 6: 0, 7: false, 12: 0 },
    },
    tensors: [{ name: 'one', dimensions: [7] }],
  })
  t.notOk('polluted' in {})

  const first = await write('m-00001-of-00002.gguf', gguf([], ['one'], 2))
  await t.rejects(readGgufFile(first), { code: 'ENOENT' }, 'its other part is missing')
  await write('m-00002-of-00002.gguf', gguf([], ['two']))
  const { tensors } = await readGgufFile(first)
  t.same(
    tensors.map(({ name }) => name),
    ['one', 'two'],
  )
  const broken: [Buffer, RegExp][] = [
    [Buffer.from('PK…'), /^expected "GGUF" at its beginning$/],
    [Buffer.from('GG'), /ends in its head/],
    [long.subarray(0, 2_000_000), /ends in its head/],
    [gguf([], [], 1), /version 2 or 3, found 1/],
    [gguf([field('a', 99)]), /no type 99/],
    [gguf([field('a', 9, integer(99), size(9999))]), /no type 99/],
    [gguf([field('a', 8, size(2 ** 52))]), /ends in its head/],
  ]
  for (const [bytes, message] of broken) {
    const reading = readGgufFile(await write('broken.gguf', bytes))
    await t.rejects(reading, { message, code: undefined })
  }
  const damaged = await write('damaged.gguf', gguf([field('a', 8, size(2 ** 52))]))
  await truncate(damaged, 2 ** 29)
  const reading = readGgufFile(damaged)
  await t.rejects(reading, { message: /at most 134217728 bytes/, code: undefined })
})
