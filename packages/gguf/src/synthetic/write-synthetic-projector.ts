import {
  bool,
  fileTypes,
  float32,
  float32s,
  floatTensor,
  type GgufMetadata,
  type GgufTensor,
  text,
  uint32,
} from '../format/gguf-types.js'
import { writeGguf } from '../format/gguf-writer.js'
import { RandomBits, randomFloats } from './random-tensor.js'

/**
 * Kinds of projectors by llama.cpp's names: `mlp` (LLaVA: a square of a fixed size), `gemma3` (the same, read as a whole),
 * `qwen2vl_merger` (any size, a token for 28 × 28 pixels, M-RoPE) and `ultravox` (sound: 30 seconds are 150 tokens).
 */
export type ProjectorKind = 'mlp' | 'gemma3' | 'qwen2vl_merger' | 'ultravox'

/** Options of {@link writeSyntheticProjector}. */
export interface SyntheticProjectorOptions {
  /** Path of the GGUF file to write. */
  readonly out: string
  /** The length of the text model's vectors. */
  readonly width: number
  /** Default `mlp`. */
  readonly kind?: ProjectorKind
  /** Edge of the square that images are resized to, in pixels: a multiple of 14. Default 56: 16 tokens an image. */
  readonly imageSize?: number
  /** Length of the vectors within. Default 64. */
  readonly embedding?: number
  /** Layers. Default 3. */
  readonly layers?: number
  /** Seed of the weights. Default 0. */
  readonly seed?: number
}

const patchSize = 14
const heads = 4
/** Bands of frequencies that a sound is cut into, and the tokens of 30 seconds before they are stacked. */
const [bands, soundPositions, stacked] = [80, 1500, 10] as const

/**
 * Writes a projector (`mmproj`) with random weights: a small transformer, and what turns its vectors into a text model's.
 * What it says of a file means nothing, and is another for another file.
 * @returns the size of the file in bytes.
 */
export async function writeSyntheticProjector(options: SyntheticProjectorOptions): Promise<number> {
  const { out, kind = 'mlp', width, imageSize = 56, embedding = 64, layers = 3, seed = 0 } = options
  const isSound = kind === 'ultravox'
  const tensors = new ProjectorTensors(isSound ? 'a' : 'v', embedding, new RandomBits(seed))
  if (isSound) tensors.soundHead()
  else tensors.imageHead(kind, (imageSize / patchSize) ** 2)
  for (let layer = 0; layer < layers; layer++) tensors.layer(layer)
  tensors.tail(kind, width)
  const encoder: GgufMetadata = {
    embedding_length: uint32(embedding),
    feed_forward_length: uint32(2 * embedding),
    block_count: uint32(layers),
    projection_dim: uint32(width),
    'attention.head_count': uint32(heads),
    'attention.layer_norm_epsilon': float32(1e-5),
    ...(isSound
      ? { num_mel_bins: uint32(bands), 'projector.stack_factor': uint32(stacked) }
      : {
          image_size: uint32(imageSize),
          patch_size: uint32(patchSize),
          image_mean: float32s([0.5, 0.5, 0.5]),
          image_std: float32s([0.5, 0.5, 0.5]),
          ...(kind === 'gemma3' && { 'projector.scale_factor': uint32(1) }),
        }),
  }
  const prefix = isSound ? 'audio' : 'vision'
  return await writeGguf(
    out,
    {
      'general.architecture': text('clip'),
      'general.file_type': uint32(fileTypes.F32),
      [`clip.has_${prefix}_encoder`]: bool(true),
      'clip.projector_type': text(kind),
      'clip.use_gelu': bool(true),
      ...Object.fromEntries(
        Object.entries(encoder).map(([key, value]) => [`clip.${prefix}.${key}`, value]),
      ),
    },
    tensors.list,
  )
}

/** The tensors of a projector, one after the other. */
class ProjectorTensors {
  readonly list: GgufTensor[] = []

  constructor(
    private readonly prefix: string,
    private readonly embedding: number,
    private readonly random: RandomBits,
  ) {}

  imageHead(kind: ProjectorKind, positions: number): void {
    const patch = [patchSize, patchSize, 3, this.embedding]
    this.#matrix('v.patch_embd.weight', patch)
    if (kind === 'qwen2vl_merger') this.#matrix('v.patch_embd.weight.1', patch)
    else this.#matrix('v.position_embd.weight', [this.embedding, positions])
  }

  soundHead(): void {
    for (const [nth, inputs] of [bands, this.embedding].entries()) {
      const name = `a.conv1d.${nth + 1}`
      this.#matrix(`${name}.weight`, [3, inputs, this.embedding])
      this.#constant(`${name}.bias`, [1, this.embedding], 0)
    }
    this.#matrix('a.position_embd.weight', [this.embedding, soundPositions])
  }

  layer(layer: number): void {
    const name = `${this.prefix}.blk.${layer}`
    const size = this.embedding
    for (const norm of ['ln1', 'ln2']) {
      this.#constant(`${name}.${norm}.weight`, [size], 1)
      this.#constant(`${name}.${norm}.bias`, [size], 0)
    }
    for (const part of ['q', 'v', 'out']) this.#biased(`${name}.attn_${part}`, size, size)
    // those of Whisper have no bias here
    if (this.prefix === 'v') this.#biased(`${name}.attn_k`, size, size)
    else this.#matrix(`${name}.attn_k.weight`, [size, size])
    this.#biased(`${name}.ffn_up`, size, 2 * size)
    this.#biased(`${name}.ffn_down`, 2 * size, size)
  }

  /** From the transformer's vectors to the text model's. */
  tail(kind: ProjectorKind, width: number): void {
    const size = this.embedding
    if (kind === 'gemma3') {
      this.#matrix('mm.input_projection.weight', [width, size])
      this.#constant('mm.soft_emb_norm.weight', [size], 1)
    } else if (kind !== 'ultravox') {
      // Qwen's merges four neighbours into one vector
      this.#biased('mm.0', kind === 'mlp' ? size : 4 * size, width)
      this.#biased('mm.2', width, width)
    } else {
      this.#constant('mm.a.norm_pre.weight', [stacked * size], 1)
      this.#matrix('mm.a.mlp.1.weight', [stacked * size, 2 * size])
      this.#constant('mm.a.norm_mid.weight', [size], 1)
      this.#matrix('mm.a.mlp.2.weight', [size, width])
    }
  }

  #biased(name: string, columns: number, rows: number): void {
    this.#matrix(`${name}.weight`, [columns, rows])
    this.#constant(`${name}.bias`, [rows], 0)
  }

  /** Weights of a spread that keeps vectors of about their length. */
  #matrix(name: string, shape: readonly number[]): void {
    const count = shape.reduce((product, size) => product * size, 1)
    const inputs = count / (shape.at(-1) ?? 1)
    this.#add(name, shape, randomFloats(count, Math.sqrt(12 / inputs), this.random))
  }

  #constant(name: string, shape: readonly number[], value: number): void {
    const count = shape.reduce((product, size) => product * size, 1)
    this.#add(name, shape, new Float32Array(count).fill(value))
  }

  #add(name: string, shape: readonly number[], values: Float32Array): void {
    this.list.push(floatTensor(name, shape, () => values))
  }
}
