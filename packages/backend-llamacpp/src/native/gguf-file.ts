import { type Stats, statSync } from 'node:fs'
import { open } from 'node:fs/promises'

/** Bytes that are read at first; a vocabulary of 150,000 tokens takes a few million. */
const firstBytes = 2 ** 20
/** The most bytes of a head, more than any vocabulary needs: a damaged length could ask for the whole file. */
const mostBytes = 2 ** 27

/**
 * Reads the head of a GGUF file, with the tensors of all its parts if the model is split over several files.
 * node-llama-cpp's reader creates a value for each token, which takes a second for some vocabularies.
 *
 * @throws Error with a `code` if the file cannot be read, without one if it is no GGUF file
 */
export async function readGgufFile(path: string): Promise<GgufHead> {
  const head = await readHead(path)
  const others = partsOf(path).filter((part) => part !== path)
  if (others.length === 0) return head
  const parts = await Promise.all(others.map(readHead))
  return { ...head, tensors: [head, ...parts].flatMap(({ tensors }) => tensors) }
}

/** The files of a model: one, or the number that the name of its first file tells. */
export function partsOf(path: string): string[] {
  const [, stem, count] = /^(.*)-\d{5}-of-(\d{5})\.gguf$/.exec(path) ?? []
  if (stem === undefined) return [path]
  const number = (index: number): string => String(index + 1).padStart(5, '0')
  return Array.from(
    { length: Number(count) },
    (_, index) => `${stem}-${number(index)}-of-${count}.gguf`,
  )
}

/**
 * Checks that a path is a file: opening a pipe may block for ever.
 *
 * @throws Error with a `code` if it is something else, or cannot be read
 */
export function checkIsFile(path: string, expected: string): Stats {
  const found = statSync(path)
  if (found.isFile()) return found
  const kind = found.isDirectory() ? 'folder' : 'pipe or a device'
  throw Object.assign(new Error(`expected ${expected}, found a ${kind}`), { code: 'EISDIR' })
}

async function readHead(path: string): Promise<GgufHead> {
  const { size } = checkIsFile(path, 'a GGUF file')
  const file = await open(path)
  try {
    let bytes = Buffer.alloc(0)
    for (let wanted = firstBytes; ; wanted *= 2) {
      const more = Buffer.allocUnsafe(Math.min(wanted, size) - bytes.length)
      const { bytesRead } = await file.read(more, 0, more.length, bytes.length)
      bytes = Buffer.concat([bytes, more.subarray(0, bytesRead)])
      try {
        return parseGgufHead(bytes)
      } catch (error) {
        if (!(error instanceof HeadGoesOn) || bytesRead < more.length || wanted >= size) throw error
        if (wanted >= mostBytes) {
          const message = `expected a head of at most ${mostBytes} bytes, found a longer one`
          throw new Error(message, { cause: error })
        }
      }
    }
  } finally {
    await file.close()
  }
}

/** The names of the numbers in `general.file_type`, in order. */
const fileTypes =
  'F32 F16 Q4_0 Q4_1 Q4_1_SOME_F16 Q4_2 Q4_3 Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M ' +
  'Q6_K IQ2_XXS IQ2_XS Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 Q4_0_4_4 ' +
  'Q4_0_4_8 Q4_0_8_8 TQ1_0 TQ2_0 MXFP4_MOE NVFP4 Q1_0 Q2_0'

/** How a model's weights are quantized, such as `Q4_K_M`, by its `general.file_type`. */
export function quantizationOf(fileType: unknown): string {
  return fileTypes.split(' ')[Number(fileType)] ?? 'unknown'
}

/** The part of a GGUF file before the weights. */
export interface GgufHead {
  /** Nested by the parts of the names; lists of texts and long lists are left empty. */
  readonly metadata: Readonly<Record<string, unknown>>
  readonly tensors: readonly GgufTensorShape[]
}

/** A tensor of a GGUF file. */
interface GgufTensorShape {
  readonly name: string
  readonly dimensions: readonly number[]
}

/** The bytes read so far end before the head does. */
class HeadGoesOn extends Error {}

const magic = 'GGUF'
const versions: readonly number[] = [2, 3]
/** Lists with more elements than this have one per token, not per layer, and are skipped. */
const mostElements = 4096
const listType = 9
const textType = 8

/** For each type of number: its size in bytes, and how to read one. */
const numbers: Readonly<Record<number, readonly [bytes: number, (at: DataView) => unknown]>> = {
  0: [1, (at) => at.getUint8(0)],
  1: [1, (at) => at.getInt8(0)],
  2: [2, (at) => at.getUint16(0, true)],
  3: [2, (at) => at.getInt16(0, true)],
  4: [4, (at) => at.getUint32(0, true)],
  5: [4, (at) => at.getInt32(0, true)],
  6: [4, (at) => at.getFloat32(0, true)],
  7: [1, (at) => at.getUint8(0) !== 0],
  10: [8, (at) => Number(at.getBigUint64(0, true))],
  11: [8, (at) => Number(at.getBigInt64(0, true))],
  12: [8, (at) => at.getFloat64(0, true)],
}

/**
 * Reads the head of a GGUF file from its first bytes. Skips lists of tokens, which is a hundred times faster than
 * reading them.
 *
 * @throws {@link HeadGoesOn} if more bytes are needed, Error if the file is no GGUF file
 */
function parseGgufHead(bytes: Buffer): GgufHead {
  const reader = new HeadReader(bytes)
  // The error does not show what the file begins with, which may be a secret: clients choose files for adapters.
  const isGguf = reader.take(magic.length).toString('latin1') === magic
  if (!isGguf) throw new Error(`expected "${magic}" at its beginning`)
  const version = reader.integer()
  if (!versions.includes(version)) {
    throw new Error(`expected GGUF version ${versions.join(' or ')}, found ${version}`)
  }
  const tensorCount = reader.size()
  const fieldCount = reader.size()
  const metadata: Record<string, unknown> = Object.create(null)
  for (let index = 0; index < fieldCount; index++) {
    const name = reader.text()
    put(metadata, name, reader.value(reader.integer()))
  }
  const tensors: GgufTensorShape[] = []
  for (let index = 0; index < tensorCount; index++) {
    const name = reader.text()
    const dimensions = Array.from({ length: reader.integer() }, () => reader.size())
    reader.integer() // its type
    reader.size() // its offset
    tensors.push({ name, dimensions })
  }
  return { metadata, tensors }
}

/** Puts the field `a.b.c` as `c` into `b` in `a`, unless `a` or `b` already has another value. */
function put(metadata: Record<string, unknown>, name: string, value: unknown): void {
  const steps = name.split('.')
  let at = metadata
  for (; steps.length > 1; steps.shift()) {
    const inner = (at[steps[0]!] ??= Object.create(null))
    if (typeof inner !== 'object' || inner === null || Array.isArray(inner)) break
    at = inner as Record<string, unknown>
  }
  at[steps.join('.')] ??= value
}

class HeadReader {
  #at = 0

  constructor(private readonly bytes: Buffer) {}

  take(count: number): Buffer {
    const end = this.#at + count
    if (!(end <= this.bytes.length)) throw new HeadGoesOn('the file ends in its head')
    const taken = this.bytes.subarray(this.#at, end)
    this.#at = end
    return taken
  }

  integer(): number {
    return this.take(4).readUInt32LE()
  }

  /** Reads a count or an offset of 8 bytes. */
  size(): number {
    const taken = this.take(8)
    return taken.readUInt32LE() + taken.readUInt32LE(4) * 2 ** 32
  }

  text(): string {
    return this.take(this.size()).toString('utf8')
  }

  value(type: number): unknown {
    if (type === textType) return this.text()
    return type === listType ? this.#list() : this.#number(type)
  }

  #number(type: number): unknown {
    const [size, read] = numbers[type] ?? unknownType(type)
    const { buffer, byteOffset } = this.take(size)
    return read(new DataView(buffer, byteOffset, size))
  }

  #list(): unknown[] {
    const type = this.integer()
    const count = this.size()
    if (type === textType) {
      for (let index = 0; index < count; index++) this.take(this.size())
      return []
    }
    if (type === listType) {
      for (let index = 0; index < count; index++) this.#list()
      return []
    }
    if (count <= mostElements) return Array.from({ length: count }, () => this.#number(type))
    const [size] = numbers[type] ?? unknownType(type)
    this.take(count * size)
    return []
  }
}

function unknownType(type: number): never {
  throw new Error(`there is no type ${type} of values`)
}
