import { CllmError } from '@cllm/core'
import { bytePairMetadata } from './byte-pair-vocabulary.js'
import type { GgufMetadata } from '../format/gguf-types.js'
import { float32, text, uint32 } from '../format/gguf-values.js'
import { writeGguf } from '../format/gguf-writer.js'
import { syntheticShapes } from './synthetic-shapes.js'
import type { ModelShape, SyntheticModelName } from './synthetic-shapes.js'
import { syntheticTensors } from './synthetic-tensors.js'
import { syntheticVocabulary } from './synthetic-vocabulary.js'

/** Options of {@link writeSyntheticModel}. */
export interface SyntheticModelOptions {
  /** The model to imitate. */
  readonly like: SyntheticModelName
  /** Path of the GGUF file to write. */
  readonly out: string
  /** Seed of the weights; the same seed gives the same file. Default 0. */
  readonly seed?: number
}

const fileTypes = { Q8_0: 7, Q4_K_M: 15 } as const

/**
 * Writes a GGUF model with the exact shape and quantization of a known model and random weights: it
 * runs as fast as the original, and its output is noise. `tiny` is for tests.
 * @returns the size of the file in bytes.
 * @throws CllmError `model_not_found` when there is no such model to imitate.
 */
export async function writeSyntheticModel(options: SyntheticModelOptions): Promise<number> {
  const { like, out, seed = 0 } = options
  if (!Object.hasOwn(syntheticShapes, like)) {
    const names = Object.keys(syntheticShapes).join(', ')
    throw new CllmError(
      'model_not_found',
      `expected a model to imitate, one of ${names}, got ${like}`,
    )
  }
  const shape = syntheticShapes[like]
  return await writeGguf(
    out,
    { ...architecture(shape), ...bytePairMetadata(syntheticVocabulary(like)) },
    syntheticTensors(shape, seed),
  )
}

function architecture(shape: ModelShape): GgufMetadata {
  return {
    'general.architecture': text('qwen3'),
    'general.name': text(shape.name),
    'general.file_type': uint32(fileTypes[shape.quantization]),
    'general.quantization_version': uint32(2),
    'qwen3.block_count': uint32(shape.layers),
    'qwen3.context_length': uint32(shape.context),
    'qwen3.embedding_length': uint32(shape.embedding),
    'qwen3.feed_forward_length': uint32(shape.feedForward),
    'qwen3.attention.head_count': uint32(shape.heads),
    'qwen3.attention.head_count_kv': uint32(shape.keyValueHeads),
    'qwen3.attention.key_length': uint32(shape.headSize),
    'qwen3.attention.value_length': uint32(shape.headSize),
    'qwen3.attention.layer_norm_rms_epsilon': float32(1e-6),
    'qwen3.rope.freq_base': float32(shape.ropeBase),
  }
}
