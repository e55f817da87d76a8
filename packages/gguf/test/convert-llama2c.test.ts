import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { getLlama, GgmlType, LlamaLogLevel, readGgufFileInfo } from 'node-llama-cpp'
import { convertLlama2c } from '@cllm/gguf'

const embedding = 64
const feedForward = 96
const layers = 2
const heads = 2
const keyValueHeads = 1
const vocabularySize = 300
const contextLength = 32
const headSize = embedding / heads
const keyValue = headSize * keyValueHeads

/** Parts of a checkpoint in the order of the file: name in GGUF (per layer: with `*`), elements. */
const parts: readonly (readonly [name: string, elements: number])[] = [
  ['token_embd.weight', vocabularySize * embedding],
  ['blk.*.attn_norm.weight', embedding],
  ['blk.*.attn_q.weight', embedding * embedding],
  ['blk.*.attn_k.weight', embedding * keyValue],
  ['blk.*.attn_v.weight', embedding * keyValue],
  ['blk.*.attn_output.weight', embedding * embedding],
  ['blk.*.ffn_norm.weight', embedding],
  ['blk.*.ffn_gate.weight', embedding * feedForward],
  ['blk.*.ffn_down.weight', embedding * feedForward],
  ['blk.*.ffn_up.weight', embedding * feedForward],
  ['output_norm.weight', embedding],
  ['', (contextLength * headSize) / 2],
  ['', (contextLength * headSize) / 2],
]

type Fill = (name: string, index: number) => number

function checkpoint(fill: Fill, tied = true): Buffer {
  const header = Int32Array.of(
    embedding,
    feedForward,
    layers,
    heads,
    keyValueHeads,
    tied ? vocabularySize : -vocabularySize,
    contextLength,
  )
  const weights = [
    ...parts,
    ...(tied ? [] : [['output.weight', vocabularySize * embedding] as const]),
  ]
  const floats = weights.flatMap(([name, elements]) =>
    (name.includes('*') ? [0, 1] : [0]).map((layer) =>
      Float32Array.from({ length: elements }, (_, index) =>
        fill(name.replace('*', String(layer)), index),
      ),
    ),
  )
  return Buffer.concat([header, ...floats].map((part) => Buffer.from(part.buffer)))
}

function vocabulary(): Buffer {
  const pieces = ['<unk>', '\n<s>\n', '\n</s>\n']
  for (let byte = 0; byte < 256; byte++) pieces.push(String.fromCharCode(byte))
  pieces.push(
    ' t',
    'he',
    ' the',
    ' a',
    'in',
    ' cat',
    'ca',
    'cat',
    ' ',
    't',
    'h',
    'e',
    'c',
    'a',
    'é',
  )
  while (pieces.length < vocabularySize) pieces.push(` filler${pieces.length}`)
  const size = Buffer.alloc(4)
  size.writeUInt32LE(16)
  const entries = pieces.map((piece, id) => {
    const bytes = Buffer.from(piece)
    const head = Buffer.alloc(8)
    head.writeFloatLE(id < 259 ? 0 : 259 - id)
    head.writeInt32LE(bytes.length, 4)
    return Buffer.concat([head, bytes])
  })
  return Buffer.concat([size, ...entries])
}

const random: Fill = (name, index) => {
  if (name.includes('norm')) return 1
  let hash = index + 1
  for (const letter of name) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x5bd1e995)
  return ((hash ^ (hash >>> 15)) >>> 0) / 2 ** 32 - 0.5
}

t.test('every weight arrives under its name and in its shape', async (t) => {
  const out = join(t.testdir(), 'out.gguf')
  const knownValues = new Map<string, number>()
  const known = (name: string): number => {
    if (!knownValues.has(name)) knownValues.set(name, knownValues.size + 1)
    return knownValues.get(name) ?? 0
  }
  for (const tied of [true, false]) {
    const data = Buffer.concat([checkpoint(known, tied), vocabulary()])
    const length = await convertLlama2c({ checkpoint: data, out, quantization: 'F32' })
    const file = await readFile(out)
    const { tensorInfo = [], metadata } = await readGgufFileInfo(out)
    t.equal(file.length, length)
    t.equal(tensorInfo.length, 1 + layers * 9 + 1 + (tied ? 0 : 1))
    const shapes = new Map(tensorInfo.map((info) => [info.name, info.dimensions.map(Number)]))
    t.same(shapes.get('token_embd.weight'), [embedding, vocabularySize])
    t.same(shapes.get('blk.1.attn_k.weight'), [embedding, keyValue])
    t.same(shapes.get('blk.0.ffn_down.weight'), [feedForward, embedding])
    t.equal(shapes.has('output.weight'), !tied)
    const last = tensorInfo.at(-1)
    const lastBytes = (last?.dimensions ?? []).reduce<number>((a, b) => a * Number(b), 4)
    const dataStart = length - Math.ceil(lastBytes / 32) * 32 - Number(last?.offset)
    for (const { name, dimensions, offset } of tensorInfo) {
      const elements = dimensions.reduce<number>((a, b) => a * Number(b), 1)
      const expected = Buffer.from(new Float32Array(elements).fill(known(name)).buffer)
      const start = dataStart + Number(offset)
      t.ok(file.subarray(start, start + elements * 4).equals(expected), name)
    }
    const { llama, tokenizer } = metadata as unknown as {
      llama: Record<string, unknown>
      tokenizer: { ggml: Record<string, unknown> }
    }
    t.match(llama, { context_length: contextLength, block_count: layers })
    t.match(llama['attention'], { head_count: heads, head_count_kv: keyValueHeads })
    t.match(tokenizer.ggml, { eos_token_id: 2, eot_token_id: 1, add_bos_token: true })
  }
})

t.test('a matrix whose rows are no whole blocks is not quantized, as in stories260K', async (t) => {
  const [width, inner, context] = [32, 44, 16]
  const header = Int32Array.of(width, inner, 1, 1, 1, vocabularySize, context)
  const matrices = vocabularySize * width + 4 * width * width + 3 * width * inner
  const weights = new Float32Array(matrices + 3 * width + context * width).fill(1)
  const parts = [header, weights].map((part) => Buffer.from(part.buffer))
  const out = join(t.testdir(), 'out.gguf')
  await convertLlama2c({ checkpoint: Buffer.concat([...parts, vocabulary()]), out })
  const { tensorInfo = [] } = await readGgufFileInfo(out)
  const typeOf = (name: string) => tensorInfo.find((one) => one.name === name)?.ggmlType
  t.equal(typeOf('blk.0.ffn_down.weight'), GgmlType.F32)
  t.equal(typeOf('blk.0.ffn_up.weight'), GgmlType.Q8_0)
})

t.test('llama.cpp loads it, tokenizes and generates', async (t) => {
  const folder = t.testdir({ vocabulary: '' })
  const out = join(folder, 'out.gguf')
  await convertLlama2c({ checkpoint: checkpoint(random), vocabulary: vocabulary(), out })
  const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error })
  t.teardown(() => llama.dispose())
  const model = await llama.loadModel({ modelPath: out })
  t.match(model.fileInfo.metadata.general, { name: 'stories15M', file_type: 7 })
  t.equal(model.tokens.bos, 1)
  t.ok(model.isEogToken(1 as never) && model.isEogToken(2 as never), 'both end a story')
  t.ok(model.tokens.shouldPrependBosToken)

  const the = model.tokenize('the cat')
  t.same(
    the.map((token) => model.detokenize([token], false, the)),
    [' the', ' cat'],
  )
  const strange = model.tokenize('é 世')
  t.equal(model.detokenize(strange), 'é 世', 'characters outside the vocabulary go as bytes')
  t.ok(strange.includes((3 + 0xe4) as never))

  const context = await model.createContext({ contextSize: contextLength, threads: 1 })
  const output: number[] = []
  for await (const token of context.getSequence().evaluate(the, { temperature: 0 })) {
    output.push(token)
    if (output.length === 8) break
  }
  t.equal(output.length, 8)
})

t.test('a file that is something else, or cut short, is refused', async (t) => {
  const out = join(t.testdir(), 'out.gguf')
  const whole = checkpoint(random)
  const convert = (checkpoint: Uint8Array) => convertLlama2c({ checkpoint, out })
  await t.rejects(convert(Buffer.from('GGUF')), {
    code: 'model_invalid',
    message: 'expected a llama2.c checkpoint, got 4 bytes: too short for its header',
  })
  await t.rejects(convert(Buffer.from('GGUF'.repeat(1000))), {
    code: 'model_invalid',
    message: /^expected the header of a llama2.c checkpoint/,
  })
  await t.rejects(convert(whole.subarray(0, whole.length - 1)), {
    code: 'model_invalid',
    message: `expected at least ${whole.length} bytes of llama2.c checkpoint, got ${whole.length - 1}`,
  })
  await t.rejects(convert(Buffer.concat([whole, vocabulary().subarray(0, -1)])), {
    code: 'model_invalid',
    message: /^expected a llama2.c vocabulary of 300 tokens, got \d+ bytes that end in token 299$/,
  })
})
