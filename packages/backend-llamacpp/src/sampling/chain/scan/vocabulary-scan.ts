import { simdModule } from './simd-module.js'

/** The tokens in a block: neighbours in the vocabulary whose largest logit is known. A power of two. */
export const blockSize = 64

/** Tokens with weights up to this cannot be drawn: exp(−85). */
export const leastWeight = 1.2e-37

/** The smallest finite logit: tokens with −Infinity cannot be drawn. */
export const leastLogit = -3.4028234663852886e38

/** The parts of the global `WebAssembly` that are used: TypeScript has its types among the DOM's. */
interface WebAssemblyApi {
  readonly Module: new (bytes: Uint8Array) => object
  readonly Memory: new (size: { initial: number }) => { readonly buffer: ArrayBuffer }
  readonly Instance: new (module: object, imports: object) => { readonly exports: ScanExports }
}

/**
 * The exports of simd-scan.wat. It knows the addresses of a {@link VocabularyScan}'s arrays; `entries` is the address
 * of the array to use otherwise.
 */
interface ScanExports {
  findLargest(): number
  collect(from: number): number
  count(entries: number, number: number, from: number): number
  addSingly(): number
  weigh(entries: number, blocks: number, from: number, temperature: number, shift: number): number
}

const pageBytes = 65_536

const { WebAssembly } = globalThis as unknown as { readonly WebAssembly: WebAssemblyApi }

const bytesOfModule = Buffer.from(simdModule, 'base64')
const packs = makePacks()

/** Each array begins at a multiple of this many bytes. */
const alignment = 16

/**
 * The scans over the logits of a whole vocabulary that a draw needs, and the lists that they fill, all in the memory of
 * simd-scan.wat. Tokens with the logit NaN or −Infinity cannot be drawn. The lengths of the arrays are multiples of
 * {@link blockSize}; the padding behind the vocabulary cannot be drawn.
 */
export class VocabularyScan {
  /** The logits of this draw: a copy, which may be changed before {@link findLargest}. */
  readonly logits: Float32Array
  /** The largest logit of each block, written by {@link findLargest}. */
  readonly maxima: Float32Array
  /** The sum of the weights of each block, written by {@link weigh}. */
  readonly sums: Float64Array
  /** The weights, written by the last {@link weigh} or {@link weighListed}. */
  readonly weights: Float32Array
  /** The tokens that {@link collect} listed. */
  readonly ids: Int32Array
  /** The logits of these tokens. */
  readonly listed: Float32Array
  readonly #native: ScanExports
  readonly #blocks: number

  /** @param size - entries of the vocabulary */
  constructor(readonly size: number) {
    const blocks = Math.ceil(size / blockSize)
    const length = blocks * blockSize
    let bytes = 0
    const reserve = (entries: number, entryBytes: number): number => {
      const at = bytes
      bytes += Math.ceil((entries * entryBytes) / alignment) * alignment
      return at
    }
    const at = {
      logits: reserve(length, 4),
      weights: reserve(length, 4),
      listed: reserve(length, 4),
      ids: reserve(length, 4),
      maxima: reserve(blocks, 4),
      sums: reserve(blocks, 8),
      packs: reserve(packs.length, 1),
    }
    const module = new WebAssembly.Module(bytesOfModule)
    const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / pageBytes) })
    this.#native = new WebAssembly.Instance(module, { scan: { memory, blocks, ...at } }).exports
    this.#blocks = blocks
    const { buffer } = memory
    new Uint8Array(buffer, at.packs).set(packs)
    this.logits = new Float32Array(buffer, at.logits, length).fill(-Infinity)
    this.weights = new Float32Array(buffer, at.weights, length)
    this.listed = new Float32Array(buffer, at.listed, length)
    this.ids = new Int32Array(buffer, at.ids, length)
    this.maxima = new Float32Array(buffer, at.maxima, blocks)
    // padding behind the last block
    new Float32Array(buffer, at.maxima, Math.ceil(blocks / 4) * 4).fill(-Infinity)
    this.sums = new Float64Array(buffer, at.sums, blocks)
  }

  /** Finds the largest of all logits; −Infinity if no token can be drawn. */
  findLargest(): number {
    return this.#native.findLargest()
  }

  /** Counts the blocks with a logit of at least `from`; only call this after {@link findLargest}. */
  countBlocks(from: number): number {
    const padded = Math.ceil(this.#blocks / 4) * 4
    return this.#native.count(this.maxima.byteOffset, padded, from)
  }

  /** Counts the tokens with a logit of at least `from`. */
  countTokens(from: number): number {
    return this.#native.count(this.logits.byteOffset, this.logits.length, from)
  }

  /**
   * Adds up all weights from {@link weigh}, in single precision and in the order of the tokens, so that the sum rounds
   * as llama.cpp's. Only call this if {@link weigh} has left out no block.
   */
  addSingly(): number {
    return this.#native.addSingly()
  }

  /**
   * Lists the tokens whose logit is at least `from`, in the order of their ids. Skips blocks without such a token.
   * @param from - more than −Infinity
   * @returns the number of listed tokens
   */
  collect(from: number): number {
    return this.#native.collect(from)
  }

  /**
   * Computes the weights exp(logit ÷ temperature − shift), in single precision as llama.cpp, and adds them up in double
   * precision, for each block and in all.
   * @param from - leaves out blocks without a logit of at least `from`: their sum is 0, and their weights are not
   * written
   * @param shift - the largest logit ÷ temperature
   * @returns the sum of all weights
   */
  weigh(from: number, temperature: number, shift: number): number {
    return this.#native.weigh(this.logits.byteOffset, this.#blocks, from, temperature, shift)
  }

  /** The same as {@link weigh} for the first `count` listed tokens, 1 or more. */
  weighListed(count: number, temperature: number, shift: number): number {
    const { listed } = this
    const blocks = Math.ceil(count / blockSize)
    // the last block may not be full
    listed.fill(-Infinity, count, blocks * blockSize)
    return this.#native.weigh(listed.byteOffset, blocks, -Infinity, temperature, shift)
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
