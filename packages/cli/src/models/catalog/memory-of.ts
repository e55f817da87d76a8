import type { GpuDevices, ModelShape } from '@cllm/backend-llamacpp'
import { type MemorySettings, planMemory } from '@cllm/backend-llamacpp/memory-plan'
import type { CatalogEntry } from './catalog.js'

/** The defaults of `cllm serve` that determine memory, besides the sizes. */
const usualMemory: Omit<MemorySettings, keyof Sizes> = {
  batchSize: 512,
  outputs: 64,
  kvCacheType: 'f16',
  flashAttention: 'auto',
}

/** The shape of a catalog model before it is downloaded; undefined: not known. */
export function shapeOf({ shape, bytes, projector }: CatalogEntry): ModelShape | undefined {
  if (shape === undefined) return undefined
  const { headSize, layers, cachedLayers = layers, keyValueHeads } = shape
  return {
    ...shape,
    architecture: 'unknown',
    quantization: 'unknown',
    keyLength: headSize,
    valueLength: headSize,
    cacheElementsPerToken: cachedLayers * keyValueHeads * 2 * headSize,
    stateElementsPerSlot: 0,
    isRecurrent: false,
    looksAhead: false,
    slidingWindow: undefined,
    pooling: 0,
    ropeTheta: undefined,
    rmsNormEpsilon: undefined,
    sizeBytes: bytes,
    projectorBytes: projector?.bytes,
  }
}

/** The sizes of a server that determine its memory. */
export interface Sizes {
  readonly slots: number
  /** Tokens of each slot. */
  readonly contextSize: number
}

/** Bytes of a model with this many slots of this many tokens each. */
export const memoryFor = (shape: ModelShape, slots: number, contextSize: number): number =>
  planMemory(shape, { ...usualMemory, slots, contextSize }).total

/** The backend's default for the tokens per slot. */
const usualContext = 4096

/** {@link memoryFor} a catalog model, whose slots are at most as long as its training context; undefined: not known. */
export function memoryOf(entry: CatalogEntry, slots: number, contextSize = usualContext) {
  const shape = shapeOf(entry)
  return shape && memoryFor(shape, slots, Math.min(contextSize, shape.trainingContext))
}

/** Share of the GPUs' free memory that is planned with, as other programs' share of it changes. */
const plannedShare = 0.95

/** A place for a model: RAM, and the GPUs' memory. */
export interface Place {
  /** Free bytes of RAM. */
  readonly ram: number
  readonly gpu: GpuDevices['free']
  /** Whether the GPU has the projector. */
  readonly encodes: boolean
}

/** Layers that can be on GPUs: llama.cpp counts the output as one more. */
export const layersOf = ({ layers }: ModelShape): number => layers + 1

/**
 * Bytes of a model on the GPUs and in RAM with this many layers on the GPUs: their weights, their keys and
 * values, the buffers of a pass on both, and the projector on one of them.
 */
export function memoryOn(shape: ModelShape, gpuLayers: number, settings: Sizes, encodes: boolean) {
  const plan = planMemory(shape, { ...usualMemory, ...settings })
  const { weights, projector, slots, compute, total } = plan
  const onGpu =
    (encodes ? projector : 0) +
    (weights * gpuLayers) / layersOf(shape) +
    (slots * Math.min(gpuLayers, shape.layers)) / shape.layers +
    (gpuLayers > 0 ? compute : 0)
  return { gpu: Math.ceil(onGpu), ram: Math.ceil(total + compute - onGpu) }
}

/** Whether a model fits with this many layers on the GPUs. */
export function fitsOn(shape: ModelShape, gpuLayers: number, settings: Sizes, place: Place) {
  const { ram, gpu, encodes } = place
  const needed = memoryOn(shape, gpuLayers, settings, encodes)
  // A GPU that shares the machine's memory takes both from it.
  if (gpu.unified) return needed.gpu + needed.ram <= Math.max(ram, plannedShare * gpu.vram)
  return needed.gpu <= plannedShare * gpu.vram && needed.ram <= ram
}

/** The most layers on the GPUs with which a model fits; undefined: it fits with no number of them. */
export function mostLayers(shape: ModelShape, settings: Sizes, place: Place): number | undefined {
  for (let layers = layersOf(shape); layers >= 0; layers--) {
    if (fitsOn(shape, layers, settings, place)) return layers
  }
  return undefined
}
