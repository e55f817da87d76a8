import { randomUUID } from 'node:crypto'
import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import {
  type GgufMetadata,
  type GgufScalar,
  type GgufScalarType,
  type GgufTensor,
  type GgufTensorType,
  type GgufValue,
  scalarIds,
  tensorBlocks,
} from './gguf-types.js'

const encoder = new TextEncoder()

/** A growing little-endian buffer. */
class ByteWriter {
  #bytes = new Uint8Array(1 << 16)
  #view = new DataView(this.#bytes.buffer)
  #length = 0

  /** The bytes written so far, not copied. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  /**
   * Writes one scalar.
   * @throws TypeError or RangeError when the value does not fit its type.
   */
  scalar(type: GgufScalarType, value: GgufScalar): void {
    if (type === 'string') return this.string(String(value))
    if (type === 'bool') return this.#integer(1, BigInt(value === true ? 1 : 0), 0n, 1n)
    if (type === 'float32' || type === 'float64') return this.#float(type, Number(value))
    const bits = Number(type.replace(/\D+/, ''))
    const low = type.startsWith('u') ? 0n : -(1n << BigInt(bits - 1))
    const high = low + (1n << BigInt(bits)) - 1n
    this.#integer(bits / 8, BigInt(value), low, high)
  }

  /** Writes a string as GGUF does: its length in bytes as `uint64`, then UTF-8. */
  string(value: string): void {
    this.#reserve(8 + value.length * 3)
    const { written } = encoder.encodeInto(value, this.#bytes.subarray(this.#length + 8))
    this.#view.setBigUint64(this.#length, BigInt(written), true)
    this.#length += 8 + written
  }

  /** Writes zeros until the length is a multiple of `alignment`. */
  align(alignment: number): void {
    const padding = (alignment - (this.#length % alignment)) % alignment
    this.#reserve(padding)
    this.#bytes.fill(0, this.#length, this.#length + padding)
    this.#length += padding
  }

  #integer(bytes: number, value: bigint, low: bigint, high: bigint): void {
    if (value < low || value > high) {
      throw new RangeError(`expected an integer from ${low} to ${high}, got ${value}`)
    }
    this.#reserve(8)
    this.#view.setBigUint64(this.#length, BigInt.asUintN(64, value), true)
    this.#length += bytes
  }

  #float(type: 'float32' | 'float64', value: number): void {
    this.#reserve(8)
    if (type === 'float32') this.#view.setFloat32(this.#length, value, true)
    else this.#view.setFloat64(this.#length, value, true)
    this.#length += type === 'float32' ? 4 : 8
  }

  #reserve(extra: number): void {
    if (this.#length + extra <= this.#bytes.length) return
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + extra))
    grown.set(this.bytes)
    this.#bytes = grown
    this.#view = new DataView(grown.buffer)
  }
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
  const writer = new ByteWriter()
  const entries = Object.entries(metadata)
  writer.scalar('uint32', magic)
  writer.scalar('uint32', version)
  writer.scalar('uint64', tensors.length)
  writer.scalar('uint64', entries.length)
  for (const [key, value] of entries) {
    writer.string(key)
    encodeValue(writer, value)
  }
  let offset = 0
  for (const { name, type, shape } of tensors) {
    writer.string(name)
    writer.scalar('uint32', shape.length)
    for (const size of shape) writer.scalar('uint64', size)
    writer.scalar('uint32', tensorBlocks[type].id)
    writer.scalar('uint64', offset)
    offset += alignUp(tensorByteLength(type, shape))
  }
  writer.align(alignment)
  return writer.bytes
}

function encodeValue(writer: ByteWriter, value: GgufValue): void {
  if (value.type !== 'array') {
    writer.scalar('uint32', scalarIds[value.type])
    writer.scalar(value.type, value.value)
    return
  }
  writer.scalar('uint32', arrayId)
  writer.scalar('uint32', scalarIds[value.items])
  writer.scalar('uint64', value.values.length)
  for (const item of value.values) writer.scalar(value.items, item)
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
