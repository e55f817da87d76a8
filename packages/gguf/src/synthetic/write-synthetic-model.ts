import { CllmError } from '@cllm/core'
import { bytePairMetadata } from './byte-pair-vocabulary.js'
import {
  fileTypes,
  float32,
  floatTensor,
  type GgufMetadata,
  type GgufTensor,
  int32s,
  text,
  uint32,
} from '../format/gguf-types.js'
import { tensorByteLength, writeGguf } from '../format/gguf-writer.js'
import {
  convolutionLength,
  type ModelShape,
  type SyntheticModelName,
  syntheticShapes,
} from './synthetic-shapes.js'
import { syntheticVocabulary } from './synthetic-vocabulary.js'
import { RandomBits, randomFloats, randomTensor, type RandomTensorType } from './random-tensor.js'

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
    const message = `expected a model to imitate, one of ${names}, got ${like}`
    throw new CllmError('model_not_found', message)
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
  const headsOf = (layer: number) => (attentionLayers?.includes(layer) === true ? keyValueHeads : 0)
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
        : int32s(Array.from({ length: layers }, (_, layer) => headsOf(layer))),
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

/**
 * Standard deviation of the logits, chosen so that the likeliest token of a large vocabulary has a
 * clear share of the probability.
 */
const logitDeviation = 4

/**
 * The tensors of the qwen3, qwen3moe or lfm2 architecture with random weights. Every matrix preserves the scale of
 * its input (deviation 1/√row), so activations neither vanish nor overflow at any depth. Special
 * and unused tokens have logit 0: they are almost never sampled, so a generation continues to its
 * limit. Read the tensors' data in order, because all tensors share one random generator.
 * @param seed any integer; the same seed gives the same weights.
 */
export function syntheticTensors(shape: ModelShape, seed: number): GgufTensor[] {
  const random = new RandomBits(seed)
  const { layers, embedding, feedForward, heads, keyValueHeads, headSize } = shape
  const { vocabulary, specialsAt, attentionLayers } = shape
  const types = tensorTypes(shape)
  const weights = (
    name: string,
    type: RandomTensorType,
    shape: readonly number[],
    deviation: number,
  ): GgufTensor => ({
    name: `${name}.weight`,
    type,
    shape,
    data: () => randomTensor(type, shape, deviation, random),
  })
  const matrix = (name: string, type: RandomTensorType, row: number, ...rows: number[]) =>
    weights(name, type, [row, ...rows], 1 / Math.sqrt(row))
  const norm = (name: string, size: number): GgufTensor =>
    floatTensor(`${name}.weight`, [size], () => new Float32Array(size).fill(1))
  /** Numbers from −1 to 1, which stay as they are. */
  const floats = (name: string, row: number, rows: number): GgufTensor =>
    floatTensor(`${name}.weight`, [row, rows], () => randomFloats(row * rows, 2, random))
  const attention = (block: string, index: number): GgufTensor[] => {
    const { usual, more } = types
    return [
      matrix(`${block}.attn_q`, usual, embedding, heads * headSize),
      matrix(`${block}.attn_k`, usual, embedding, keyValueHeads * headSize),
      matrix(`${block}.attn_v`, more(index), embedding, keyValueHeads * headSize),
      matrix(`${block}.attn_output`, usual, heads * headSize, embedding),
      norm(`${block}.attn_q_norm`, headSize),
      norm(`${block}.attn_k_norm`, headSize),
    ]
  }
  const convolution = (block: string): GgufTensor[] => [
    floats(`${block}.shortconv.conv`, convolutionLength, embedding),
    matrix(`${block}.shortconv.in_proj`, types.usual, embedding, 3 * embedding),
    matrix(`${block}.shortconv.out_proj`, types.usual, embedding, embedding),
  ]
  const dense = (block: string, index: number): GgufTensor[] => [
    matrix(`${block}.ffn_gate`, types.usual, embedding, feedForward),
    matrix(`${block}.ffn_up`, types.usual, embedding, feedForward),
    matrix(`${block}.ffn_down`, types.more(index), feedForward, embedding),
  ]
  const mixture = (block: string, index: number): GgufTensor[] => {
    const { count, feedForward: size } = shape.experts ?? { count: 0, feedForward: 0 }
    return [
      floats(`${block}.ffn_gate_inp`, embedding, count),
      matrix(`${block}.ffn_gate_exps`, types.usual, embedding, size, count),
      matrix(`${block}.ffn_up_exps`, types.usual, embedding, size, count),
      matrix(`${block}.ffn_down_exps`, types.more(index), size, embedding, count),
    ]
  }
  const layer = (index: number): GgufTensor[] => {
    const block = `blk.${index}`
    const isAttention = attentionLayers?.includes(index) ?? true
    return [
      norm(`${block}.attn_norm`, embedding),
      ...(isAttention ? attention(block, index) : convolution(block)),
      norm(`${block}.ffn_norm`, embedding),
      ...(shape.experts === undefined ? dense(block, index) : mixture(block, index)),
    ]
  }
  return [
    weights('token_embd', types.embeddings, [embedding, vocabulary], 1),
    ...Array.from({ length: layers }, (_, index) => layer(index)).flat(),
    norm(shape.architecture === 'lfm2' ? 'token_embd_norm' : 'output_norm', embedding),
    {
      name: 'output.weight',
      type: types.output,
      shape: [embedding, vocabulary],
      data: function* () {
        const deviation = logitDeviation / Math.sqrt(embedding)
        yield* randomTensor(types.output, [embedding, specialsAt], deviation, random)
        yield new Uint8Array(tensorByteLength(types.output, [embedding, vocabulary - specialsAt]))
      },
    },
  ]
}

/**
 * Which type llama.cpp's quantizer chooses for the matrices of a mix (`llama-quant.cpp`). Qwen3
 * 0.6B ties its embeddings to its output layer, so both have the output layer's type; files of
 * 751.63 M parameters contain them twice.
 */
function tensorTypes({ layers, quantization, isTied = true }: ModelShape) {
  if (quantization === 'Q8_0') {
    const all = 'Q8_0' as const
    return { usual: all, embeddings: all, output: all, more: () => all }
  }
  const eighth = Math.floor(layers / 8)
  const usesMoreBits = (layer: number): boolean =>
    layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2
  return {
    usual: 'Q4_K',
    embeddings: isTied ? 'Q6_K' : 'Q4_K',
    output: 'Q6_K',
    more: (layer: number): RandomTensorType => (usesMoreBits(layer) ? 'Q6_K' : 'Q4_K'),
  } as const
}
