import { type BackendLimits, CllmError } from '@cllm/core'
import type { LlamaCppDependencies } from '../llamacpp-options.js'
import { kvCacheFormats } from './kv-cache-type.js'
import type { ModelShape } from './model-shape.js'
import type { ContextSettings } from './open-context.js'
import type { FreeMemory, LlamaRuntime } from '../native/native.js'
import type { NativeContextOptions } from '../native/native-context.js'

/** llama.cpp rounds the cells of a slot up to a multiple of this. */
const cellPadding = 256

/**
 * The memory of the process that encodes: a fixed number of bytes, plus this multiple of the projector's size for its
 * file and buffers. Measured on the CPU.
 */
const [encodingBytes, encodingShare] = [100e6, 1.5]

/** The largest share of a GPU's free memory for a projector: beyond it, layers of the model gain more from the GPU. */
const projectorShare = 0.5

/** The memory of a model and its slots, in bytes. */
export interface MemoryPlan {
  readonly weights: number
  /** The process that encodes images and sounds: an estimate; 0: there is none. */
  readonly projector: number
  /** Keys and values of all slots. */
  readonly slots: number
  /** Buffers of a forward pass: an estimate. */
  readonly compute: number
  readonly total: number
  /** Such as `16 slots × 2,048 tokens = 3.8 GB`. */
  readonly text: string
}

/** The settings that determine the memory, besides the model. */
export interface MemorySettings
  extends
    Pick<BackendLimits, 'slots' | 'contextSize' | 'kvTokens' | 'batchSize' | 'outputs'>,
    Pick<NativeContextOptions, 'ubatchSize' | 'kvCacheType' | 'flashAttention'>,
    Pick<ContextSettings, 'kvUnified'> {}

/** The settings that determine the number of cells. */
export type CellSettings = Pick<MemorySettings, 'slots' | 'contextSize' | 'kvTokens'>

/** Cells of a slot for `contextSize` tokens. */
export function paddedContext(contextSize: number): number {
  return Math.ceil(contextSize / cellPadding) * cellPadding
}

/** Cells of all slots together. */
export function cellsOf({ slots, contextSize, kvTokens }: CellSettings): number {
  return kvTokens === undefined ? slots * paddedContext(contextSize) : paddedContext(kvTokens)
}

/**
 * Adds up the memory of a model and its slots. The result is never less than what llama.cpp allocates: layers with a
 * sliding window or without attention count as layers with full attention.
 */
export function planMemory(model: ModelShape, settings: MemorySettings): MemoryPlan {
  const { slots, contextSize, kvTokens, kvCacheType } = settings
  const cells = cellsOf(settings)
  const cache = Math.ceil(cells * model.cacheElementsPerToken * kvCacheFormats[kvCacheType].bytes)
  const slotBytes = cache + slots * model.stateElementsPerSlot * 4
  const compute = computeBytes(model, settings)
  const weights = model.sizeBytes
  const projector = projectorMemory(model)
  return {
    weights,
    projector,
    slots: slotBytes,
    compute,
    total: weights + projector + slotBytes + compute,
    text:
      kvTokens === undefined
        ? `${slots} slots × ${contextSize.toLocaleString('en')} tokens = ${gigabytes(slotBytes)}`
        : `${kvTokens.toLocaleString('en')} tokens for ${slots} slots = ${gigabytes(slotBytes)}`,
  }
}

/** The estimated bytes of the process that encodes images and sounds; 0: there is none. */
export const projectorMemory = ({ projectorBytes }: ModelShape): number =>
  projectorBytes === undefined ? 0 : Math.ceil(encodingBytes + encodingShare * projectorBytes)

/** Whether a projector fits on a GPU with `vram` free bytes and leaves enough for layers of the model. */
export const projectorFits = (
  model: ModelShape,
  gpuLayers: ContextSettings['gpuLayers'],
  vram: number,
): boolean => gpuLayers !== 'auto' || projectorMemory(model) <= projectorShare * vram

/** The share of the memory left beside one whole context that a pool of KV cells takes in addition. */
const poolShare = 0.9

/**
 * The size in tokens of a pool for all slots, if the memory does not suffice for each slot's own cells. Undefined if it
 * suffices, if there is one slot only, or if not even one whole context fits.
 */
export function poolThatFits(
  model: ModelShape,
  settings: MemorySettings,
  free: FreeMemory,
): number | undefined {
  const { slots, contextSize } = settings
  const available = availableOf(free)
  if (slots === 1 || planMemory(model, settings).total <= available) return undefined
  const one = paddedContext(contextSize)
  const totalOf = (kvTokens: number): number => planMemory(model, { ...settings, kvTokens }).total
  const left = available - totalOf(one)
  const perCell = (totalOf(2 * one) - totalOf(one)) / one
  const more = Math.floor((poolShare * left) / perCell / cellPadding) * cellPadding
  return left < 0 ? undefined : one + more
}

/**
 * Compares a plan with the free memory.
 * @throws CllmError `insufficient_memory` with the numbers and the settings that would help
 */
export function checkMemory(plan: MemoryPlan, settings: MemorySettings, free: FreeMemory): void {
  const available = availableOf(free)
  if (plan.total <= available) return
  const left = available - (plan.total - plan.slots)
  const advice = left <= 0 ? 'choose a smaller model or free memory' : smaller(left, plan, settings)
  const message =
    `${weightsOf(plan)}, ${plan.text} and ${gigabytes(plan.compute)} of ` +
    `buffers need ${gigabytes(plan.total)}, and ${gigabytes(available)} is free: ${advice}`
  throw new CllmError('insufficient_memory', message, { details: { ...plan, available, settings } })
}

/** Which settings make the slots fit into the memory that is left for them. */
function smaller(left: number, plan: MemoryPlan, settings: MemorySettings): string {
  const { slots, contextSize, kvTokens, kvCacheType } = settings
  const fitting = Math.floor((left / plan.slots) * (kvTokens ?? slots))
  const quantized = kvCacheType === 'f16' ? `, or set kvCacheType to 'q8_0'` : ''
  if (kvTokens !== undefined) return `lower kvTokens (${fitting} would fit)${quantized}`
  if (fitting === 0) return `lower contextSize${quantized}`
  return (
    `lower slots (${fitting} would fit) or contextSize, or share ${contextSize} or more tokens among all slots ` +
    `with kvTokens${quantized}`
  )
}

const weightsOf = ({ weights, projector }: MemoryPlan, place = ''): string =>
  `${gigabytes(weights)} for the model` +
  (projector > 0 ? `, ${gigabytes(projector)} for the projector${place}` : '')

const availableOf = ({ unified, ram, vram }: FreeMemory): number =>
  unified ? Math.max(ram, vram) : ram + vram

/** A size for people: `3.8 GB`, `12 MB`. */
export function gigabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${Math.ceil(bytes / 1e6)} MB`
}

/** Estimates llama.cpp's buffers, which it reserves for a full batch and for the most outputs. */
function computeBytes(model: ModelShape, settings: MemorySettings): number {
  const { batchSize, slots, kvUnified, flashAttention } = settings
  const { ubatchSize = batchSize, outputs = batchSize } = settings
  // Attention compares a token with all cells of the pool, or else of its slot.
  const cells = cellsOf({ ...settings, slots: kvUnified === 'on' ? slots : 1 })
  const attention = model.attentionHeads * (model.keyLength + model.valueLength)
  const hidden = 4 * model.hiddenSize + 2 * model.feedForwardSize + attention
  const scores = flashAttention === false ? model.attentionHeads * cells : 0
  const perToken = hidden + scores + cells
  const logits =
    (outputs + Math.max(slots, outputs < batchSize ? outputs : 0)) * model.vocabularySize
  return 4 * (Math.min(ubatchSize, batchSize) * perToken + logits)
}

/** A limit on the memory besides the free memory that llama.cpp reports, and a logger for the plan. */
export type MemoryDependencies = Pick<LlamaCppDependencies, 'logger' | 'availableMemory'>

/**
 * Plans the memory of a model and its context. If it does not suffice for each slot's own cells, the slots share one
 * pool of cells, if `canShare`. A projector that would leave too little of a GPU for layers stays in RAM.
 * @throws CllmError `insufficient_memory`
 */
export async function planContext(
  llama: LlamaRuntime,
  shape: ModelShape,
  wanted: ContextSettings,
  { logger, availableMemory }: MemoryDependencies,
  canShare = false,
): Promise<{ readonly plan: MemoryPlan; readonly settings: ContextSettings }> {
  const { kvTokens, kvUnified, ignoreMemoryCheck, slots, contextSize, gpuLayers } = wanted
  const machine = await llama.freeMemory()
  const free = { ...machine, ram: Math.min(machine.ram, availableMemory?.() ?? Infinity) }
  const isFixed = kvTokens !== undefined || kvUnified === 'off' || ignoreMemoryCheck
  const pool = canShare && !isFixed ? poolThatFits(shape, wanted, free) : undefined
  if (pool !== undefined) {
    const short = `the memory does not suffice for ${slots} slots of ${contextSize} tokens`
    const told = { slots, contextSize, kvTokens: pool }
    logger.warn(told, `${short}: they share cells for ${pool} tokens`)
  }
  const shared = pool === undefined ? {} : { kvTokens: pool, kvUnified: 'on' as const }
  const mayOffload = wanted.mmprojOffload && llama.gpu !== false
  const mmprojOffload = mayOffload && projectorFits(shape, gpuLayers, free.vram)
  const settings = { ...wanted, ...shared, mmprojOffload }
  const plan = planMemory(shape, settings)
  if (!ignoreMemoryCheck) checkMemory(plan, settings, free)
  const ram = mayOffload ? ' in RAM, as the GPU has little' : ' in RAM'
  const weights = weightsOf(plan, mmprojOffload ? ' on the GPU' : ram)
  // A field named `text` would be hidden in the log, as users' texts are.
  const { text, ...bytes } = plan
  const message = `memory: ${weights}, ${text}, ${gigabytes(plan.compute)} of buffers`
  logger.info({ ...bytes, free: free.ram, freeGpu: free.vram }, message)
  return { plan, settings }
}
