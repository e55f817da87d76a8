import type { GgufTensor } from '../format/gguf-types.js'
import { bool, float32, float32s, text, uint32 } from '../format/gguf-values.js'
import { writeGguf } from '../format/gguf-writer.js'
import { RandomBits } from './random-bits.js'

/** Options of {@link writeSyntheticProjector}. */
export interface SyntheticProjectorOptions {
  /** Path of the GGUF file to write. */
  readonly out: string
  /** The length of the text model's vectors. */
  readonly width: number
  /** Edge of the square that images are resized to, in pixels: a multiple of 14. Default 56: 16 tokens an image. */
  readonly imageSize?: number
  /** Length of the vectors within. Default 64. */
  readonly embedding?: number
  /** Seed of the weights. Default 0. */
  readonly seed?: number
}

const patchSize = 14
const heads = 4
/** The last one is not computed. */
const blocks = 3

/**
 * Writes a projector (`mmproj`) of llama.cpp's kind `mlp` (LLaVA) with random weights: a small vision transformer and
 * two layers to a text model's vectors. What it says of an image means nothing, and is another for another image.
 * @returns the size of the file in bytes.
 */
export async function writeSyntheticProjector(options: SyntheticProjectorOptions): Promise<number> {
  const { out, width, imageSize = 56, embedding = 64, seed = 0 } = options
  const random = new RandomBits(seed)
  const feedForward = 2 * embedding
  const matrix = (name: string, ...shape: number[]) => randomMatrix(name, shape, random)
  const biased = (name: string, columns: number, rows: number) => [
    matrix(`${name}.weight`, columns, rows),
    constant(`${name}.bias`, rows, 0),
  ]
  const norm = (name: string) => [
    constant(`${name}.weight`, embedding, 1),
    constant(`${name}.bias`, embedding, 0),
  ]
  const tensors = [
    matrix('v.patch_embd.weight', patchSize, patchSize, 3, embedding),
    matrix('v.position_embd.weight', embedding, (imageSize / patchSize) ** 2),
    ...Array.from({ length: blocks }, (_, block) => `v.blk.${block}`).flatMap((name) => [
      ...norm(`${name}.ln1`),
      ...norm(`${name}.ln2`),
      ...['q', 'k', 'v', 'out'].flatMap((part) =>
        biased(`${name}.attn_${part}`, embedding, embedding),
      ),
      ...biased(`${name}.ffn_up`, embedding, feedForward),
      ...biased(`${name}.ffn_down`, feedForward, embedding),
    ]),
    ...biased('mm.0', embedding, width),
    ...biased('mm.2', width, width),
  ]
  const vision = {
    image_size: uint32(imageSize),
    patch_size: uint32(patchSize),
    embedding_length: uint32(embedding),
    feed_forward_length: uint32(feedForward),
    block_count: uint32(blocks),
    projection_dim: uint32(width),
    'attention.head_count': uint32(heads),
    'attention.layer_norm_epsilon': float32(1e-5),
    image_mean: float32s([0.5, 0.5, 0.5]),
    image_std: float32s([0.5, 0.5, 0.5]),
  }
  return await writeGguf(
    out,
    {
      'general.architecture': text('clip'),
      'general.file_type': uint32(0),
      'clip.has_vision_encoder': bool(true),
      'clip.projector_type': text('mlp'),
      'clip.use_gelu': bool(true),
      ...Object.fromEntries(
        Object.entries(vision).map(([key, value]) => [`clip.vision.${key}`, value]),
      ),
    },
    tensors,
  )
}

/** Weights of a spread that keeps vectors of about their length. */
function randomMatrix(name: string, shape: readonly number[], random: RandomBits): GgufTensor {
  const count = shape.reduce((product, size) => product * size, 1)
  const inputs = count / (shape.at(-1) ?? 1)
  const bits = random.next(new Uint32Array(count))
  const scale = Math.sqrt(12 / inputs)
  return tensor(
    name,
    shape,
    Float32Array.from(bits, (value) => (value / 2 ** 32 - 0.5) * scale),
  )
}

function constant(name: string, count: number, value: number): GgufTensor {
  return tensor(name, [count], new Float32Array(count).fill(value))
}

function tensor(name: string, shape: readonly number[], values: Float32Array): GgufTensor {
  return { name, type: 'F32', shape, data: () => [new Uint8Array(values.buffer)] }
}
