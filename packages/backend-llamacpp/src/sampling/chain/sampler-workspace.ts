import type { TokenId, Tokenizer } from '@cllm/core'
import { Candidates } from './candidates/candidates.js'
import type { DrawWorkspace } from './plain-draw.js'
import { PlainScan } from './scan/plain-scan.js'
import { SimdScan } from './scan/simd/simd-scan.js'
import type { VocabularyScan } from './scan/vocabulary-scan.js'
import { DrawRandom } from './steps/chain-step.js'
import type { Vocabulary } from '../../text/vocabulary.js'

/**
 * What the draws of a model work on, one after the other: about 30 bytes for each entry of the
 * vocabulary, shared by all of its samplers.
 */
export class SamplerWorkspace implements DrawWorkspace {
  readonly vocabulary: Vocabulary
  readonly scan: VocabularyScan
  readonly candidates: Candidates
  readonly random = new DrawRandom()
  readonly #tokenizer: Pick<Tokenizer, 'encode'>
  #ids: Int32Array | undefined

  /** @param options - `simd` false does without SIMD instructions; default: as the machine can */
  constructor(
    vocabulary: Vocabulary,
    tokenizer: Pick<Tokenizer, 'encode'>,
    { simd }: { readonly simd?: boolean } = {},
  ) {
    this.vocabulary = vocabulary
    this.#tokenizer = tokenizer
    this.scan = scanFor(vocabulary.size, simd)
    this.candidates = new Candidates(this.scan)
  }

  /** The ids of the whole vocabulary. */
  get ids(): Int32Array {
    return (this.#ids ??= Int32Array.from({ length: this.size }, (_, id) => id))
  }

  get size(): number {
    return this.vocabulary.size
  }

  bytes(token: TokenId): Uint8Array {
    return this.vocabulary.bytes(token)
  }

  encode(text: string): readonly TokenId[] {
    return this.#tokenizer.encode(text, { addBos: false, special: false })
  }
}

/** A scan for a vocabulary of this size, with SIMD instructions where the machine has them. */
export function scanFor(size: number, simd = SimdScan.isSupported()): VocabularyScan {
  return simd ? new SimdScan(size) : new PlainScan(size)
}
