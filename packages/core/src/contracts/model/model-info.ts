import type { SamplingParams } from './sampling.js'

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
  /**
   * Shape and the like: `hiddenSize`, `layers`, `attentionHeads`, `keyValueHeads`, `ropeTheta`,
   * `chatTemplate` (in Jinja), …
   */
  readonly details?: Readonly<Record<string, string | number | boolean>>
  /** Whether prompts may have images. Default: false. */
  readonly images?: boolean
  /** The sampling that its file recommends, for what a request leaves out. Default: none. */
  readonly sampling?: Partial<SamplingParams>
}
