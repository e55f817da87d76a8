import type { ModelShape } from '@cllm/backend-llamacpp'
import { type MemorySettings, planMemory } from '@cllm/backend-llamacpp/memory-plan'
import type { CatalogEntry } from './catalog-entry.js'

/** The settings of `cllm serve` that its defaults leave open, as they determine memory. */
export const usualMemory: Pick<
  MemorySettings,
  'batchSize' | 'outputs' | 'kvCacheType' | 'flashAttention'
> = { batchSize: 512, outputs: 64, kvCacheType: 'f16', flashAttention: 'auto' }

/** What is known of a catalog model's memory before it is downloaded; undefined: nothing. */
export function shapeOf({ shape, bytes }: CatalogEntry): ModelShape | undefined {
  if (shape === undefined) return undefined
  const { headSize, layers, keyValueHeads } = shape
  return {
    ...shape,
    architecture: 'unknown',
    quantization: 'unknown',
    keyLength: headSize,
    valueLength: headSize,
    cacheElementsPerToken: layers * keyValueHeads * 2 * headSize,
    stateElementsPerSlot: 0,
    isRecurrent: false,
    looksAhead: false,
    slidingWindow: undefined,
    comparesTexts: false,
    ropeTheta: undefined,
    rmsNormEpsilon: undefined,
    sizeBytes: bytes,
  }
}

/** Bytes of a model with this many slots of this many tokens each. */
export function memoryFor(shape: ModelShape, slots: number, contextSize: number): number {
  return planMemory(shape, { ...usualMemory, slots, contextSize }).total
}
