import { nextNumber } from '@cllm/core'
import {
  bool,
  float32,
  float32s,
  type GgufMetadata,
  type GgufTensor,
  int32s,
  text,
  texts,
  uint32,
  writeGguf,
} from '@cllm/gguf'

type Shape = readonly number[]

const width = 32
const inner = 64
const layers = 2
const trainingContext = 1024

/** What each kind of memory needs: attention, a sliding window, a recurrent state, both in turns. */
const architectures = {
  llama: {
    fields: { 'rope.dimension_count': uint32(16) },
    tensors: (): [string, Shape][] => [...attention(), ...feedForward()],
  },
  // compares texts
  qwen3: {
    fields: {
      'attention.key_length': uint32(16),
      'attention.value_length': uint32(16),
      pooling_type: uint32(4),
      'classifier.output_labels': texts(['yes', 'no']),
    },
    tensors: (): [string, Shape][] => [...attention(), ...feedForward(), ...headNorms()],
  },
  // has a window of 4,096 tokens that its file does not tell of
  gemma2: {
    fields: {
      'attention.key_length': uint32(16),
      'attention.value_length': uint32(16),
    },
    tensors: (): [string, Shape][] => [
      ...attention(),
      ...feedForward(),
      ['post_attention_norm', [width]],
      ['post_ffw_norm', [width]],
    ],
  },
  gemma3: {
    fields: {
      'attention.key_length': uint32(16),
      'attention.value_length': uint32(16),
      'attention.sliding_window': uint32(32),
    },
    tensors: (): [string, Shape][] => [
      ...attention(),
      ...feedForward(),
      ...headNorms(),
      ['post_attention_norm', [width]],
      ['post_ffw_norm', [width]],
    ],
  },
  // reads a text as a whole, and makes embeddings only
  bert: {
    fields: {
      'attention.layer_norm_epsilon': float32(1e-5),
      'attention.causal': bool(false),
      pooling_type: uint32(1),
    },
    tensors: (): [string, Shape][] => [
      ...attention().slice(1),
      ...['attn_output_norm', 'layer_output_norm'].flatMap((name): [string, Shape][] => [
        [name, [width]],
        [`${name}.bias`, [width]],
      ]),
      ['ffn_up', [width, inner]],
      ['ffn_down', [inner, width]],
    ],
  },
  mamba: {
    fields: {
      'ssm.conv_kernel': uint32(4),
      'ssm.inner_size': uint32(inner),
      'ssm.state_size': uint32(8),
      'ssm.time_step_rank': uint32(2),
    },
    tensors: (): [string, Shape][] => [
      ['attn_norm', [width]],
      ['ssm_in', [width, 2 * inner]],
      ['ssm_conv1d', [4, inner]],
      ['ssm_conv1d.bias', [inner]],
      ['ssm_x', [inner, 2 + 2 * 8]],
      ['ssm_dt', [2, inner]],
      ['ssm_dt.bias', [inner]],
      ['ssm_a.', [8, inner]],
      ['ssm_d.', [inner]],
      ['ssm_out', [inner, width]],
    ],
  },
  // a convolution's state, then attention
  lfm2: {
    fields: {
      'attention.head_count_kv': int32s([0, 2]),
      'shortconv.l_cache': uint32(3),
      'rope.dimension_count': uint32(16),
    },
    tensors: (layer: number): [string, Shape][] => [
      ...(layer === 0 ? convolution() : [...attention(), ...headNorms()]),
      ...feedForward(),
    ],
  },
} as const

const words = [
  'he',
  'll',
  'lo',
  'hello',
  '\u2581hello',
  '\u2581a',
  '\u2581w',
  'or',
  'ld',
  'é',
  '你',
]

/** The id of the first further control token. */
export const firstControl = 259 + 2 + 27 + words.length

/** Control tokens of the vocabulary beside `<unk>`, `<s>` and `</s>`. */
export const turnToken = { id: 259, text: '<|turn|>' }

/**
 * Writes a model of a few kilobytes with random weights and a SentencePiece vocabulary.
 *
 * @param controls - further control tokens; the first has the id {@link firstControl}
 * @param change - changes the weights of a tensor
 */
export async function writeTinyModel(
  out: string,
  architecture: keyof typeof architectures,
  metadata: GgufMetadata = {},
  controls: readonly string[] = [],
  change: (name: string, values: Float32Array) => void = () => {},
): Promise<string> {
  const { fields, tensors } = architectures[architecture]
  const vocabulary = sentencePieces(controls)
  const shapes: [string, Shape][] = [
    ['token_embd.weight', [width, vocabulary.tokens.length]],
    [normOf(architecture), [width]],
    ...(architecture === 'bert' ? wholeReader() : []),
    ...(architecture === 'qwen3'
      ? ([['cls.output.weight', [width, 2]]] satisfies [string, Shape][])
      : []),
  ]
  for (let layer = 0; layer < layers; layer++) {
    for (const [name, shape] of tensors(layer)) {
      const suffix = name.endsWith('.') ? '' : name.includes('.') ? name.split('.')[1] : 'weight'
      const base = `blk.${layer}.${name.split('.')[0]!.replace('-', '.')}`
      shapes.push([suffix === '' ? base : `${base}.${suffix}`, shape])
    }
  }
  const file = {
    'general.architecture': text(architecture),
    'general.file_type': uint32(0),
    ...prefixed(architecture, {
      context_length: uint32(trainingContext),
      embedding_length: uint32(width),
      block_count: uint32(layers),
      feed_forward_length: uint32(inner),
      'attention.head_count': uint32(architecture === 'mamba' ? 0 : 2),
      'attention.layer_norm_rms_epsilon': float32(1e-5),
      ...fields,
    }),
    'tokenizer.ggml.model': text('llama'),
    'tokenizer.ggml.tokens': texts(vocabulary.tokens),
    'tokenizer.ggml.scores': float32s(vocabulary.scores),
    'tokenizer.ggml.token_type': int32s(vocabulary.types),
    'tokenizer.ggml.unknown_token_id': uint32(0),
    'tokenizer.ggml.bos_token_id': uint32(1),
    'tokenizer.ggml.eos_token_id': uint32(2),
    'tokenizer.ggml.add_bos_token': bool(true),
    ...(architecture === 'bert' && { 'tokenizer.ggml.token_type_count': uint32(2) }),
    ...metadata,
  }
  await writeGguf(
    out,
    file,
    shapes.map((shape) => tensor(shape, change)),
  )
  return out
}

function normOf(architecture: keyof typeof architectures): string {
  const isFirst = architecture === 'lfm2' || architecture === 'bert'
  return `${isFirst ? 'token_embd_norm' : 'output_norm'}.weight`
}

/** What BERT adds to its tokens. */
function wholeReader(): [string, Shape][] {
  return [
    ['token_embd_norm.bias', [width]],
    ['token_types.weight', [width, 2]],
    ['position_embd.weight', [width, trainingContext]],
  ]
}

function attention(): [string, Shape][] {
  return [
    ['attn_norm', [width]],
    ['attn_q', [width, width]],
    ['attn_k', [width, width]],
    ['attn_v', [width, width]],
    ['attn_output', [width, width]],
  ]
}

function headNorms(): [string, Shape][] {
  return [
    ['attn_q_norm', [16]],
    ['attn_k_norm', [16]],
  ]
}

function convolution(): [string, Shape][] {
  return [
    ['attn_norm', [width]],
    ['shortconv-conv', [3, width]],
    ['shortconv-in_proj', [width, 3 * width]],
    ['shortconv-out_proj', [width, width]],
  ]
}

function feedForward(): [string, Shape][] {
  return [
    ['ffn_norm', [width]],
    ['ffn_gate', [width, inner]],
    ['ffn_up', [width, inner]],
    ['ffn_down', [inner, width]],
  ]
}

function sentencePieces(controls: readonly string[]): {
  tokens: string[]
  scores: number[]
  types: number[]
} {
  const bytes = Array.from({ length: 256 }, (_, byte) => {
    return `<0x${byte.toString(16).toUpperCase().padStart(2, '0')}>`
  })
  const letters = ['\u2581', ...Array.from('abcdefghijklmnopqrstuvwxyz')]
  const normal = [turnToken.text, '<tool>', ...letters, ...words]
  const tokens = ['<unk>', '<s>', '</s>', ...bytes, ...normal, ...controls]
  const types = tokens.map((token, id) => {
    if (id === 0) return 2
    if (id < 3 || token === turnToken.text || controls.includes(token)) return 3
    return token === '<tool>' ? 4 : id < 259 ? 6 : 1
  })
  // a longer piece is made later, so its merge has to be liked better
  const scores = tokens.map((token, id) => (id < 261 ? 0 : -id / (10 * token.length)))
  return { tokens, scores, types }
}

function tensor(
  [name, shape]: [string, Shape],
  change: (name: string, values: Float32Array) => void,
): GgufTensor {
  const size = shape.reduce((product, length) => product * length, 1)
  const isNorm = name.includes('norm')
  let state = name.length * 7919 + size
  const values = Float32Array.from({ length: size }, () => {
    state = nextNumber(state)
    const random = state / 2 ** 31 - 1
    return isNorm ? 1 : name.endsWith('ssm_a') ? -1 - random / 2 : random / 3
  })
  change(name, values)
  return { name, shape, type: 'F32', data: () => [new Uint8Array(values.buffer)] }
}

function prefixed(architecture: string, fields: GgufMetadata): GgufMetadata {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [`${architecture}.${key}`, value]),
  )
}
