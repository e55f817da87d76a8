import type { SamplingParams, TokenId } from '@cllm/core'
import type { Candidates } from './candidates/candidates.js'
import type { DrawRandom } from './steps/chain-step.js'
import { type ChainVocabulary, SamplingChain, seedAt } from './sampling-chain.js'
import type { VocabularyScan } from './scan/vocabulary-scan.js'
import { LogitBias } from './steps/logit-changes.js'

/** What a sequence's draws depend on beside the logits and the position, where nothing else counts. */
export interface PlainDrawSettings {
  readonly params: SamplingParams
  /** What is added to the logits of single tokens. */
  readonly biases?: { readonly tokens: Uint32Array; readonly values: Float32Array }
}

/** What draws work on. */
export interface DrawWorkspace extends ChainVocabulary {
  readonly scan: VocabularyScan
  readonly candidates: Candidates
  readonly random: DrawRandom
}

/**
 * Draws as {@link ChainSampler} does where neither earlier tokens nor a grammar nor processors count: such a
 * draw can be made in any thread.
 */
export class PlainDraw {
  readonly #workspace: DrawWorkspace
  readonly #chain: SamplingChain
  readonly #seed: number
  readonly #bias: LogitBias | undefined

  constructor(workspace: DrawWorkspace, { params, biases }: PlainDrawSettings) {
    this.#workspace = workspace
    this.#chain = new SamplingChain(params, workspace)
    this.#seed = params.seed
    this.#bias = biases && new LogitBias(biases.tokens, biases.values)
  }

  /** The token after `position`; undefined when none can be drawn. */
  draw(logits: Float32Array, position: number): TokenId | undefined {
    const { scan, candidates, random } = this.#workspace
    random.seed(seedAt(this.#seed, position))
    scan.load(logits)
    this.#bias?.apply(scan.logits)
    return candidates.begin() ? this.#chain.pick(candidates, random) : undefined
  }
}
