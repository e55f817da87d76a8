import { Candidates } from './candidates/candidates.js'
import { DrawRandom } from './random/draw-random.js'
import { PlainScan } from './scan/plain-scan.js'
import { SimdScan } from './scan/simd/simd-scan.js'
import type { VocabularyScan } from './scan/vocabulary-scan.js'

/** What draws work on: 30 bytes for each entry of the vocabulary, shared by all samplers of a model. */
export class SamplerWorkspace {
  readonly scan: VocabularyScan
  readonly candidates: Candidates
  readonly random = new DrawRandom()
  #ids: Int32Array | undefined

  /** @param options - `simd` false does without SIMD instructions; default: as the machine can */
  constructor(vocabularySize: number, { simd = SimdScan.isSupported() } = {}) {
    this.scan = simd ? new SimdScan(vocabularySize) : new PlainScan(vocabularySize)
    this.candidates = new Candidates(this.scan)
  }

  /** The ids of the whole vocabulary. */
  get ids(): Int32Array {
    return (this.#ids ??= Int32Array.from({ length: this.scan.size }, (_, id) => id))
  }
}
