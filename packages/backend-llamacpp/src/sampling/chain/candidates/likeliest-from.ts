import { blockSize, type VocabularyScan } from '../scan/vocabulary-scan.js'

/** Of this many entries one is looked at to guess a quantile. */
const stride = blockSize

/**
 * Finds a logit that at least `count` entries of a vocabulary reach, and not many more. For few
 * entries the largest logits of the blocks prove one; for many it is guessed from a sample, and the
 * caller asks again with another `attempt` when the guess was too high.
 */
export class LikeliestFrom {
  readonly #scan: VocabularyScan
  readonly #scratch: Float32Array

  constructor(scan: VocabularyScan) {
    this.#scan = scan
    this.#scratch = new Float32Array(scan.maxima.length)
  }

  /** @returns the logit; −Infinity for all entries */
  find(count: number, attempt: number): number {
    const { maxima } = this.#scan
    const blocks = maxima.length
    if (count * 4 <= blocks) {
      this.#scratch.set(maxima)
      return kthLargest(this.#scratch, blocks, count)
    }
    const share = count / stride
    // three deviations of a count in a sample, so that a second attempt is rare
    const rank = Math.ceil((share + 3 * Math.sqrt(share) + 1) * 2 ** attempt)
    if (rank * 2 > blocks) return -Infinity
    return kthLargest(this.#scratch, this.#sample(), rank)
  }

  #sample(): number {
    const { logits, size } = this.#scan
    const sample = this.#scratch
    let taken = 0
    // one from each block, from another place in each
    for (let block = 0; block < sample.length; block++) {
      const at = block * stride + ((block * 37) & (stride - 1))
      const logit = at < size ? logits[at]! : -Infinity
      sample[taken++] = logit > -Infinity ? logit : -Infinity
    }
    return taken
  }
}

/**
 * The value that is the `k`-th largest of the first `size`, which come out in another order
 * (quickselect). 1 ≤ k ≤ size; no value may be NaN.
 */
export function kthLargest(values: Float32Array, size: number, k: number): number {
  const wanted = k - 1
  let low = 0
  let high = size - 1
  while (low < high) {
    const pivot = medianOf(values[low]!, values[(low + high) >>> 1]!, values[high]!)
    let left = low
    let right = high
    while (left <= right) {
      while (values[left]! > pivot) left += 1
      while (values[right]! < pivot) right -= 1
      if (left > right) break
      const value = values[left]!
      values[left++] = values[right]!
      values[right--] = value
    }
    if (wanted <= right) high = right
    else if (wanted >= left) low = left
    else return pivot
  }
  return values[wanted]!
}

function medianOf(a: number, b: number, c: number): number {
  return Math.max(Math.min(a, b), Math.min(Math.max(a, b), c))
}
