import { readFile } from 'node:fs/promises'
import { CllmError } from '@cllm/core'
import {
  bool,
  fileTypes,
  float32,
  float32s,
  floatBytes,
  type GgufMetadata,
  type GgufTensor,
  int32s,
  tensorBlocks,
  text,
  texts,
  TokenType,
  uint32,
} from './format/gguf-types.js'
import { writeGguf } from './format/gguf-writer.js'
import { quantizeQ8_0 } from './format/quantize-q8-0.js'

/** The input and output of {@link convertLlama2c}. */
export interface ConvertLlama2cOptions {
  /** The checkpoint: a file's path, or its bytes. */
  readonly checkpoint: string | Uint8Array
  /**
   * The vocabulary in llama2.c's older layout, path or bytes. Default: the bytes that follow the
   * checkpoint's weights.
   */
  readonly vocabulary?: string | Uint8Array
  /** Path of the GGUF file to write. */
  readonly out: string
  /** `general.name` in the file. Default `stories15M`. */
  readonly name?: string
  /**
   * How matrices are stored; vectors are always F32, and so are matrices whose rows are not a multiple of 32
   * numbers. Default `Q8_0`.
   */
  readonly quantization?: 'Q8_0' | 'F32'
}

const beginOfStory = 1
const endOfStory = 2

/**
 * Converts a llama2.c checkpoint (version 0, such as stories15M or stories260K) and its vocabulary to GGUF for
 * llama.cpp's `llama` architecture. No weight is permuted: both programs rotate neighbouring
 * elements. These models begin the next story with token 1 and never generate token 2, so token 1
 * is also their end of turn.
 * @returns the size of the file in bytes.
 * @throws CllmError `model_invalid` when checkpoint or vocabulary are cut short or of another
 * format.
 */
export async function convertLlama2c(options: ConvertLlama2cOptions): Promise<number> {
  const { out, name = 'stories15M', quantization = 'Q8_0' } = options
  const checkpoint = await load(options.checkpoint)
  const header = readHeader(checkpoint)
  const { tensors, rest } = readWeights(checkpoint, header, quantization)
  const vocabularyData = options.vocabulary === undefined ? rest : await load(options.vocabulary)
  const metadata = {
    ...architecture(header, name),
    'general.file_type': uint32(fileTypes[quantization]),
    ...tokenizer(readVocabulary(vocabularyData, header.vocabulary)),
  }
  return await writeGguf(out, metadata, tensors)
}

async function load(source: string | Uint8Array): Promise<Uint8Array> {
  return typeof source === 'string' ? await readFile(source) : source
}

function architecture(header: Llama2cHeader, name: string): GgufMetadata {
  return {
    'general.architecture': text('llama'),
    'general.name': text(name),
    'general.quantization_version': uint32(2),
    'llama.context_length': uint32(header.context),
    'llama.embedding_length': uint32(header.embedding),
    'llama.block_count': uint32(header.layers),
    'llama.feed_forward_length': uint32(header.feedForward),
    'llama.rope.dimension_count': uint32(header.embedding / header.heads),
    'llama.rope.freq_base': float32(10_000),
    'llama.attention.head_count': uint32(header.heads),
    'llama.attention.head_count_kv': uint32(header.keyValueHeads),
    'llama.attention.layer_norm_rms_epsilon': float32(1e-5),
    'llama.vocab_size': uint32(header.vocabulary),
  }
}

function tokenizer({ tokens, scores, types }: ReturnType<typeof readVocabulary>): GgufMetadata {
  return {
    'tokenizer.ggml.model': text('llama'),
    'tokenizer.ggml.tokens': texts(tokens),
    'tokenizer.ggml.scores': float32s(scores),
    'tokenizer.ggml.token_type': int32s(types),
    'tokenizer.ggml.unknown_token_id': uint32(0),
    'tokenizer.ggml.bos_token_id': uint32(beginOfStory),
    'tokenizer.ggml.eos_token_id': uint32(endOfStory),
    'tokenizer.ggml.eot_token_id': uint32(beginOfStory),
    'tokenizer.ggml.add_bos_token': bool(true),
    'tokenizer.ggml.add_space_prefix': bool(true),
  }
}

const specialNames = ['<unk>', '<s>', '</s>']
const firstByte = specialNames.length
const byteCount = 256

/**
 * Reads the older vocabulary file of llama2.c: the longest token's length as `uint32`, then for
 * each token its score as `float32`, its length as `int32` and its bytes. The three special tokens
 * and the 256 single bytes get the names that llama.cpp expects, spaces become U+2581.
 * @throws CllmError `model_invalid` when the data ends before `size` tokens were read.
 */
function readVocabulary(data: Uint8Array, size: number) {
  const view = new DataView(data.buffer, data.byteOffset, data.length)
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  const tokens: string[] = []
  const scores: number[] = []
  const types: TokenType[] = []
  let position = 4
  for (let id = 0; id < size; id++) {
    const length = position + 8 <= data.length ? view.getInt32(position + 4, true) : -1
    const start = position + 8
    if (length < 0 || start + length > data.length) {
      const message =
        `expected a llama2.c vocabulary of ${size} tokens, ` +
        `got ${data.length} bytes that end in token ${id}`
      throw new CllmError('model_invalid', message)
    }
    scores.push(view.getFloat32(position, true))
    tokens.push(nameOf(id, decoder.decode(data.subarray(start, start + length))))
    types.push(typeOf(id))
    position = start + length
  }
  return { tokens, scores, types }
}

function nameOf(id: number, piece: string): string {
  const special = specialNames[id]
  if (special !== undefined) return special
  const byte = id - firstByte
  if (byte >= byteCount) return piece.replaceAll(' ', '\u2581')
  return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`
}

function typeOf(id: number): TokenType {
  if (id === 0) return TokenType.Unknown
  if (id < firstByte) return TokenType.Control
  return id < firstByte + byteCount ? TokenType.Byte : TokenType.Normal
}

/** The seven numbers at the start of a llama2.c checkpoint (version 0). */
type Llama2cHeader = ReturnType<typeof readHeader>

const headerBytes = 28

/** In ggml's order: the length of a row, and how many there are. */
type Shape = readonly [row: number] | readonly [row: number, rows: number]

/**
 * Reads the weights behind the header, Float32 in little endian, as `export.py` of the early
 * https://github.com/karpathy/llama2.c wrote them; and what is behind them.
 * @throws CllmError `model_invalid` when the data is too short.
 */
function readWeights(
  data: Uint8Array,
  { embedding, feedForward, layers, heads, keyValueHeads, ...header }: Llama2cHeader,
  quantization: 'Q8_0' | 'F32',
): { readonly tensors: readonly GgufTensor[]; readonly rest: Uint8Array } {
  const headSize = embedding / heads
  const keyValue = headSize * keyValueHeads
  const reader = floatReader(data)
  const tensors: GgufTensor[] = []
  const read = (name: string, ...shape: Shape): void => {
    const [row, rows = 1] = shape
    const values = reader.take(row * rows)
    // A row of quantized numbers is a whole number of blocks; vectors are not quantized.
    const isWhole = shape.length > 1 && row % tensorBlocks[quantization].elements === 0
    const type = isWhole ? quantization : 'F32'
    const encode = type === 'Q8_0' ? quantizeQ8_0 : floatBytes
    tensors.push({ name, shape, type, data: () => [encode(values)] })
  }
  const readPerLayer = (name: string, ...shape: Shape): void => {
    for (let layer = 0; layer < layers; layer++) read(`blk.${layer}.${name}.weight`, ...shape)
  }
  read('token_embd.weight', embedding, header.vocabulary)
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
  reader.take(header.context * headSize) // tables of cosines and sines; llama.cpp computes its own
  if (!header.tiedOutput) read('output.weight', embedding, header.vocabulary)
  return { tensors, rest: reader.rest() }
}

/** @throws CllmError `model_invalid` when it makes no sense. */
function readHeader(data: Uint8Array) {
  if (data.length < headerBytes) {
    const message = `expected a llama2.c checkpoint, got ${data.length} bytes: too short for its header`
    throw new CllmError('model_invalid', message)
  }
  const view = new DataView(data.buffer, data.byteOffset, headerBytes)
  const field = (index: number): number => view.getInt32(index * 4, true)
  const header = {
    /** Width of the embedding. */
    embedding: field(0),
    /** Width of the feed-forward layer. */
    feedForward: field(1),
    layers: field(2),
    heads: field(3),
    keyValueHeads: field(4),
    vocabulary: Math.abs(field(5)),
    /** Longest sequence the model was trained on, in tokens. */
    context: field(6),
    /** Whether the output layer is the embedding matrix (marked by a positive vocabulary size). */
    tiedOutput: field(5) > 0,
  }
  const { tiedOutput: _, ...sizes } = header
  const sensible =
    Object.values(sizes).every((size) => size > 0 && size < 1 << 20) &&
    header.embedding % (2 * header.heads) === 0 &&
    header.heads % header.keyValueHeads === 0
  if (!sensible) {
    const message = `expected the header of a llama2.c checkpoint (version 0), got ${JSON.stringify(header)}`
    throw new CllmError('model_invalid', message)
  }
  return header
}

function floatReader(data: Uint8Array) {
  let position = headerBytes
  return {
    take(count: number): Float32Array {
      const end = position + count * 4
      if (end > data.length) {
        const message = `expected at least ${end} bytes of llama2.c checkpoint, got ${data.length}`
        throw new CllmError('model_invalid', message)
      }
      // a copy, because the bytes may not be aligned to four
      const values = new Float32Array(new Uint8Array(data.subarray(position, end)).buffer)
      position = end
      return values
    },
    rest: (): Uint8Array => data.subarray(position),
  }
}
