import type { SamplingParams } from './sampling.js'

/** What a backend may tell of its model besides; another one may tell more. */
export interface ModelDetails {
  readonly layers?: number
  readonly hiddenSize?: number
  readonly attentionHeads?: number
  readonly keyValueHeads?: number
  readonly ropeTheta?: number
  /** Bytes of RAM that it takes. */
  readonly memoryBytes?: number
  /** Whether its file is mapped into memory. */
  readonly mmap?: boolean
  /** In Jinja. */
  readonly chatTemplate?: string
  readonly bosToken?: string
  readonly eosToken?: string
  readonly eosTokenId?: number
  /** Whether it thinks where a client does not say, as its operator has set. */
  readonly reasoning?: boolean
  /** How embeddings come of an input's tokens; `none`: one each, `rank`: it compares texts. */
  readonly pooling?: string
  readonly [more: string]: string | number | boolean | undefined
}

/** What is known of the loaded model. */
export interface ModelInfo {
  /** The name that clients see, such as `tinyllama-1.1b-chat`. */
  readonly id: string
  /** `llama`, `qwen3`, … */
  readonly architecture: string
  /** Count of weights. */
  readonly parameters: number
  readonly vocabularySize: number
  /** The context the model was trained with, in tokens. */
  readonly trainingContext: number
  /** Such as `Q4_K_M`. */
  readonly quantization: string
  /** Weights, in bytes. */
  readonly sizeBytes: number
  /** File the model was read from, where there is one. */
  readonly path?: string
  readonly details?: ModelDetails
  /** Whether prompts may have images. Default: false. */
  readonly images?: boolean
  /** Whether prompts may have sounds. Default: false. */
  readonly audio?: boolean
  /** The sampling that its file recommends, for what a request leaves out. Default: none. */
  readonly sampling?: Partial<SamplingParams>
}
