import type { GgufTensor } from './gguf-types.js'
import { randomTensor } from './random-tensor.js'
import type { RandomTensorType } from './random-tensor.js'
import type { RandomBits } from './random-bits.js'
import type { ModelShape } from './synthetic-shapes.js'

/** Standard deviation of the logits: with it the likeliest token of a large vocabulary gets a clear share. */
const LOGIT_DEVIATION = 4

/**
 * The tensors of the qwen3 architecture with random weights. Every matrix keeps the size of what it multiplies
 * (deviation 1/√row), so activations neither vanish nor overflow at any depth.
 */
export function syntheticTensors(shape: ModelShape, random: RandomBits): GgufTensor[] {
  const { layers, embedding, feedForward, heads, keyValueHeads, headSize, vocabulary } = shape
  const types = tensorTypes(shape)
  const matrix = (
    name: string,
    type: RandomTensorType,
    row: number,
    rows: number,
    deviation = 1 / Math.sqrt(row),
  ): GgufTensor => ({
    name: `${name}.weight`,
    type,
    shape: [row, rows],
    data: () => randomTensor(type, [row, rows], deviation, random),
  })
  const norm = (name: string, size: number): GgufTensor => ({
    name: `${name}.weight`,
    type: 'F32',
    shape: [size],
    data: () => [new Uint8Array(new Float32Array(size).fill(1).buffer)],
  })
  const layer = (index: number): GgufTensor[] => {
    const block = `blk.${index}`
    const { more } = types
    const usual = types.usual
    return [
      norm(`${block}.attn_norm`, embedding),
      matrix(`${block}.attn_q`, usual, embedding, heads * headSize),
      matrix(`${block}.attn_k`, usual, embedding, keyValueHeads * headSize),
      matrix(`${block}.attn_v`, more(index), embedding, keyValueHeads * headSize),
      matrix(`${block}.attn_output`, usual, heads * headSize, embedding),
      norm(`${block}.attn_q_norm`, headSize),
      norm(`${block}.attn_k_norm`, headSize),
      norm(`${block}.ffn_norm`, embedding),
      matrix(`${block}.ffn_gate`, usual, embedding, feedForward),
      matrix(`${block}.ffn_up`, usual, embedding, feedForward),
      matrix(`${block}.ffn_down`, more(index), feedForward, embedding),
    ]
  }
  return [
    matrix('token_embd', types.vocabulary, embedding, vocabulary, 1),
    ...Array.from({ length: layers }, (_, index) => layer(index)).flat(),
    norm('output_norm', embedding),
    matrix(
      'output',
      types.vocabulary,
      embedding,
      vocabulary,
      LOGIT_DEVIATION / Math.sqrt(embedding),
    ),
  ]
}

/** Which type llama.cpp's quantizer chooses for the matrices of a mix (`llama-quant.cpp`). */
function tensorTypes({ layers, quantization }: ModelShape): {
  readonly usual: RandomTensorType
  readonly vocabulary: RandomTensorType
  readonly more: (layer: number) => RandomTensorType
} {
  if (quantization === 'Q8_0') return { usual: 'Q8_0', vocabulary: 'Q8_0', more: () => 'Q8_0' }
  const eighth = Math.floor(layers / 8)
  const usesMoreBits = (layer: number): boolean =>
    layer < eighth || layer >= Math.floor((7 * layers) / 8) || (layer - eighth) % 3 === 2
  return {
    usual: 'Q4_K',
    vocabulary: 'Q6_K',
    more: (layer) => (usesMoreBits(layer) ? 'Q6_K' : 'Q4_K'),
  }
}
