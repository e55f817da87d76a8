import { blockSize, type VocabularyScan } from '../vocabulary-scan.js'
import { simdModule } from './simd-module.js'
import { canRun, type SimdExports, start } from './web-assembly.js'

const module = Buffer.from(simdModule, 'base64')

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
    const { exports, memory } = start(module, bytes)
    this.#native = exports
    this.#blocks = blocks
    this.logits = new Float32Array(memory, logits, length).fill(-Infinity)
    this.weights = new Float32Array(memory, weights, length)
    this.listed = new Float32Array(memory, listed, length)
    this.ids = new Int32Array(memory, ids, length)
    this.maxima = new Float32Array(memory, maxima, blocks)
    this.sums = new Float64Array(memory, sums, blocks)
  }

  load(logits: Float32Array): void {
    this.logits.set(logits)
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
    )
  }

  weigh(from: number, temperature: number, shift: number): number {
    const { logits, maxima, sums, weights } = this
    return this.#native.weigh(
      logits.byteOffset,
      maxima.byteOffset,
      this.#blocks,
      sums.byteOffset,
      weights.byteOffset,
      from,
      temperature,
      shift,
    )
  }

  weighListed(count: number, temperature: number, shift: number): number {
    const { listed, weights } = this
    const whole = Math.ceil(count / 4) * 4
    // the last four may have less than four tokens
    listed.fill(-Infinity, count, whole)
    const end = listed.byteOffset + whole * listed.BYTES_PER_ELEMENT
    const { byteOffset } = listed
    return this.#native.weighRun(byteOffset, end, weights.byteOffset, temperature, shift)
  }
}
