import { open, readFile, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import {
  type GgufMetadata,
  type GgufTensor,
  quantizeQ8_0,
  tensorByteLength,
  writeGguf,
} from '@cllm/gguf'
import * as fc from 'fast-check'
import { readGgufFileInfo } from 'node-llama-cpp'
import t from 'tap'
import { decodeQ8_0 } from '../decode-blocks.js'

const metadata: GgufMetadata = {
  'general.architecture': { type: 'string', value: 'llama' },
  'test.uint8': { type: 'uint8', value: 255 },
  'test.int8': { type: 'int8', value: -128 },
  'test.uint16': { type: 'uint16', value: 65_535 },
  'test.int16': { type: 'int16', value: -32_768 },
  'test.uint32': { type: 'uint32', value: 4_294_967_295 },
  'test.int32': { type: 'int32', value: -2_147_483_648 },
  'test.uint64': { type: 'uint64', value: 2n ** 53n + 1n },
  'test.int64': { type: 'int64', value: -(2n ** 53n) - 1n },
  'test.float32': { type: 'float32', value: 0.5 },
  'test.float64': { type: 'float64', value: 0.1 },
  'test.yes': { type: 'bool', value: true },
  'test.no': { type: 'bool', value: false },
  'test.text': { type: 'string', value: 'Grüße, 世界 🌍' },
  'test.texts': { type: 'array', items: 'string', values: ['', 'a', 'ü'] },
  'test.numbers': { type: 'array', items: 'int16', values: [-1, 0, 1] },
  'test.many': {
    type: 'array',
    items: 'string',
    values: Array(50_000).fill('long enough to grow'),
  },
}

const bytes = (length: number, first: number): Uint8Array =>
  Uint8Array.from({ length }, (_, index) => (first + index) % 251)

const tensor = (
  name: string,
  type: GgufTensor['type'],
  shape: readonly number[],
  pieces: readonly Uint8Array[],
): GgufTensor => ({ name, type, shape, data: () => pieces })

t.test('what is written can be read', async (t) => {
  const path = join(t.testdir(), 'all.gguf')
  const tensors = [
    tensor('vector', 'F32', [3], [bytes(12, 0)]),
    tensor('matrix', 'Q8_0', [64, 2], [bytes(100, 7), bytes(36, 9)]),
    tensor('k4', 'Q4_K', [256, 2], [bytes(288, 3)]),
    tensor('k6', 'Q6_K', [512], [bytes(420, 5)]),
  ]
  const length = await writeGguf(path, metadata, tensors)
  t.equal((await stat(path)).size, length)

  const info = await readGgufFileInfo(path, { logWarnings: false })
  t.equal(info.version, 3)
  const read = (info.metadata as unknown as { test: Record<string, unknown> }).test
  for (const [key, value] of Object.entries(metadata)) {
    if (!key.startsWith('test.')) continue
    const expected = value.type === 'array' ? value.values : value.value
    const actual = read[key.slice('test.'.length)]
    if (typeof expected === 'bigint') t.equal(BigInt(actual as number), expected, key)
    else t.same(actual, expected, key)
  }

  t.same(
    info.tensorInfo?.map(({ name, ggmlType, dimensions }) => [
      name,
      ggmlType,
      dimensions.map(Number),
    ]),
    [
      ['vector', 0, [3]],
      ['matrix', 8, [64, 2]],
      ['k4', 12, [256, 2]],
      ['k6', 14, [512]],
    ],
  )
  const file = await readFile(path)
  const dataLength = 32 + 160 + 288 + 448
  t.equal((length - dataLength) % 32, 0, 'tensor data is aligned')
  for (const [index, { offset }] of (info.tensorInfo ?? []).entries()) {
    const expected = Buffer.concat([...(tensors[index]?.data() ?? [])])
    const start = length - dataLength + Number(offset)
    t.equal(Number(offset) % 32, 0)
    t.same(file.subarray(start, start + expected.length), expected, tensors[index]?.name ?? '')
  }
})

t.test('a file appears only when it is complete, and replaces an older one', async (t) => {
  const folder = t.testdir({ 'old.gguf': 'old' })
  const path = join(folder, 'old.gguf')
  const short = tensor('short', 'F32', [8], [bytes(28, 0)])
  await t.rejects(writeGguf(path, metadata, [short]), {
    message: 'expected 32 bytes for tensor short (F32, 8), got 28',
  })
  t.same(await readdir(folder), ['old.gguf'])
  t.equal(await readFile(path, 'utf8'), 'old')

  await writeGguf(path, {}, [])
  const file = await open(path)
  t.equal((await file.read(Buffer.alloc(4), 0, 4)).buffer.toString(), 'GGUF')
  await file.close()
  t.same(await readdir(folder), ['old.gguf'])
})

t.test('values that do not fit are refused before anything is written', async (t) => {
  const folder = t.testdir()
  const path = join(folder, 'none.gguf')
  const wrong = { 'test.small': { type: 'uint8', value: 256 } } as const
  await t.rejects(writeGguf(path, wrong, []), {
    message: 'expected an integer from 0 to 255, got 256',
  })
  await t.rejects(writeGguf(path, { 'test.whole': { type: 'int32', value: 1.5 } }, []), RangeError)
  await t.rejects(writeGguf(path, {}, [tensor('odd', 'Q4_K', [100, 2], [])]), {
    message: 'expected rows of a multiple of 256 elements for Q4_K, got 100',
  })
  t.same(await readdir(folder), [])
  t.equal(tensorByteLength('Q6_K', [1024, 3]), 3 * 4 * 210)
})

t.test('values come back within half a step and the rounding of the scale', (t) => {
  const value = fc.float({ min: -8e6, max: 8e6, noNaN: true })
  fc.assert(
    fc.property(fc.array(value, { minLength: 32, maxLength: 96 }), (list) => {
      const values = Float32Array.from(list.slice(0, list.length - (list.length % 32)))
      const decoded = decodeQ8_0(quantizeQ8_0(values))
      for (let start = 0; start < values.length; start += 32) {
        const block = values.subarray(start, start + 32)
        const step = Math.max(...block.map(Math.abs)) / 127
        // 2^-11: half precision has 11 significant bits; 2^-25: half of its smallest step
        const bound = step * 0.5001 + 127 * Math.max(step * 2 ** -11, 2 ** -25)
        block.forEach((original, index) => {
          const error = Math.abs((decoded[start + index] ?? Number.NaN) - original)
          if (!(error <= bound)) throw new Error(`${original} came back ${error} off, > ${bound}`)
        })
      }
    }),
    { numRuns: 500 },
  )
  t.end()
})

t.test('blocks are laid out as ggml has them', (t) => {
  const values = new Float32Array(64)
  values[0] = 127
  values[1] = -127
  values[2] = 63.6
  const quantized = quantizeQ8_0(values)
  t.equal(quantized.length, 2 * 34)
  t.same([...quantized.subarray(0, 5)], [0x00, 0x3c, 127, 256 - 127, 64], 'scale 1.0, then quants')
  t.same(quantized.subarray(34), new Uint8Array(34), 'a block of zeros')
  t.throws(() => quantizeQ8_0(new Float32Array(33)), {
    message: 'expected a multiple of 32 values for Q8_0, got 33',
  })
  t.end()
})
