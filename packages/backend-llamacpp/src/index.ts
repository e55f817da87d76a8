export * from './create-llamacpp-backend.js'
export { LlamaCppBackend, type LlamaCppBackendParts } from './llamacpp-backend.js'
export {
  checkLlamaCppOptions,
  type CheckedLlamaCppOptions,
  type LlamaCppOptions,
  llamaCppOptionsSchema,
  maxSlots,
} from './llamacpp-options.js'
export { type MemoryPlan, type MemorySettings, planMemory } from './memory-plan.js'
export { type ModelShape, readModelShape } from './model-shape.js'
export type { GpuKind, KvCacheType } from './native.js'
export { createLlamaCppPlugin, llamaCppPlugin } from './plugin.js'
export { largeVocabulary, nucleusCandidates } from './sampler.js'
