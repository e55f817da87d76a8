import { CllmError } from '@cllm/core'
/** The seven numbers at the start of a llama2.c checkpoint (version 0). */
export interface Llama2cHeader {
  /** Width of the embedding. */
  readonly embedding: number
  /** Width of the feed-forward layer. */
  readonly feedForward: number
  readonly layers: number
  readonly heads: number
  readonly keyValueHeads: number
  readonly vocabulary: number
  /** Longest sequence the model was trained on, in tokens. */
  readonly context: number
  /** Whether the output layer is the embedding matrix (marked by a positive vocabulary size). */
  readonly tiedOutput: boolean
}

/** The parts of a llama2.c checkpoint. */
export interface Llama2cCheckpoint {
  readonly header: Llama2cHeader
  /** Weights under llama.cpp's tensor names, shapes in ggml's order. */
  readonly tensors: readonly { name: string; shape: readonly number[]; values: Float32Array }[]
  /** The bytes after the weights. */
  readonly rest: Uint8Array
}

const headerBytes = 28

/**
 * Reads a llama2.c checkpoint (version 0, Float32, little endian), as `export.py` of the early
 * https://github.com/karpathy/llama2.c wrote it.
 * @throws CllmError `model_invalid` when the header makes no sense or the data is too short.
 */
export function readLlama2cCheckpoint(data: Uint8Array): Llama2cCheckpoint {
  const header = readHeader(data)
  const { embedding, feedForward, layers, heads, keyValueHeads, vocabulary, context } = header
  const headSize = embedding / heads
  const keyValue = headSize * keyValueHeads
  const reader = floatReader(data)
  const tensors: { name: string; shape: readonly number[]; values: Float32Array }[] = []
  const read = (name: string, ...shape: number[]): void => {
    tensors.push({ name, shape, values: reader.take(shape.reduce((a, b) => a * b)) })
  }
  const readPerLayer = (name: string, ...shape: number[]): void => {
    for (let layer = 0; layer < layers; layer++) read(`blk.${layer}.${name}.weight`, ...shape)
  }
  read('token_embd.weight', embedding, vocabulary)
  readPerLayer('attn_norm', embedding)
  readPerLayer('attn_q', embedding, embedding)
  readPerLayer('attn_k', embedding, keyValue)
  readPerLayer('attn_v', embedding, keyValue)
  readPerLayer('attn_output', embedding, embedding)
  readPerLayer('ffn_norm', embedding)
  readPerLayer('ffn_gate', embedding, feedForward)
  readPerLayer('ffn_down', feedForward, embedding)
  readPerLayer('ffn_up', embedding, feedForward)
  read('output_norm.weight', embedding)
  reader.take(context * headSize) // tables of cosines and sines; llama.cpp computes its own
  if (!header.tiedOutput) read('output.weight', embedding, vocabulary)
  return { header, tensors, rest: reader.rest() }
}

function readHeader(data: Uint8Array): Llama2cHeader {
  if (data.length < headerBytes) {
    throw new CllmError(
      'model_invalid',
      `expected a llama2.c checkpoint, got ${data.length} bytes: too short for its header`,
    )
  }
  const view = new DataView(data.buffer, data.byteOffset, headerBytes)
  const field = (index: number): number => view.getInt32(index * 4, true)
  const header = {
    embedding: field(0),
    feedForward: field(1),
    layers: field(2),
    heads: field(3),
    keyValueHeads: field(4),
    vocabulary: Math.abs(field(5)),
    context: field(6),
    tiedOutput: field(5) > 0,
  }
  const { tiedOutput: _, ...sizes } = header
  const sensible =
    Object.values(sizes).every((size) => size > 0 && size < 1 << 20) &&
    header.embedding % (2 * header.heads) === 0 &&
    header.heads % header.keyValueHeads === 0
  if (!sensible) {
    throw new CllmError(
      'model_invalid',
      `expected the header of a llama2.c checkpoint (version 0), got ${JSON.stringify(header)}`,
    )
  }
  return header
}

function floatReader(data: Uint8Array) {
  let position = headerBytes
  return {
    take(count: number): Float32Array {
      const end = position + count * 4
      if (end > data.length) {
        throw new CllmError(
          'model_invalid',
          `expected at least ${end} bytes of llama2.c checkpoint, got ${data.length}`,
        )
      }
      // a copy, because the bytes may not be aligned to four
      const values = new Float32Array(new Uint8Array(data.subarray(position, end)).buffer)
      position = end
      return values
    },
    rest: (): Uint8Array => data.subarray(position),
  }
}
