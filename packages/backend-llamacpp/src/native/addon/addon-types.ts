import type { LoadedModel } from '../native.js'
import type { NativeContext, NativeContextOptions } from '../native-context.js'

/** A complete configuration: omitted settings are off. */
export interface NativeSamplerConfig {
  temperature: number
  /** Left out: off. 0 would sort the whole vocabulary. */
  topK?: number
  topP?: number
  minP?: number
  /** 4294967295 means random. */
  seed: number
  repeatPenalty?: number
  repeatPenaltyMaxTokens?: number
  /** Needed for any penalty. */
  repeatPenaltyTokens?: Uint32Array
  repeatPenaltyPresencePenalty?: number
  repeatPenaltyFrequencyPenalty?: number
  tokenBiasKeys?: Uint32Array
  tokenBiasValues?: Float32Array
}

/** The addon's sampler chain. It holds 12 bytes per vocabulary entry for good, so it is reused. */
export interface NativeSampler {
  applyConfig(config: NativeSamplerConfig): void
  dispose(): void
}

/** A drawn token with logits. */
export type NativeLogits = readonly [
  token: number,
  probabilities: undefined,
  confidence: undefined,
  logits: ArrayLike<number> | undefined,
  weight: number | undefined,
]

/** A context of the addon, which draws with samplers of its own. */
export interface AddonContext extends NativeContext {
  /** Draws from the logits of the batch's token with this index; −1 when it has none. */
  sampleToken(batchIndex: number, sampler: NativeSampler): Promise<number>
  /**
   * The same, with logits as the sampler's chain leaves them: `[token, , , pairs of id and logit,
   * weight]`, the weight being Σ exp(logit − largest logit).
   */
  sampleToken(
    batchIndex: number,
    sampler: NativeSampler,
    probabilities: false,
    confidence: false,
    logits: readonly [
      tokens: readonly number[],
      largest: boolean,
      smallest: boolean,
      drawn: boolean,
      count: number,
    ],
    weight: boolean,
  ): Promise<NativeLogits>
}

/** A model that was loaded through the addon. */
export interface AddonModel extends LoadedModel {
  createSampler(): NativeSampler
  createContext(options: NativeContextOptions): Promise<AddonContext | undefined>
}
