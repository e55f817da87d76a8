import { CllmError } from '@cllm/core'
import type { LlamaCppDependencies } from '../create-llamacpp-backend.js'
import type { LlamaRuntime, LoadedModel } from '../native/native.js'
import type { EmbeddingContext } from './embedder.js'
import { checkPlan } from './fit-memory.js'
import { paddedContext } from './memory-plan.js'
import type { ModelShape } from './model-shape.js'
import type { ContextSettings } from './open-context.js'

/** The largest number of tokens in an embedding input. */
const longestEmbedding = 2048

/**
 * The context of embeddings: each input is a sequence, and all share the cells. Its memory is checked
 * like that of the slots.
 */
export async function openEmbeddings(
  llama: LlamaRuntime,
  loaded: LoadedModel,
  shape: ModelShape,
  settings: ContextSettings,
  dependencies: Pick<LlamaCppDependencies, 'logger' | 'availableMemory'>,
): Promise<EmbeddingContext> {
  const size = embeddingTokens(settings)
  const single = { ...settings, slots: 1, contextSize: size, kvTokens: size, batchSize: size }
  await checkPlan(llama, { ...shape, sizeBytes: 0 }, single, dependencies)
  const context = await loaded.createContext({
    contextSize: paddedContext(size),
    sequences: loaded.embeddingInputs,
    kvUnified: true,
    batchSize: size,
    threads: settings.threads.start,
    flashAttention: settings.flashAttention,
    kvCacheType: 'f16',
    embeddings: true,
    pooling: settings.pooling,
  })
  if (context !== undefined) return context
  const message = `llama.cpp could not allocate a context for embeddings of ${size} tokens`
  throw new CllmError('insufficient_memory', message, { details: { contextSize: size } })
}

/** How long an input may be: it is computed in one pass, whose buffers grow with it. */
export function embeddingTokens({ contextSize }: ContextSettings): number {
  return Math.min(contextSize, longestEmbedding)
}
