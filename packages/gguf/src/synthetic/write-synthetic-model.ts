import { CllmError } from '@cllm/core'
import { bytePairMetadata } from './byte-pair-vocabulary.js'
import {
  fileTypes,
  float32,
  type GgufMetadata,
  int32s,
  text,
  uint32,
} from '../format/gguf-types.js'
import { writeGguf } from '../format/gguf-writer.js'
import {
  convolutionLength,
  type ModelShape,
  type SyntheticModelName,
  syntheticShapes,
} from './synthetic-shapes.js'
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

/**
 * Writes a GGUF model with the exact shape and quantization of a known model and random weights: it
 * runs as fast as the original, and its output is noise. The tiny ones are for tests.
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
  const { architecture: name, layers, attentionLayers, keyValueHeads, experts } = shape
  const fields = {
    block_count: uint32(layers),
    context_length: uint32(shape.context),
    embedding_length: uint32(shape.embedding),
    feed_forward_length: uint32(shape.feedForward),
    ...(experts !== undefined && {
      expert_count: uint32(experts.count),
      expert_used_count: uint32(experts.used),
      expert_feed_forward_length: uint32(experts.feedForward),
    }),
    'attention.head_count': uint32(shape.heads),
    'attention.head_count_kv':
      attentionLayers === undefined
        ? uint32(keyValueHeads)
        : int32s(
            Array.from({ length: layers }, (_, index) =>
              attentionLayers.includes(index) ? keyValueHeads : 0,
            ),
          ),
    'attention.key_length': uint32(shape.headSize),
    'attention.value_length': uint32(shape.headSize),
    'attention.layer_norm_rms_epsilon': float32(1e-6),
    'rope.freq_base': float32(shape.ropeBase),
    // how many of a head's dimensions turn by time, row and column
    ...(name === 'qwen3vl' && { 'rope.dimension_sections': int32s([6, 5, 5, 0]) }),
    ...(name === 'lfm2' && {
      'shortconv.l_cache': uint32(convolutionLength),
      vocab_size: uint32(shape.vocabulary),
    }),
  }
  return {
    'general.architecture': text(name),
    'general.name': text(shape.name),
    'general.file_type': uint32(fileTypes[shape.quantization]),
    'general.quantization_version': uint32(2),
    ...Object.fromEntries(Object.entries(fields).map(([key, value]) => [`${name}.${key}`, value])),
  }
}
