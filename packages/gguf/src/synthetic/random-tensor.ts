import { tensorBlocks } from '../format/gguf-types.js'
import { tensorByteLength } from '../format/gguf-writer.js'
import { setHalf, toHalfFloat } from '../format/quantize-q8-0.js'

/** The tensor types that {@link randomTensor} can make. */
export type RandomTensorType = 'Q8_0' | 'Q4_K' | 'Q6_K'

/**
 * Turns a block of random bytes into a valid block whose values have mean 0 and standard deviation
 * `scale` × `spread`.
 */
interface BlockFormat {
  /** Standard deviation of the values when the block's half-precision scale is 1. */
  readonly spread: number
  readonly finish: (bytes: Uint8Array, block: number, scale: number, minimum: number) => void
}

const pieceBlocks = 4096

const formats: Readonly<Record<RandomTensorType, BlockFormat>> = {
  Q8_0: { spread: Math.sqrt((255 ** 2 - 1) / 12), finish: finishQ8_0 },
  Q4_K: {
    spread: rootMeanSquare(32, 63) * Math.sqrt((16 ** 2 - 1) / 12),
    finish: finishQ4_K,
  },
  Q6_K: {
    spread: rootMeanSquare(64, 127) * Math.sqrt((64 ** 2 - 1) / 12 + 0.25),
    finish: finishQ6_K,
  },
}

/**
 * Makes the bytes of a tensor of random weights: uniform quants in valid blocks, so that the
 * decoded weights have mean 0 and the given standard deviation. Pieces share one buffer.
 */
export function* randomTensor(
  type: RandomTensorType,
  shape: readonly number[],
  deviation: number,
  random: RandomBits,
): Iterable<Uint8Array> {
  const { spread, finish } = formats[type]
  const blockBytes = tensorBlocks[type].bytes
  const scale = toHalfFloat(deviation / spread)
  const minimum = toHalfFloat((7.5 * deviation) / spread)
  const words = new Uint32Array((pieceBlocks * blockBytes) / 4)
  const bytes = new Uint8Array(words.buffer)
  let left = tensorByteLength(type, shape)
  while (left > 0) {
    random.next(words)
    const piece = bytes.subarray(0, Math.min(left, bytes.length))
    for (let block = 0; block < piece.length; block += blockBytes)
      finish(piece, block, scale, minimum)
    left -= piece.length
    yield piece
  }
}

function rootMeanSquare(low: number, high: number): number {
  let sum = 0
  for (let value = low; value <= high; value++) sum += value ** 2
  return Math.sqrt(sum / (high - low + 1))
}

/** Half-precision scale, 32 signed bytes; −128 is left out as in real files. */
function finishQ8_0(bytes: Uint8Array, block: number, scale: number): void {
  for (let index = block + 2; index < block + 34; index++) {
    if (bytes[index] === 0x80) bytes[index] = 0
  }
  setHalf(bytes, block, scale)
}

/**
 * Half-precision scales of scales and of minima, 8 pairs of 6-bit scale and minimum in 12 bytes,
 * 256 quants of 4 bits. A value is d·scale·quant − dmin·minimum; minimum = scale and dmin = 7.5·d
 * centre it.
 */
function finishQ4_K(bytes: Uint8Array, block: number, scale: number, minimum: number): void {
  setHalf(bytes, block, scale)
  setHalf(bytes, block + 2, minimum)
  for (let index = block + 4; index < block + 8; index++) {
    const low = 32 | ((bytes[index] ?? 0) & 31)
    const high = 32 | ((bytes[index + 8] ?? 0) & 31)
    // the upper two bits of the later four scales and minima lie in the top of the first eight
    // bytes
    bytes[index] = low | ((high >>> 4) << 6)
    bytes[index + 4] = low | ((high >>> 4) << 6)
    bytes[index + 8] = (high & 15) | ((high & 15) << 4)
  }
}

/**
 * 256 quants of 4 + 2 bits, 16 signed scales, a half-precision scale; a value is d·scale·(quant −
 * 32).
 */
function finishQ6_K(bytes: Uint8Array, block: number, scale: number): void {
  for (let index = block + 192; index < block + 208; index++) {
    const random = bytes[index] ?? 0
    const magnitude = 64 | (random & 63)
    bytes[index] = random & 64 ? magnitude : -magnitude
  }
  setHalf(bytes, block + 208, scale)
}

/**
 * A small fast seeded generator of random bits (sfc32 of PractRand,
 * http://pracrand.sourceforge.net), not for secrets. The same seed gives the same bits on every
 * machine.
 */
export class RandomBits {
  #state: readonly [a: number, b: number, c: number, counter: number]

  /** @param seed any integer; only its lowest 32 bits are used. */
  constructor(seed: number) {
    this.#state = [0, 0, seed | 0, 1]
    this.next(new Uint32Array(12)) // as its author advises, until the seed has reached every bit
  }

  /** Fills an array with random bits and returns it. */
  next(target: Uint32Array): Uint32Array {
    let [a, b, c, counter] = this.#state
    for (let index = 0; index < target.length; index++) {
      const output = (a + b + counter) | 0
      counter = (counter + 1) | 0
      a = b ^ (b >>> 9)
      b = (c + (c << 3)) | 0
      c = (((c << 21) | (c >>> 11)) + output) | 0
      target[index] = output
    }
    this.#state = [a, b, c, counter]
    return target
  }
}

/** Numbers around 0, of which the largest and the smallest are this far apart. */
export function randomFloats(count: number, spread: number, random: RandomBits): Float32Array {
  const bits = random.next(new Uint32Array(count))
  return Float32Array.from(bits, (value) => (value / 2 ** 32 - 0.5) * spread)
}
