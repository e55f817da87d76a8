/** The numbers that decide a transformer's size and speed. */
export interface ModelShape {
  readonly name: string
  readonly architecture: 'qwen3' | 'qwen3vl' | 'qwen3moe' | 'lfm2'
  readonly layers: number
  /** Of a hybrid, the layers with attention; the others have a short convolution. Default: all. */
  readonly attentionLayers?: readonly number[]
  readonly embedding: number
  readonly feedForward: number
  /** Of a mixture of experts. */
  readonly experts?: {
    readonly count: number
    /** How many compute each token. */
    readonly used: number
    readonly feedForward: number
  }
  readonly heads: number
  readonly keyValueHeads: number
  readonly headSize: number
  /** Number of vocabulary entries. */
  readonly vocabulary: number
  /** Id of the first special token; all before it are bytes and merges. */
  readonly specialsAt: number
  /** What the English part of the vocabulary is learned from. */
  readonly english: 'film subtitles' | 'common words'
  /** Merges of that part. */
  readonly merges: number
  /** Training context in tokens. */
  readonly context: number
  readonly ropeBase: number
  /** Whether the original's output layer is its embeddings; default yes. */
  readonly isTied?: boolean
  /** The mix of tensor types: llama.cpp's `Q4_K_M`, or `Q8_0` throughout. */
  readonly quantization: 'Q4_K_M' | 'Q8_0'
}

/** Tokens that a short convolution looks at. */
export const convolutionLength = 3

/** What the models of the Qwen3 family share. */
const qwen3 = {
  headSize: 128,
  vocabulary: 151_936,
  specialsAt: 151_643,
  english: 'film subtitles',
  merges: 90_000,
  context: 40_960,
  ropeBase: 1_000_000,
  quantization: 'Q4_K_M',
} as const

/** A model for tests. */
const tiny = {
  name: 'Synthetic tiny',
  architecture: 'qwen3',
  layers: 2,
  embedding: 64,
  feedForward: 192,
  heads: 4,
  keyValueHeads: 2,
  headSize: 32,
  vocabulary: 768,
  specialsAt: 742,
  english: 'common words',
  merges: 400,
  context: 512,
  ropeBase: 10_000,
  quantization: 'Q8_0',
} as const

/** The models that can be imitated; LFM2 is a hybrid of attention and a state that cannot be cut. */
export const syntheticShapes = {
  'qwen3-0.6b': {
    ...qwen3,
    name: 'Synthetic Qwen3 0.6B',
    architecture: 'qwen3',
    layers: 28,
    embedding: 1024,
    feedForward: 3072,
    heads: 16,
    keyValueHeads: 8,
  },
  'qwen3-8b': {
    ...qwen3,
    name: 'Synthetic Qwen3 8B',
    architecture: 'qwen3',
    layers: 36,
    embedding: 4096,
    feedForward: 12_288,
    heads: 32,
    keyValueHeads: 8,
    isTied: false,
  },
  'qwen3-30b-a3b': {
    ...qwen3,
    name: 'Synthetic Qwen3 30B A3B',
    architecture: 'qwen3moe',
    layers: 48,
    embedding: 2048,
    feedForward: 6144,
    experts: { count: 128, used: 8, feedForward: 768 },
    heads: 32,
    keyValueHeads: 4,
    isTied: false,
  },
  tiny,
  'tiny-vl': {
    ...tiny,
    name: 'Synthetic tiny with M-RoPE',
    architecture: 'qwen3vl',
    context: 2048,
  },
  'lfm2-350m': {
    name: 'Synthetic LFM2 350M',
    architecture: 'lfm2',
    layers: 16,
    attentionLayers: [2, 5, 8, 10, 12, 14],
    embedding: 1024,
    feedForward: 4608,
    heads: 16,
    keyValueHeads: 8,
    headSize: 64,
    vocabulary: 65_536,
    specialsAt: 64_400,
    english: 'film subtitles',
    merges: 45_000,
    context: 128_000,
    ropeBase: 1_000_000,
    quantization: 'Q4_K_M',
  },
  'tiny-hybrid': {
    ...tiny,
    name: 'Synthetic tiny hybrid',
    architecture: 'lfm2',
    layers: 4,
    attentionLayers: [1, 3],
    headSize: 16,
    context: 2048,
  },
  'tiny-moe': {
    ...tiny,
    name: 'Synthetic tiny mixture of experts',
    architecture: 'qwen3moe',
    experts: { count: 8, used: 2, feedForward: 64 },
  },
} as const satisfies Record<string, ModelShape>

/** Name of a model that can be imitated. */
export type SyntheticModelName = keyof typeof syntheticShapes
