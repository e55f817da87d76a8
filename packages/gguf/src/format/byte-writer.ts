import type { GgufScalar, GgufScalarType } from './gguf-types.js'

const encoder = new TextEncoder()

/** A growing little-endian buffer. */
export class ByteWriter {
  #bytes = new Uint8Array(1 << 16)
  #view = new DataView(this.#bytes.buffer)
  #length = 0

  /** The bytes written so far, not copied. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length)
  }

  /**
   * Writes one scalar.
   * @throws TypeError or RangeError when the value does not fit its type.
   */
  scalar(type: GgufScalarType, value: GgufScalar): void {
    if (type === 'string') return this.string(String(value))
    if (type === 'bool') return this.#integer(1, BigInt(value === true ? 1 : 0), 0n, 1n)
    if (type === 'float32' || type === 'float64') return this.#float(type, Number(value))
    const bits = Number(type.replace(/\D+/, ''))
    const low = type.startsWith('u') ? 0n : -(1n << BigInt(bits - 1))
    const high = low + (1n << BigInt(bits)) - 1n
    this.#integer(bits / 8, BigInt(value), low, high)
  }

  /** Writes a string as GGUF does: its length in bytes as `uint64`, then UTF-8. */
  string(value: string): void {
    this.#reserve(8 + value.length * 3)
    const { written } = encoder.encodeInto(value, this.#bytes.subarray(this.#length + 8))
    this.#view.setBigUint64(this.#length, BigInt(written), true)
    this.#length += 8 + written
  }

  /** Writes zeros until the length is a multiple of `alignment`. */
  align(alignment: number): void {
    const padding = (alignment - (this.#length % alignment)) % alignment
    this.#reserve(padding)
    this.#bytes.fill(0, this.#length, this.#length + padding)
    this.#length += padding
  }

  #integer(bytes: number, value: bigint, low: bigint, high: bigint): void {
    if (value < low || value > high) {
      throw new RangeError(`expected an integer from ${low} to ${high}, got ${value}`)
    }
    this.#reserve(8)
    this.#view.setBigUint64(this.#length, BigInt.asUintN(64, value), true)
    this.#length += bytes
  }

  #float(type: 'float32' | 'float64', value: number): void {
    this.#reserve(8)
    if (type === 'float32') this.#view.setFloat32(this.#length, value, true)
    else this.#view.setFloat64(this.#length, value, true)
    this.#length += type === 'float32' ? 4 : 8
  }

  #reserve(extra: number): void {
    if (this.#length + extra <= this.#bytes.length) return
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.#length + extra))
    grown.set(this.bytes)
    this.#bytes = grown
    this.#view = new DataView(grown.buffer)
  }
}
