import { tensorBlocks } from './gguf-types.js'
import { toHalfFloat } from './half-float.js'

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
    const half = toHalfFloat(largest / 127)
    const inverse = largest === 0 ? 0 : 127 / largest
    output[position++] = half & 0xff
    output[position++] = half >>> 8
    for (let index = start; index < start + blockLength; index++) {
      output[position++] = Math.round((values[index] ?? 0) * inverse)
    }
  }
  return output
}
