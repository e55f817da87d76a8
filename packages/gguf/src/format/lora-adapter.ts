import { float32, floatTensor, text } from './gguf-types.js'
import { writeGguf } from './gguf-writer.js'

/** What an adapter adds to one matrix W of a model: scale × alpha ÷ rank × B·A. */
export interface LoraMatrices {
  /** The tensor's name, such as `blk.0.attn_q.weight`. */
  readonly weight: string
  readonly rank: number
  /** A, row after row: `rank` rows, each as long as a row of W. */
  readonly a: Float32Array
  /** B, row after row: as many rows as W has, each of `rank` numbers. */
  readonly b: Float32Array
}

/** Options of {@link writeLoraAdapter}. */
export interface LoraAdapterOptions {
  /** Path of the GGUF file to write. */
  readonly out: string
  /** `general.architecture` of the model, such as `llama`. */
  readonly architecture: string
  readonly matrices: readonly LoraMatrices[]
  /** Default 0: then the scale alone counts, and not the rank. */
  readonly alpha?: number
}

/**
 * Writes a LoRA adapter as llama.cpp's `convert_lora_to_gguf.py` does.
 * @returns the size of the file in bytes.
 */
export async function writeLoraAdapter(options: LoraAdapterOptions): Promise<number> {
  const { out, architecture, matrices, alpha = 0 } = options
  const metadata = {
    'general.type': text('adapter'),
    'general.architecture': text(architecture),
    'adapter.type': text('lora'),
    'adapter.lora.alpha': float32(alpha),
  }
  const tensors = matrices.flatMap(({ weight, rank, a, b }) => [
    floatTensor(`${weight}.lora_a`, [a.length / rank, rank], () => a),
    floatTensor(`${weight}.lora_b`, [rank, b.length / rank], () => b),
  ])
  return await writeGguf(out, metadata, tensors)
}
