import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import {
  floatBytes,
  type GgufMetadata,
  type GgufScalar,
  type GgufScalarType,
  type GgufTensor,
  type GgufTensorType,
  type GgufValue,
  scalarIds,
  tensorBlocks,
} from './gguf-types.js'

/**
 * The bytes of scalars of one type, one behind the other: a vocabulary has 150,000, and each on its own takes long.
 * @throws TypeError or RangeError when a value does not fit its type.
 */
function bytesOf(type: GgufScalarType, values: readonly GgufScalar[]): Uint8Array {
  switch (type) {
    case 'string':
      return strings(values.map(String))
    case 'bool':
      return Uint8Array.from(values, (value) => (value === true ? 1 : 0))
    case 'float32':
      return floatBytes(Float32Array.from(values, Number))
    case 'float64':
      return new Uint8Array(Float64Array.from(values, Number).buffer)
    default: {
      const bits = Number(type.replace(/\D+/, ''))
      const low = type.startsWith('u') ? 0n : -(1n << BigInt(bits - 1))
      return integers(bits / 8, values, low, low + (1n << BigInt(bits)) - 1n)
    }
  }
}

/** Each with its length in bytes before it. */
function strings(texts: readonly string[]): Uint8Array {
  const all = Buffer.alloc(texts.reduce((size, text) => size + 8 + Buffer.byteLength(text), 0))
  let at = 0
  for (const text of texts) {
    const length = all.write(text, at + 8)
    all.writeUInt32LE(length, at)
    at += 8 + length
  }
  return all
}

function integers(bytes: number, values: readonly GgufScalar[], low: bigint, high: bigint) {
  // the upper bytes of each are below the next one
  const view = new DataView(new ArrayBuffer(bytes * values.length + 8 - bytes))
  for (const [index, given] of values.entries()) {
    const value = BigInt(given)
    if (value < low || value > high) {
      throw new RangeError(`expected an integer from ${low} to ${high}, got ${value}`)
    }
    view.setBigInt64(bytes * index, value, true)
  }
  return new Uint8Array(view.buffer, 0, bytes * values.length)
}

const magic = 0x46554747
const version = 3
const alignment = 32
const arrayId = 9

const alignUp = (bytes: number): number => Math.ceil(bytes / alignment) * alignment

/**
 * Size in bytes of a tensor.
 * @throws RangeError when its rows are not a whole number of blocks.
 */
export function tensorByteLength(type: GgufTensorType, shape: readonly number[]): number {
  const block = tensorBlocks[type]
  const rowLength = shape[0] ?? 1
  if (rowLength % block.elements !== 0) {
    throw new RangeError(
      `expected rows of a multiple of ${block.elements} elements for ${type}, got ${rowLength}`,
    )
  }
  return (shape.reduce((product, size) => product * size, 1) / block.elements) * block.bytes
}

/**
 * Writes a GGUF version 3 file. Tensor data is streamed, so memory does not grow with the file. The
 * file appears under its name only when it is complete; a file of that name is replaced.
 *
 * The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
 * @returns the size of the file in bytes.
 * @throws RangeError when a value does not fit its type, or a tensor's data does not have the
 * length of its shape.
 */
export async function writeGguf(
  path: string,
  metadata: GgufMetadata,
  tensors: readonly GgufTensor[],
): Promise<number> {
  const header = encodeHeader(metadata, tensors)
  const partial = `${path}.${randomUUID()}.partial`
  const file = await open(partial, 'wx')
  try {
    let length = await writeAll(file, header)
    for (const tensor of tensors) length += await writeTensor(file, tensor)
    await file.close()
    await rename(partial, path)
    return length
  } catch (error) {
    await file.close()
    await rm(partial, { force: true })
    throw error
  }
}

function encodeHeader(metadata: GgufMetadata, tensors: readonly GgufTensor[]): Uint8Array {
  const entries = Object.entries(metadata)
  let offset = 0
  const header = Buffer.concat([
    bytesOf('uint32', [magic, version]),
    bytesOf('uint64', [tensors.length, entries.length]),
    ...entries.flatMap(([key, value]) => [bytesOf('string', [key]), ...encodeValue(value)]),
    ...tensors.flatMap(({ name, type, shape }) => {
      const at = offset
      offset += alignUp(tensorByteLength(type, shape))
      return [
        bytesOf('string', [name]),
        bytesOf('uint32', [shape.length]),
        bytesOf('uint64', shape),
        bytesOf('uint32', [tensorBlocks[type].id]),
        bytesOf('uint64', [at]),
      ]
    }),
  ])
  return Buffer.concat([header], alignUp(header.length))
}

function encodeValue(value: GgufValue): Uint8Array[] {
  if (value.type !== 'array') {
    return [bytesOf('uint32', [scalarIds[value.type]]), bytesOf(value.type, [value.value])]
  }
  const { items, values } = value
  const types = bytesOf('uint32', [arrayId, scalarIds[items]])
  return [types, bytesOf('uint64', [values.length]), bytesOf(items, values)]
}

async function writeTensor(file: FileHandle, tensor: GgufTensor): Promise<number> {
  const expected = tensorByteLength(tensor.type, tensor.shape)
  let length = 0
  for (const piece of tensor.data()) length += await writeAll(file, piece)
  if (length !== expected) {
    throw new RangeError(
      `expected ${expected} bytes for tensor ${tensor.name} ` +
        `(${tensor.type}, ${tensor.shape.join(' × ')}), got ${length}`,
    )
  }
  return length + (await writeAll(file, new Uint8Array(alignUp(length) - length)))
}

/** Behind what is written already. */
async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<number> {
  await file.writeFile(bytes)
  return bytes.length
}
