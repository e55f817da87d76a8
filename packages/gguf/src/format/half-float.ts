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
