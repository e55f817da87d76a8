import type { BackendCapabilities, BackendLimits } from '@cllm/core'
import type { LlamaRuntime, LoadedModel } from '../native/native.js'
import type { SamplerFactory } from '../sampling/token-sampler.js'
import { ChunkTile } from '../slots/chunk-tile.js'
import { cellsOf } from './memory-plan.js'
import type { ModelShape } from './model-shape.js'
import type { ContextSettings, OpenContext } from './open-context.js'
import { embeddingTokens } from './open-embeddings.js'

/** Queries in one tile of flash attention on the CPU (`GGML_FA_TILE_Q`). */
const chunkMultiple = 64

/** What computes short chunks in whole tiles of attention, where there are such: on the CPU alone. */
export function tileOf(
  { gpu }: LlamaRuntime,
  { flashAttention, kvCacheType, kvUnified }: ContextSettings,
): ChunkTile | undefined {
  const isTiled = flashAttention !== false && ['f16', 'f32'].includes(kvCacheType)
  return gpu === false && isTiled && kvUnified !== 'on' ? new ChunkTile(chunkMultiple) : undefined
}

/** How much a loaded model takes at once. */
export function limitsOf(
  { gpu }: LlamaRuntime,
  loaded: LoadedModel,
  settings: ContextSettings,
): BackendLimits {
  const { slots, contextSize, kvTokens, kvUnified, batchSize, flashAttention } = settings
  // A GPU with one pool of cells computes prompts and decodes in one pass, in chunks of any size.
  const isTiled = flashAttention !== false && (gpu === false || kvUnified !== 'on')
  return {
    slots,
    contextSize,
    ...(kvTokens !== undefined && { kvTokens: cellsOf(settings) }),
    batchSize,
    embeddingTokens: embeddingTokens(settings),
    embeddingInputs: loaded.embeddingInputs,
    outputs: settings.outputs,
    ...(isTiled && { chunkMultiple }),
  }
}

/** What a loaded model can do. */
export function capabilitiesOf(
  { gpu }: LlamaRuntime,
  { loadAdapter }: LoadedModel,
  { looksAhead, slidingWindow, isRecurrent }: ModelShape,
  { stateful }: OpenContext,
  samplers: SamplerFactory,
  { kvUnified }: ContextSettings,
): BackendCapabilities {
  const generates = !looksAhead && stateful?.hasMemory() !== false
  // From other memories a few tokens cannot be taken off.
  const isPlain = slidingWindow === undefined && !isRecurrent
  // Slots that share their cells share their positions, too.
  const canShift = kvUnified !== 'on' && isPlain && stateful?.canShift() === true
  return {
    generates,
    grammar: true,
    logprobs: true,
    drawLogprobs: samplers.seesLogits,
    promptLogprobs: true,
    embeddings: true,
    lora: loadAdapter !== undefined && stateful !== undefined,
    samplers: samplers.seesLogits,
    drafts: generates && isPlain,
    contextShift: canShift,
    gpu,
  }
}
