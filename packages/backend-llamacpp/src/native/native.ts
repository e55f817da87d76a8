import type { ChosenFunctions } from './ffi/choose-functions.js'
import type { PoolingType } from './pooling-types.js'
import type { JinjaTemplate } from './jinja-template.js'
import type { LogitsContext, NativeAdapter } from './logits-context.js'
import type { NativeModel } from './native-model.js'
import type { KvCacheType } from '../model/kv-cache-type.js'

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
  /** Advanced by every drawn token except end-of-generation tokens. */
  grammarEvaluationState?: NativeGrammarState
}

/** The position of a text in its grammar; to the addon's samplers it is opaque. */
export interface NativeGrammarState {
  /** Whether the token may come next. */
  allows?(token: number): boolean
  /** Sets the logits of those of the first `size` candidates to −∞ that may not come next. */
  forbid?(ids: Int32Array, logits: Float32Array, size: number): void
  /**
   * Gives its memory back, some megabytes for a large grammar, of which a garbage collector sees 40 bytes.
   * Nothing may be asked of it afterwards. Without it the collector does so at last.
   */
  free?(): void
}

/** A parsed grammar. */
export interface NativeGrammar {
  /** The state before the first token. */
  begin(): NativeGrammarState
  /** Gives its memory back; its states live on. No text may begin afterwards. */
  free?(): void
  /** Moves a state on. Throws when the token is not allowed there. */
  accept(state: NativeGrammarState, token: number): void
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

/**
 * llama.cpp's context: the KV cells of all sequences and the forward pass. A sequence id that it
 * does not have ends the process.
 */
export interface NativeContext {
  /** Begins an empty batch with room for `tokens` tokens. */
  initBatch(tokens: number): void
  /**
   * Copies tokens of one sequence into the batch.
   * @param outputs - the positions whose logits are wanted
   */
  addToBatch(
    sequence: number,
    position: number,
    tokens: readonly number[],
    outputs: readonly number[],
  ): void
  /** Resolves to false when the pass was aborted: what it has left in its sequences is to be removed. */
  decodeBatch(): Promise<boolean>
  disposeSequence(sequence: number): void
  /** False when the model's memory cannot forget a part. */
  removeTokenCellsFromSequence(sequence: number, start: number, end: number): boolean
  /** Copies cells now and their data at the next forward pass. */
  copySequenceStateFromOtherSequence(target: number, source: number): Promise<unknown>
  /** −1 when the sequence is empty. */
  getSequenceKvCacheMinPosition(sequence: number): number
  /** −1 when the sequence is empty. */
  getSequenceKvCacheMaxPosition(sequence: number): number
  /**
   * For a context that was made for embeddings; the addon's has sequence 0 only.
   * A model that compares texts gives one number.
   * @param tokens - up to the end of the sequence's, in the batch
   */
  getEmbedding(tokens: number, sequence: number): Float32Array
  /** The vectors of this many tokens of the batch, from one on, where they are not made into one. */
  getTokenEmbeddings?(first: number, count: number): Float32Array
  getThreads(): number
  dispose(): Promise<void>
}

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

/** How a context is made. */
export interface NativeContextOptions {
  /** Cells of all sequences together. */
  readonly contextSize: number
  readonly sequences: number
  readonly batchSize: number
  readonly threads: number
  readonly flashAttention: boolean | 'auto'
  readonly kvCacheType: KvCacheType
  /** Computes embeddings; default false. */
  readonly embeddings?: boolean
  /** Of embeddings; default: as the model says. */
  readonly pooling?: PoolingType | undefined
  /** Logits that one forward pass can give out; default: of each token. */
  readonly outputs?: number
  /** Tokens that are computed at once; default: `batchSize`. */
  readonly ubatchSize?: number
  /** Whether all sequences share their cells; default false. */
  readonly kvUnified?: boolean
  readonly rope?: RopeOptions
  /** How long threads poll for work before they sleep, 0 to 100; default 50. */
  readonly poll?: number
}

/** How positions are stretched beyond the context that a model was trained with. */
export interface RopeOptions {
  readonly scaling?: 'none' | 'linear' | 'yarn' | undefined
  readonly freqBase?: number | undefined
  /** Factor on the frequencies: 0.5 doubles the context. */
  readonly freqScale?: number | undefined
  /** The context that the model was trained with, for YaRN. */
  readonly yarnOriginalContext?: number | undefined
}

/** Where a model's weights go. */
export interface PlacementOptions {
  /** Names of devices, as llama.cpp has them; default: all GPUs. */
  readonly devices?: readonly string[] | undefined
  readonly splitMode?: 'none' | 'layer' | 'row' | undefined
  /** The GPU that is used with `splitMode` `none`. */
  readonly mainGpu?: number | undefined
  /** Each GPU's share. */
  readonly tensorSplit?: readonly number[] | undefined
  /** Tensors whose name matches a pattern go to a device. */
  readonly overrideTensors?: readonly { readonly pattern: string; readonly device: string }[]
}

export type { PoolingType } from './pooling-types.js'

/** Where llama.cpp computes. */
export type GpuKind = 'metal' | 'cuda' | 'vulkan'

/** Free memory in bytes. */
export interface FreeMemory {
  readonly ram: number
  /** 0 without a GPU. */
  readonly vram: number
  /** Whether the GPU's memory is a part of the RAM. */
  readonly unified: boolean
}

/** What both paths have. */
interface ModelInMemory {
  readonly native: NativeModel
  /** How many tokens the file has. */
  readonly vocabularySize: number
  readonly chatTemplate: string | undefined
  /** Layers on the GPU. */
  readonly gpuLayers: number
  /** Throws when the text is no GBNF, has no such root rule, or one of its rules begins with itself. */
  parseGrammar(this: void, gbnf: string, root: string): NativeGrammar
  dispose(): Promise<void>
}

/** How much of a model GPUs compute. */
export type GpuShare = 'none' | 'some' | 'all'

/** A model that was loaded through the C API. */
export interface FfiLoadedModel extends ModelInMemory {
  readonly path: 'ffi'
  readonly onGpu: GpuShare
  /** The library that was built on this machine; undefined: node-llama-cpp's. */
  readonly library: string | undefined
  /** Undefined when the memory cannot be had, or the KV type needs flash attention that is missing. */
  createContext(options: NativeContextOptions): Promise<LogitsContext | undefined>
  /** Reads an adapter; undefined when llama.cpp cannot, and its log says why. */
  loadAdapter(path: string): Promise<NativeAdapter | undefined>
}

/** A model that was loaded through node-llama-cpp's addon. */
export interface AddonLoadedModel extends ModelInMemory {
  readonly path: 'addon'
  createSampler(): NativeSampler
  /** Undefined when the memory cannot be had, or the KV type needs flash attention that is missing. */
  createContext(options: NativeContextOptions): Promise<AddonContext | undefined>
}

/** A model in memory. */
export type LoadedModel = FfiLoadedModel | AddonLoadedModel

/**
 * How llama.cpp is reached: through the C API of its libraries (`ffi`), or through node-llama-cpp's
 * addon.
 */
export type NativePath = 'ffi' | 'addon'

/** How a model is loaded. */
export interface LoadModelOptions {
  readonly modelPath: string
  /** `auto` leaves room for `contextSize` cells. */
  readonly gpuLayers: number | 'auto' | 'max'
  readonly contextSize: number
  readonly mmap: boolean
  readonly mlock: boolean
  /** Loads even when the memory does not seem to suffice; default false. */
  readonly ignoreMemory?: boolean
  /** Only on the path `ffi`. */
  readonly placement?: PlacementOptions
  /** Default `ffi`, which becomes `addon`, with a warning, where it cannot be had. */
  readonly path?: NativePath
  /** Through which `ffi` goes, as {@link LlamaRuntime.chooseFunctions} gave them; default: node-llama-cpp's. */
  readonly functions?: ChosenFunctions | undefined
}

/** llama.cpp, opened for one kind of GPU or none. */
export interface LlamaRuntime {
  readonly gpu: GpuKind | false
  /** Cores that are useful for matrix multiplication. */
  readonly mathCores: number
  freeMemory(): Promise<FreeMemory>
  /** The names of the GPUs. */
  gpuNames(): Promise<readonly string[]>
  /** Compiles a template with llama.cpp's own Jinja. Throws when it is none. */
  compileJinja(source: string): JinjaTemplate
  /**
   * Binds the C API; undefined where it cannot be used, with a warning.
   *
   * @param library - one that was built on this machine, for where there is no GPU; default:
   * node-llama-cpp's, also where this one cannot be used, with a warning
   */
  chooseFunctions(library?: string): Promise<ChosenFunctions | undefined>
  loadModel(options: LoadModelOptions & { readonly path: 'addon' }): Promise<AddonLoadedModel>
  loadModel(options: LoadModelOptions): Promise<LoadedModel>
}
