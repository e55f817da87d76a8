import { simdModule } from './simd-module.js'
import { blockSize, type VocabularyScan } from '../vocabulary-scan.js'

/** The parts of the global `WebAssembly` that are used: TypeScript has its types among the DOM's. */
interface WebAssemblyApi {
  validate(bytes: Uint8Array): boolean
  readonly Module: new (bytes: Uint8Array) => object
  readonly Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer }
  readonly Instance: new (module: object, imports: object) => { readonly exports: object }
}

/** What simd-scan.wat exports; addresses are in bytes. */
export interface SimdExports {
  findLargest(logits: number, maxima: number, blocks: number): number
  collect(
    logits: number,
    maxima: number,
    blocks: number,
    from: number,
    ids: number,
    listed: number,
    packs: number,
  ): number
  weigh(
    logits: number,
    maxima: number,
    blocks: number,
    sums: number,
    weights: number,
    from: number,
    temperature: number,
    shift: number,
  ): number
}

const pageBytes = 65_536

/** WebAssembly, where this JavaScript engine has it. */
const { WebAssembly } = globalThis as { readonly WebAssembly?: WebAssemblyApi }

/** Whether this machine can run the module: it has WebAssembly, and SIMD instructions. */
function canRun(module: Uint8Array): boolean {
  return WebAssembly?.validate(module) === true
}

/** Starts the module with this much memory. Only where {@link canRun} is true. */
function start(
  module: Uint8Array,
  bytes: number,
): { readonly exports: SimdExports; readonly memory: ArrayBuffer } {
  if (WebAssembly === undefined) throw new TypeError('there is no WebAssembly')
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / pageBytes) })
  const instance = new WebAssembly.Instance(new WebAssembly.Module(module), { scan: { memory } })
  return { exports: instance.exports as SimdExports, memory: memory.buffer }
}

const module = Buffer.from(simdModule, 'base64')
const packs = makePacks()

/** What is between two arrays so that each begins at a multiple of 16 bytes. */
const alignment = 16

/**
 * {@link VocabularyScan} with SIMD instructions: all of it lies in the memory of simd-scan.wat. Its
 * weights differ from {@link PlainScan}'s by rounding: a tenth of them, in the last bit.
 */
export class SimdScan implements VocabularyScan {
  readonly size: number
  readonly logits: Float32Array
  readonly maxima: Float32Array
  readonly sums: Float64Array
  readonly weights: Float32Array
  readonly ids: Int32Array
  readonly listed: Float32Array
  readonly #native: SimdExports
  readonly #blocks: number
  readonly #packs: number

  /** Whether this machine has what it needs. */
  static isSupported(): boolean {
    return canRun(module)
  }

  constructor(size: number) {
    this.size = size
    const blocks = Math.ceil(size / blockSize)
    const length = blocks * blockSize
    let bytes = 0
    const reserve = (entries: number, entryBytes: number): number => {
      const at = bytes
      bytes += Math.ceil((entries * entryBytes) / alignment) * alignment
      return at
    }
    const [logits, weights, listed, ids] = Array.from({ length: 4 }, () => reserve(length, 4))
    const maxima = reserve(blocks, 4)
    const sums = reserve(blocks, 8)
    this.#packs = reserve(packs.length, 1)
    const { exports, memory } = start(module, bytes)
    new Uint8Array(memory, this.#packs).set(packs)
    this.#native = exports
    this.#blocks = blocks
    this.logits = new Float32Array(memory, logits, length).fill(-Infinity)
    this.weights = new Float32Array(memory, weights, length)
    this.listed = new Float32Array(memory, listed, length)
    this.ids = new Int32Array(memory, ids, length)
    this.maxima = new Float32Array(memory, maxima, blocks)
    this.sums = new Float64Array(memory, sums, blocks)
  }

  findLargest(): number {
    const { logits, maxima } = this
    return this.#native.findLargest(logits.byteOffset, maxima.byteOffset, this.#blocks)
  }

  collect(from: number): number {
    const { logits, maxima, ids, listed } = this
    return this.#native.collect(
      logits.byteOffset,
      maxima.byteOffset,
      this.#blocks,
      from,
      ids.byteOffset,
      listed.byteOffset,
      this.#packs,
    )
  }

  weigh(
    from: number,
    temperature: number,
    shift: number,
    logits = this.logits,
    blocks = this.#blocks,
  ): number {
    return this.#native.weigh(
      logits.byteOffset,
      this.maxima.byteOffset,
      blocks,
      this.sums.byteOffset,
      this.weights.byteOffset,
      from,
      temperature,
      shift,
    )
  }

  weighListed(count: number, temperature: number, shift: number): number {
    const { listed } = this
    const blocks = Math.ceil(count / blockSize)
    // the last block may not be full
    listed.fill(-Infinity, count, blocks * blockSize)
    return this.weigh(-Infinity, temperature, shift, listed, blocks)
  }
}

/** For each set of four entries, the bytes that move its members to the front. */
function makePacks(): Uint8Array {
  const entries = [0, 1, 2, 3]
  const rows = Array.from({ length: 16 }, (_, set) => {
    const members = entries.filter((entry) => (set & (1 << entry)) !== 0)
    const bytes = members.flatMap((entry) => entries.map((byte) => entry * 4 + byte))
    return [...bytes, ...Array.from({ length: 16 - bytes.length }, () => 0)]
  })
  return Uint8Array.from(rows.flat())
}
