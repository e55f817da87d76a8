/** The numbers that decide a transformer's size and speed. */
export interface ModelShape {
  readonly name: string
  readonly layers: number
  readonly embedding: number
  readonly feedForward: number
  readonly heads: number
  readonly keyValueHeads: number
  readonly headSize: number
  /** Number of vocabulary entries. */
  readonly vocabulary: number
  /** Id of the first special token; all before it are bytes and merges. */
  readonly specialsAt: number
  /** Training context in tokens. */
  readonly context: number
  readonly ropeBase: number
  /** The mix of tensor types: llama.cpp's `Q4_K_M`, or `Q8_0` throughout. */
  readonly quantization: 'Q4_K_M' | 'Q8_0'
}

/** The models that can be imitated. */
export const syntheticShapes = {
  'qwen3-0.6b': {
    name: 'Synthetic Qwen3 0.6B',
    layers: 28,
    embedding: 1024,
    feedForward: 3072,
    heads: 16,
    keyValueHeads: 8,
    headSize: 128,
    vocabulary: 151_936,
    specialsAt: 151_643,
    context: 40_960,
    ropeBase: 1_000_000,
    quantization: 'Q4_K_M',
  },
  tiny: {
    name: 'Synthetic tiny',
    layers: 2,
    embedding: 64,
    feedForward: 192,
    heads: 4,
    keyValueHeads: 2,
    headSize: 32,
    vocabulary: 768,
    specialsAt: 742,
    context: 512,
    ropeBase: 10_000,
    quantization: 'Q8_0',
  },
} as const satisfies Record<string, ModelShape>

/** Name of a model that can be imitated. */
export type SyntheticModelName = keyof typeof syntheticShapes
