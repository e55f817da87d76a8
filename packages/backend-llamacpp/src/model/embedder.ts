import { CllmError, type MediaSpan, type TokenId } from '@cllm/core'
import { computeVectors } from '../media/compute-vectors.js'
import { planContext, type MemoryDependencies, paddedContext } from './memory-plan.js'
import type { MemoryKind, ModelShape } from './model-shape.js'
import type { ContextSettings } from './open-context.js'
import type {
  AppliedNativeAdapter,
  LogitsContext,
  NativeContext,
} from '../native/native-context.js'
import type { LlamaRuntime, LoadedModel } from '../native/native.js'
import { SlotCells } from '../slots/slot-cells.js'
import type { Vocabulary } from '../text/vocabulary.js'

/** Options of {@link Embedder}. */
interface EmbeddingOptions {
  /** The most inputs in one pass. */
  readonly inputs: number
  /** Whether to return each token's vector, neither pooled nor normalized. */
  readonly eachToken: boolean
  /** The kind of memory of a model that can embed images and sounds; undefined: it cannot. */
  readonly mixed: MemoryKind | undefined
}

/** The context of embeddings; with the addon it supports no adapters. */
type EmbeddingContext = NativeContext & Partial<Pick<LogitsContext, 'setAdapters'>>

/** The context of embeddings after it was made. */
interface OpenEmbeddings {
  readonly context: EmbeddingContext
  /** The most tokens in one pass, over all inputs. */
  readonly tokens: number
  /** Whether `tokens` was lowered for lack of memory. */
  readonly isShort: boolean
}

/** Computes embeddings in a separate context, which is made when it is first needed. */
export class Embedder {
  #opened: OpenEmbeddings | undefined

  constructor(
    private readonly open: () => Promise<OpenEmbeddings>,
    private readonly vocabulary: Vocabulary,
    readonly limits: EmbeddingOptions,
  ) {}

  /**
   * Computes the vectors of these inputs in one pass: for each input its pooled vector, normalized to length 1, or with
   * `eachToken` the vectors of its tokens, concatenated.
   */
  async embed(
    inputs: readonly (readonly TokenId[])[],
    adapters: readonly AppliedNativeAdapter[] = [],
  ): Promise<number[][]> {
    const opened = (this.#opened ??= await this.open())
    const { context, tokens: most } = opened
    for (const tokens of inputs) this.#check(tokens, opened)
    const total = inputs.reduce((sum, tokens) => sum + tokens.length, 0)
    if (total > most || inputs.length > this.limits.inputs) {
      const message =
        `expected at most ${this.limits.inputs} inputs of ${most} tokens, got ` +
        `${inputs.length} of ${total}`
      throw new CllmError('backend_failed', message)
    }
    if (adapters.length > 0) context.setAdapters?.(adapters)
    const { eachToken } = this.limits
    const runs = inputs.map((tokens, sequence) => {
      const outputs = eachToken ? [...tokens.keys()] : [tokens.length - 1]
      return { sequence, position: 0, tokens, outputs }
    })
    try {
      await context.decodeBatch(runs)
      let end = 0
      return inputs.map(({ length }, sequence) => {
        const first = end
        end += length
        if (!eachToken) return normalized(context.getEmbedding(end, sequence))
        return [...(context.getTokenEmbeddings?.(first, length) ?? [])]
      })
    } finally {
      for (const sequence of inputs.keys()) context.disposeSequence(sequence)
      // an adapter must not be applied to any context when it is freed
      if (adapters.length > 0) context.setAdapters?.([])
    }
  }

  /**
   * Computes the vector of an input with images or sounds: that of its last token, behind the last of them. Several
   * passes compute it, so llama.cpp cannot pool it in another way.
   */
  async embedMixed(
    tokens: readonly TokenId[],
    media: readonly MediaSpan[],
    adapters: readonly AppliedNativeAdapter[],
  ): Promise<number[]> {
    const opened = (this.#opened ??= await this.open())
    this.#checkLength(tokens, opened)
    const context = opened.context as LogitsContext
    const own = { slotSize: opened.tokens, copiesLate: false, canPad: false, shifting: undefined }
    const cells = new SlotCells(context, 1, { ...this.limits.mixed!, ...own })
    const item = { slot: 0, position: 0, tokens, media, outputs: [] }
    if (adapters.length > 0) context.setAdapters(adapters)
    try {
      for (const { tokens: text, position } of (await computeVectors([item], cells, context))
        .items) {
        const place = { sequence: 0, position: cells.positionOf(0, position) }
        await context.decodeBatch([{ ...place, tokens: text, outputs: [text.length - 1] }])
      }
      return normalized(context.getEmbedding(0, 0))
    } finally {
      context.disposeSequence(0)
      if (adapters.length > 0) context.setAdapters([])
    }
  }

  async dispose(): Promise<void> {
    await this.#opened?.context.dispose()
    this.#opened = undefined
  }

  #check(tokens: readonly TokenId[], opened: OpenEmbeddings): void {
    for (const token of tokens) this.vocabulary.check(token)
    this.#checkLength(tokens, opened)
  }

  #checkLength(tokens: readonly TokenId[], { tokens: longest, isShort }: OpenEmbeddings): void {
    if (tokens.length > 0 && tokens.length <= longest) return
    throw new CllmError(
      'prompt_too_long',
      `input: it is too large to process: expected 1 to ${longest} tokens for an embedding` +
        `${isShort ? ', as there is no memory for more' : ''}, got ${tokens.length}`,
      { details: { field: 'input', promptTokens: tokens.length, contextSize: longest } },
    )
  }
}

/** Normalizes a vector to length 1; a reranker's single number is kept as it is. */
function normalized(vector: Float32Array): number[] {
  if (vector.length === 1) return [...vector]
  const length = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0))
  return Array.from(vector, (value) => (length === 0 ? 0 : value / length))
}

/** The most tokens in an embedding input, and the size below which a context is not tried for lack of memory. */
const longestEmbedding = 2048
const fewestTokens = 128

/**
 * Makes the context of embeddings, in which each input is a sequence and all share the cells. If the memory does not
 * suffice for `size` tokens, tries half of them, and so on.
 * @throws CllmError `insufficient_memory`
 */
export async function openEmbeddings(
  llama: LlamaRuntime,
  loaded: LoadedModel,
  shape: ModelShape,
  settings: ContextSettings,
  dependencies: MemoryDependencies,
  size = embeddingTokens(settings),
): Promise<OpenEmbeddings> {
  const { embeddingInputs: slots } = loaded
  // with room for fewer outputs than sequences, llama.cpp would end the process
  const batchSize = Math.max(size, slots)
  const sizes = { contextSize: size, kvTokens: size, batchSize, ubatchSize: batchSize }
  // llama.cpp also allocates logits for each token, and twice if the model generates text
  const outputs = shape.looksAhead ? batchSize : 2 * batchSize
  const single = { ...settings, ...sizes, kvCacheType: 'f16' as const, slots, outputs }
  try {
    const held = { ...shape, sizeBytes: 0, projectorBytes: undefined }
    await planContext(llama, held, single, dependencies)
  } catch (error) {
    if (size <= fewestTokens) throw error
    const half = Math.ceil(size / 2)
    return await openEmbeddings(llama, loaded, shape, settings, dependencies, half)
  }
  const context = await loaded.createContext({
    ...single,
    contextSize: paddedContext(size),
    sequences: slots,
    kvUnified: true,
    threads: settings.threads.start,
    embeddings: true,
  })
  const isShort = size < embeddingTokens(settings)
  if (context !== undefined) return { context, tokens: size, isShort }
  const message = `llama.cpp could not allocate a context for embeddings of ${size} tokens`
  throw new CllmError('insufficient_memory', message, { details: { contextSize: size } })
}

/** The most tokens in an input: it is computed in one pass, whose buffers grow with it. */
export function embeddingTokens({ contextSize }: ContextSettings): number {
  return Math.min(contextSize, longestEmbedding)
}
