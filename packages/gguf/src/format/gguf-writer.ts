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

/**
 * The bytes of a scalar.
 * @throws TypeError or RangeError when the value does not fit its type.
 */
function scalar(type: GgufScalarType, value: GgufScalar): Uint8Array {
  switch (type) {
    case 'string': {
      const utf8 = Buffer.from(String(value))
      return Buffer.concat([scalar('uint64', utf8.length), utf8])
    }
    case 'bool':
      return integer(1, BigInt(value === true ? 1 : 0), 0n, 1n)
    case 'float32':
      return new Uint8Array(Float32Array.of(Number(value)).buffer)
    case 'float64':
      return new Uint8Array(Float64Array.of(Number(value)).buffer)
    default: {
      const bits = Number(type.replace(/\D+/, ''))
      const low = type.startsWith('u') ? 0n : -(1n << BigInt(bits - 1))
      return integer(bits / 8, BigInt(value), low, low + (1n << BigInt(bits)) - 1n)
    }
  }
}

function integer(bytes: number, value: bigint, low: bigint, high: bigint): Uint8Array {
  if (value < low || value > high) {
    throw new RangeError(`expected an integer from ${low} to ${high}, got ${value}`)
  }
  return new Uint8Array(BigUint64Array.of(BigInt.asUintN(64, value)).buffer, 0, bytes)
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
    scalar('uint32', magic),
    scalar('uint32', version),
    scalar('uint64', tensors.length),
    scalar('uint64', entries.length),
    ...entries.flatMap(([key, value]) => [scalar('string', key), ...encodeValue(value)]),
    ...tensors.flatMap(({ name, type, shape }) => {
      const at = offset
      offset += alignUp(tensorByteLength(type, shape))
      return [
        scalar('string', name),
        scalar('uint32', shape.length),
        ...shape.map((size) => scalar('uint64', size)),
        scalar('uint32', tensorBlocks[type].id),
        scalar('uint64', at),
      ]
    }),
  ])
  return Buffer.concat([header], alignUp(header.length))
}

function encodeValue(value: GgufValue): Uint8Array[] {
  if (value.type !== 'array') {
    return [scalar('uint32', scalarIds[value.type]), scalar(value.type, value.value)]
  }
  return [
    scalar('uint32', arrayId),
    scalar('uint32', scalarIds[value.items]),
    scalar('uint64', value.values.length),
    ...value.values.map((item) => scalar(value.items, item)),
  ]
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
