import { stat } from 'node:fs/promises'
import { CllmError, type ModelInfo, type SamplingParams, samplingRows } from '@cllm/core'
import { type GgufHead, partsOf, quantizationOf, readGgufFile } from '../native/gguf-file.js'
import type { NativeModel } from '../native/native-model.js'

/** A model's metadata from its GGUF file, read without loading the weights. */
export interface ModelShape extends Pick<
  ModelInfo,
  'architecture' | 'quantization' | 'trainingContext' | 'vocabularySize' | 'sizeBytes' | 'sampling'
> {
  readonly layers: number
  readonly hiddenSize: number
  readonly feedForwardSize: number
  readonly attentionHeads: number
  /** The largest number in any layer. */
  readonly keyValueHeads: number
  readonly keyLength: number
  readonly valueLength: number
  /** Numbers in the keys and values of one token. */
  readonly cacheElementsPerToken: number
  /** Numbers of 4 bytes that a recurrent model keeps per slot. */
  readonly stateElementsPerSlot: number
  /** Whether layers keep a recurrent state, from which no token can be removed. */
  readonly isRecurrent: boolean
  /** Whether tokens attend to later ones, too; such a model generates no text. */
  readonly looksAhead: boolean
  /** The number of tokens that sliding-window layers look back; undefined: no layer has a window. */
  readonly slidingWindow: number | undefined
  readonly ropeTheta: number | undefined
  /** How it pools vectors by default, by llama.cpp's number; 4: it is a reranker, which returns how well two texts fit. */
  readonly pooling: number
  readonly rmsNormEpsilon: number | undefined
  /** The size of the projector's file; undefined: there is none. */
  readonly projectorBytes?: number | undefined
}

type Fields = Readonly<Record<string, unknown>>

/**
 * Reads the head of a model's GGUF file.
 * @param projector - the file of its projector; a missing file is only reported when the projector is loaded
 * @throws CllmError `model_unavailable` if the file cannot be read, `model_invalid` if it is no model
 */
export async function readModelShape(path: string, projector?: string): Promise<ModelShape> {
  const file = await readGguf(path, `${path} is no GGUF file`)
  const found = projector === undefined ? undefined : await stat(projector).catch(() => undefined)
  return { ...shapeOf(file, path, await fileBytes(path)), projectorBytes: found?.size }
}

/**
 * Reads the head of a GGUF file.
 * @param otherwise - the beginning of the message if the file is no GGUF file
 * @throws CllmError `model_unavailable` if the file cannot be read, `model_invalid` if it is no GGUF file
 */
export async function readGguf(path: string, otherwise: string): Promise<GgufHead> {
  return await readGgufFile(path).catch((cause: NodeJS.ErrnoException) => {
    const isThere = cause.code === undefined
    const message = `${isThere ? otherwise : `${path} cannot be read`}: ${cause.message}`
    const code = isThere ? 'model_invalid' : 'model_unavailable'
    throw new CllmError(code, message, { cause, details: { path } })
  })
}

/** `LLAMA_POOLING_TYPE_RANK`. */
export const rankPooling = 4

function shapeOf(file: GgufHead, path: string, sizeBytes: number): ModelShape {
  const { metadata } = file
  const general = fieldsOf(metadata['general'])
  const { architecture: named } = general
  const architecture = typeof named === 'string' ? named : 'unknown'
  const fields = fieldsOf(metadata[architecture])
  const attention = fieldsOf(fields['attention'])
  const layers = largest(fields['block_count'])
  const hiddenSize = largest(fields['embedding_length'])
  if (layers === 0 || hiddenSize === 0) {
    throw new CllmError('model_invalid', `${path} holds no language model (${architecture})`, {
      details: { path, architecture },
    })
  }
  const heads = attention['head_count']
  const attentionHeads = largest(heads)
  const headSize = attentionHeads > 0 ? hiddenSize / attentionHeads : 0
  const keyLength = largest(attention['key_length'] ?? headSize)
  const valueLength = largest(attention['value_length'] ?? headSize)
  const keyValueHeads = attention['head_count_kv'] ?? heads
  return {
    architecture,
    trainingContext: largest(fields['context_length']),
    vocabularySize: vocabularySizeOf(file),
    layers,
    hiddenSize,
    feedForwardSize: largest(fields['feed_forward_length']),
    attentionHeads,
    keyValueHeads: largest(keyValueHeads),
    keyLength,
    valueLength,
    cacheElementsPerToken: sum(keyValueHeads, layers) * (keyLength + valueLength),
    stateElementsPerSlot: layers * stateElements(fields, hiddenSize, attentionHeads),
    isRecurrent: ['ssm', 'wkv', 'shortconv'].some((name) => fields[name] !== undefined),
    looksAhead: attention['causal'] === false,
    slidingWindow: largest(attention['sliding_window']) || undefined,
    ropeTheta: largest(fieldsOf(fields['rope'])['freq_base']) || undefined,
    pooling: Number(fields['pooling_type'] ?? 0),
    rmsNormEpsilon: largest(attention['layer_norm_rms_epsilon']) || undefined,
    sizeBytes,
    quantization: quantizationOf(general['file_type']),
    sampling: samplingOf(fieldsOf(general['sampling'])),
  }
}

/** Numbers of recurrent state per layer and sequence, as in llama.cpp. For any model at most one term is not 0. */
function stateElements(fields: Fields, width: number, heads: number): number {
  const of = (part: string, name: string): number => largest(fieldsOf(fields[part])[name])
  const remembered = Math.max(0, of('ssm', 'conv_kernel') - 1)
  const [inner, state] = [of('ssm', 'inner_size'), of('ssm', 'state_size')]
  const mamba = remembered * (inner + 2 * of('ssm', 'group_count') * state) + inner * state
  const headSize = of('kda', 'head_dim')
  const kimi = heads * headSize * (headSize + 3 * remembered)
  const wkv = of('wkv', 'head_size')
  const rwkv = wkv > 0 ? width * (wkv + largest(fields['token_shift_count'] ?? 2)) : 0
  const lfm = width * Math.max(0, of('shortconv', 'l_cache') - 1)
  return mamba + kimi + rwkv + lfm
}

function vocabularySizeOf({ tensors }: GgufHead): number {
  const embedding = tensors.find(({ name }) => name === 'token_embd.weight')
  return embedding?.dimensions[1] ?? 0
}

/** The size of a model in bytes, over all files that it is split into. */
async function fileBytes(path: string): Promise<number> {
  const sizes = await Promise.all(partsOf(path).map(async (part) => (await stat(part)).size))
  return sizes.reduce((total, size) => total + size, 0)
}

export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {}
}

/** The largest number of a list with one per layer, or the number itself; 0 if there is none. */
function largest(value: unknown): number {
  const numbers = Array.isArray(value) ? value : [value]
  return Math.max(0, ...numbers.map((number) => Number(number ?? 0)))
}

function sum(value: unknown, layers: number): number {
  if (!Array.isArray(value)) return largest(value) * layers
  return value.reduce<number>((total, number) => total + Number(number), 0)
}

/** The properties that determine where a slot can be cut. */
export type MemoryKind = Pick<ModelShape, 'slidingWindow' | 'isRecurrent'>

/**
 * Whether the last tokens of a slot can always be removed again. A recurrent state cannot be undone, and cells that a
 * sliding window has left behind are lost.
 */
export const cutsAnywhere = ({ slidingWindow, isRecurrent }: MemoryKind): boolean =>
  slidingWindow === undefined && !isRecurrent

/**
 * Combines the file's data with llama.cpp's: whichever allows less wins, as the windows of some models (Gemma 2, Llama
 * 4) are in llama.cpp's code and not in the file.
 */
export function memoryKind(
  native: Pick<NativeModel, 'slidingWindow' | 'isRecurrent'>,
  shape: MemoryKind,
): MemoryKind {
  const window = Math.max(shape.slidingWindow ?? 0, native.slidingWindow?.() ?? 0)
  return {
    slidingWindow: window > 0 ? window : undefined,
    isRecurrent: shape.isRecurrent || native.isRecurrent?.() === true,
  }
}

/**
 * The sampling that a GGUF recommends under `general.sampling`, as llama.cpp reads it. Values out of range are left
 * out, and so are XTC and mirostat, which not every backend supports.
 */
function samplingOf(fields: Readonly<Record<string, unknown>>): Partial<SamplingParams> {
  const known = samplingRows.flatMap(([name, { gguf = '', min, max = 2 ** 31 - 1, usual }]) => {
    const value = fields[gguf] === undefined ? NaN : Number(fields[gguf])
    if (!(value >= (usual?.min ?? min) && value <= (usual?.max ?? max))) return []
    // Floats of 32 bits: 0.6 is written as 0.60000002384.
    return [[name, Number(value.toPrecision(6))] as const]
  })
  return Object.fromEntries(known)
}
