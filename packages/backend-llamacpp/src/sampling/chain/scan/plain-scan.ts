import { blockSize, type VocabularyScan, type Weighed } from './vocabulary-scan.js'

/** {@link VocabularyScan} without SIMD instructions. */
export class PlainScan implements VocabularyScan {
  readonly size: number
  readonly logits: Float32Array
  readonly maxima: Float32Array
  readonly sums: Float64Array
  #from = 0
  #scale = 1
  #shift = 0

  constructor(size: number) {
    this.size = size
    const blocks = Math.ceil(size / blockSize)
    this.logits = new Float32Array(blocks * blockSize).fill(-Infinity)
    this.maxima = new Float32Array(blocks)
    this.sums = new Float64Array(blocks)
  }

  load(logits: Float32Array): void {
    this.logits.set(logits)
  }

  findLargest(): number {
    const { logits, maxima } = this
    let largest = -Infinity
    for (let block = 0, at = 0; block < maxima.length; block++) {
      // four chains of comparisons, so that one need not wait for another; none sees NaN
      let first = -Infinity
      let second = -Infinity
      let third = -Infinity
      let fourth = -Infinity
      for (const end = at + blockSize; at < end; at += 4) {
        const a = logits[at]!
        const b = logits[at + 1]!
        const c = logits[at + 2]!
        const d = logits[at + 3]!
        if (a > first) first = a
        if (b > second) second = b
        if (c > third) third = c
        if (d > fourth) fourth = d
      }
      const most = Math.max(first, second, third, fourth)
      maxima[block] = most
      if (most > largest) largest = most
    }
    return largest
  }

  collect(from: number, ids: Int32Array, values: Float32Array): number {
    const { logits, maxima } = this
    let count = 0
    for (let block = 0; block < maxima.length; block++) {
      if (!(maxima[block]! >= from)) continue
      const start = block * blockSize
      for (let id = start; id < start + blockSize; id++) {
        const logit = logits[id]!
        if (!(logit >= from)) continue
        ids[count] = id
        values[count] = logit
        count += 1
      }
    }
    return count
  }

  weigh(from: number, temperature: number, shift: number): Weighed {
    const { logits, maxima, sums, size } = this
    const scale = 1 / temperature
    this.#from = from
    this.#scale = scale
    this.#shift = shift
    let total = 0
    let weighed = 0
    for (let block = 0; block < maxima.length; block++) {
      let sum = 0
      if (maxima[block]! >= from) {
        const start = block * blockSize
        for (let id = start; id < start + blockSize; id++) {
          const logit = logits[id]!
          if (!(logit >= from)) continue
          weighed += 1
          sum += weightOf(logit, scale, shift)
        }
      }
      sums[block] = sum
      total += sum
    }
    return { total, leftOut: Math.max(0, size - weighed) }
  }

  weights(block: number, into: Float32Array): void {
    const start = block * blockSize
    for (let index = 0; index < blockSize; index++) {
      const logit = this.logits[start + index]!
      into[index] = logit >= this.#from ? weightOf(logit, this.#scale, this.#shift) : 0
    }
  }
}

/** In double precision the product rounds to the very float that the division gives. */
function weightOf(logit: number, scale: number, shift: number): number {
  return Math.fround(Math.exp(Math.fround(Math.fround(logit * scale) - shift)))
}
