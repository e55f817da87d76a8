import { tensorBlocks } from './gguf-types.js'

const { elements: blockLength, bytes: blockBytes } = tensorBlocks.Q8_0

/**
 * Quantizes numbers to ggml's Q8_0: blocks of 32, each a half-precision scale (largest magnitude /
 * 127) and 32 signed bytes. Each value is restored within half a scale, plus the rounding of the
 * scale to half precision (2^-11 of the value).
 * @throws RangeError when the count is not a multiple of 32.
 */
export function quantizeQ8_0(values: Float32Array): Uint8Array {
  if (values.length % blockLength !== 0) {
    throw new RangeError(
      `expected a multiple of ${blockLength} values for Q8_0, got ${values.length}`,
    )
  }
  const output = new Uint8Array((values.length / blockLength) * blockBytes)
  let position = 0
  for (let start = 0; start < values.length; start += blockLength) {
    let largest = 0
    for (let index = start; index < start + blockLength; index++) {
      largest = Math.max(largest, Math.abs(values[index] ?? 0))
    }
    setHalf(output, position, toHalfFloat(largest / 127))
    position += 2
    const inverse = largest === 0 ? 0 : 127 / largest
    for (let index = start; index < start + blockLength; index++) {
      output[position++] = Math.round((values[index] ?? 0) * inverse)
    }
  }
  return output
}

const float = new Float32Array(1)
const bits = new Uint32Array(float.buffer)

/**
 * The bits of the IEEE 754 half-precision number nearest to `value` (ties to even; too large:
 * infinity). Node 20 has no `Float16Array`.
 */
export function toHalfFloat(value: number): number {
  float[0] = value
  const source = bits[0] ?? 0
  const sign = (source >>> 16) & 0x8000
  const magnitude = source & 0x7fffffff
  if (magnitude > 0x7f800000) return sign | 0x7e00
  if (magnitude >= 0x477ff000) return sign | 0x7c00
  // below the smallest normal half the spacing is fixed at 2^-24
  if (magnitude < 0x38800000) return sign | roundHalfEven(Math.abs(float[0]) * 2 ** 24)
  const odd = (magnitude >>> 13) & 1
  return sign | ((magnitude - 0x38000000 + 0xfff + odd) >>> 13)
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value)
  const rest = value - floor
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1
  return floor % 2 === 0 ? floor : floor + 1
}

/** Writes the bits of a half-precision number. */
export function setHalf(bytes: Uint8Array, position: number, half: number): void {
  bytes[position] = half & 0xff
  bytes[position + 1] = half >>> 8
}
