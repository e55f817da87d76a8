import { CllmError } from '@cllm/core'
import { type JinjaTemplate, type LoadedModel, nodeLlamaCppVersion } from '../native.js'
import type { NativeModel } from '../native-model.js'
import type { NativeContext, NativeContextOptions } from '../native-context.js'

/** A complete configuration: omitted settings are off. */
export interface NativeSamplerConfig {
  temperature: number
  /** Undefined: off. 0 would sort the whole vocabulary. */
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

/** The addon's sampler chain. It keeps 12 bytes per vocabulary entry for good, so it is reused. */
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

/** The tokens whose logits are wanted, and how many of the largest logits. */
export type WantedLogits = readonly [
  tokens: readonly number[],
  largest: boolean,
  smallest: boolean,
  drawn: boolean,
  count: number,
]

/** A context of the addon, which draws with its own samplers. */
export interface AddonContext extends NativeContext {
  /** Draws from the logits of the batch's token with this index; −1 when it has none. */
  sampleToken(batchIndex: number, sampler: NativeSampler): Promise<number>
  /**
   * The same, with logits as the sampler's chain leaves them: `[token, , , pairs of id and logit, weight]`, where the
   * weight is Σ exp(logit − largest logit).
   */
  sampleToken(
    batchIndex: number,
    sampler: NativeSampler,
    probabilities: false,
    confidence: false,
    logits: WantedLogits,
    weight: boolean,
  ): Promise<NativeLogits>
}

/** A model that was loaded through the addon. */
export interface AddonModel extends LoadedModel {
  createSampler(): NativeSampler
  createContext(options: NativeContextOptions): Promise<AddonContext | undefined>
}

/** The addon's context as it comes, before it is adapted to {@link AddonContext}. */
export interface BoundContext extends Omit<AddonContext, 'decodeBatch'> {
  init(): Promise<boolean>
  initBatch(tokens: number): void
  /** @param outputs - indexes of tokens */
  addToBatch(sequence: number, position: number, tokens: Uint32Array, outputs: Uint32Array): void
  decodeBatch(): Promise<void>
}

/** The exports of node-llama-cpp's addon that are used. */
export interface Bindings {
  readonly AddonContext: new (
    model: NativeModel,
    options: Readonly<Record<string, unknown>>,
  ) => BoundContext
  readonly AddonSampler: new (model: NativeModel) => NativeSampler
  readonly AddonJinjaRenderer: new (source: string) => JinjaTemplate
  getGgmlType(name: string): number | undefined
}

const contextMethods = [
  'init',
  'initBatch',
  'addToBatch',
  'decodeBatch',
  'sampleToken',
  'disposeSequence',
  'removeTokenCellsFromSequence',
  'copySequenceStateFromOtherSequence',
  'getSequenceKvCacheMinPosition',
  'getSequenceKvCacheMaxPosition',
  'getEmbedding',
  'getThreads',
  'dispose',
]

/** @throws CllmError `internal` when the addon lacks an export that is used here */
export function checkBindings(value: unknown): Bindings {
  const bindings = value as Partial<Bindings> | undefined
  checkMethods('AddonContext', bindings?.AddonContext?.prototype, contextMethods)
  checkMethods('AddonSampler', bindings?.AddonSampler?.prototype, ['applyConfig', 'dispose'])
  checkMethods('bindings', bindings, ['getGgmlType', 'AddonJinjaRenderer'])
  return bindings as Bindings
}

function checkMethods(owner: string, value: unknown, names: readonly string[]): void {
  const methods = value as Readonly<Record<string, unknown>> | undefined
  for (const name of names) {
    if (typeof methods?.[name] !== 'function') throw changed(`${owner}.${name}`)
  }
}

/** The error if the installed node-llama-cpp lacks something. */
export function changed(what: string): CllmError {
  return new CllmError(
    'internal',
    `@cllm/backend-llamacpp uses internals of node-llama-cpp ${nodeLlamaCppVersion}; ` +
      `the installed version has no ${what}: install node-llama-cpp@${nodeLlamaCppVersion}`,
    { details: { expected: nodeLlamaCppVersion, missing: what } },
  )
}
