import { blockSize, type VocabularyScan } from './vocabulary-scan.js'

/** {@link VocabularyScan} for machines without SIMD instructions. */
export class PlainScan implements VocabularyScan {
  readonly size: number
  readonly logits: Float32Array
  readonly maxima: Float32Array
  readonly sums: Float64Array
  readonly weights: Float32Array
  readonly ids: Int32Array
  readonly listed: Float32Array

  constructor(size: number) {
    this.size = size
    const blocks = Math.ceil(size / blockSize)
    const length = blocks * blockSize
    this.logits = new Float32Array(length).fill(-Infinity)
    this.maxima = new Float32Array(blocks)
    this.sums = new Float64Array(blocks)
    this.weights = new Float32Array(length)
    this.ids = new Int32Array(length)
    this.listed = new Float32Array(length)
  }

  findLargest(): number {
    const { logits, maxima } = this
    let largest = -Infinity
    for (let block = 0, at = 0; block < maxima.length; block++) {
      // two chains of comparisons, so that one need not wait for the other; none sees NaN
      let even = -Infinity
      let odd = -Infinity
      for (const end = at + blockSize; at < end; at += 2) {
        const first = logits[at]!
        const second = logits[at + 1]!
        if (first > even) even = first
        if (second > odd) odd = second
      }
      const most = Math.max(even, odd)
      maxima[block] = most
      if (most > largest) largest = most
    }
    return largest
  }

  collect(from: number): number {
    const { logits, maxima, ids, listed } = this
    let count = 0
    for (let block = 0; block < maxima.length; block++) {
      if (maxima[block]! < from) continue
      const start = block * blockSize
      for (let id = start; id < start + blockSize; id++) {
        const logit = logits[id]!
        if (!(logit >= from)) continue
        ids[count] = id
        listed[count] = logit
        count += 1
      }
    }
    return count
  }

  weigh(from: number, temperature: number, shift: number): number {
    const { logits, maxima, sums, weights } = this
    let total = 0
    for (let block = 0; block < maxima.length; block++) {
      sums[block] = 0
      if (maxima[block]! < from) continue
      const start = block * blockSize
      sums[block] = weighRun(logits, start, start + blockSize, weights, temperature, shift)
      total += sums[block]!
    }
    return total
  }

  weighListed(count: number, temperature: number, shift: number): number {
    return weighRun(this.listed, 0, count, this.weights, temperature, shift)
  }
}

function weighRun(
  logits: Float32Array,
  start: number,
  end: number,
  weights: Float32Array,
  temperature: number,
  shift: number,
): number {
  // in double precision the product rounds to the very float that the division gives
  const scale = 1 / temperature
  let sum = 0
  for (let index = start; index < end; index++) {
    const exponent = Math.fround(Math.fround(logits[index]! * scale) - shift)
    const weight = exponent > -86 ? Math.fround(Math.exp(exponent)) : 0
    weights[index] = weight
    sum += weight
  }
  return sum
}
