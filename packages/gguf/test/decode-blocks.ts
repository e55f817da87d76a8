/**
 * Decoders of quantized blocks, written from ggml's description of the formats, for comparison
 * only.
 */

const halfAt = (bytes: Uint8Array, position: number): number => {
  const bits = (bytes[position] ?? 0) | ((bytes[position + 1] ?? 0) << 8)
  const exponent = (bits >>> 10) & 31
  const fraction = bits & 1023
  const magnitude =
    exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15)
  return bits & 0x8000 ? -magnitude : magnitude
}

const signed = (byte: number | undefined): number => ((byte ?? 0) << 24) >> 24

export function decodeQ8_0(bytes: Uint8Array): number[] {
  const values: number[] = []
  for (let block = 0; block < bytes.length; block += 34) {
    const scale = halfAt(bytes, block)
    for (let index = 0; index < 32; index++) values.push(scale * signed(bytes[block + 2 + index]))
  }
  return values
}

export function decodeQ4_K(bytes: Uint8Array): number[] {
  const values: number[] = []
  for (let block = 0; block < bytes.length; block += 144) {
    const scaleOfScales = halfAt(bytes, block)
    const scaleOfMinima = halfAt(bytes, block + 2)
    const at = (index: number): number => bytes[block + 4 + index] ?? 0
    for (let group = 0; group < 8; group++) {
      const scale = group < 4 ? at(group) & 63 : (at(group + 4) & 15) | ((at(group - 4) >>> 6) << 4)
      const minimum =
        group < 4 ? at(group + 4) & 63 : (at(group + 4) >>> 4) | ((at(group) >>> 6) << 4)
      for (let index = 0; index < 32; index++) {
        const pair = bytes[block + 16 + (group >>> 1) * 32 + index] ?? 0
        const quant = group % 2 === 0 ? pair & 15 : pair >>> 4
        values.push(scaleOfScales * scale * quant - scaleOfMinima * minimum)
      }
    }
  }
  return values
}

export function decodeQ6_K(bytes: Uint8Array): number[] {
  const values: number[] = []
  for (let block = 0; block < bytes.length; block += 210) {
    const scaleOfScales = halfAt(bytes, block + 208)
    for (let index = 0; index < 256; index++) {
      const half = index >>> 7
      const quarter = (index >>> 5) & 3
      const lane = index & 31
      const low = bytes[block + half * 64 + (quarter & 1) * 32 + lane] ?? 0
      const high = bytes[block + 128 + half * 32 + lane] ?? 0
      const quant = ((low >>> (quarter > 1 ? 4 : 0)) & 15) | (((high >>> (quarter * 2)) & 3) << 4)
      values.push(scaleOfScales * signed(bytes[block + 192 + (index >>> 4)]) * (quant - 32))
    }
  }
  return values
}
