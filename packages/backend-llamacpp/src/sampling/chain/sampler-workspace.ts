import { Candidates } from './candidates/candidates.js'
import { DrawRandom } from './random/draw-random.js'
import { PlainScan } from './scan/plain-scan.js'
import type { VocabularyScan } from './scan/vocabulary-scan.js'

/** What draws work on: 30 bytes for each entry of the vocabulary, shared by all samplers of a model. */
export class SamplerWorkspace {
  readonly scan: VocabularyScan
  readonly candidates: Candidates
  readonly random = new DrawRandom()
  #ids: Int32Array | undefined

  constructor(vocabularySize: number) {
    this.scan = new PlainScan(vocabularySize)
    this.candidates = new Candidates(this.scan)
  }

  /** The ids of the whole vocabulary. */
  get ids(): Int32Array {
    return (this.#ids ??= Int32Array.from({ length: this.scan.size }, (_, id) => id))
  }
}
