import { blockSize, type VocabularyScan } from '../scan/vocabulary-scan.js'
import { kthLargest } from './kth-largest.js'

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
