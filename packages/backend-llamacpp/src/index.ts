export * from './create-llamacpp-backend.js'
export { type SchemaKeyword, schemaKeywords } from './grammar/schema/schema-keywords.js'
export {
  type CheckedLlamaCppOptions,
  checkLlamaCppOptions,
  type LlamaCppDependencies,
  type LlamaCppOptions,
  maxSlots,
  type PlacementOptions,
  type RopeOptions,
} from './llamacpp-options.js'
export { type MemoryPlan, type MemorySettings, planMemory } from './model/memory-plan.js'
export { type ModelShape, readModelShape } from './model/model-shape.js'
export { isQuantized, type KvCacheType, kvCacheTypes } from './model/kv-cache-type.js'
export * from './native/build/measure-libraries.js'
export { binaryPackages, findBinary, gpuKinds } from './native/binaries.js'
export { type GpuDevices, gpuDevices, gpuInUse } from './native/open-llama.js'
export type { GpuKind, JinjaTemplate } from './native/native.js'
export * from './plugin.js'
export { type CoreShare, threadsFor } from './threads/cores.js'
