import type { Logger } from '@cllm/core'
import type { FreeMemory, LlamaRuntime } from '../native/native.js'
import { checkMemory, gigabytes, planMemory, poolThatFits } from './memory-plan.js'
import type { ModelShape } from './model-shape.js'
import type { ContextSettings } from './open-context.js'

/** What is known of the memory besides what llama.cpp says, and who is told. */
export interface MemoryDependencies {
  readonly logger: Logger
  /** Bytes of RAM that this process may still take; default: what is free. */
  readonly availableMemory?: () => number
}

/** Gives the slots one pool of KV cells where the memory does not suffice for cells of their own. */
export async function shareCells(
  llama: LlamaRuntime,
  shape: ModelShape,
  settings: ContextSettings,
  { logger, availableMemory }: MemoryDependencies,
): Promise<ContextSettings> {
  const { kvTokens, kvUnified, ignoreMemoryCheck, slots, contextSize } = settings
  const isFixed = kvTokens !== undefined || kvUnified === 'off'
  if (isFixed || ignoreMemoryCheck) return settings
  const free = await freeMemory(llama, availableMemory)
  const pool = poolThatFits(shape, settings, free)
  if (pool === undefined) return settings
  logger.warn(
    { slots, contextSize, kvTokens: pool },
    `the memory does not suffice for ${slots} slots of ${contextSize} tokens: they share cells for ` +
      `${pool} tokens`,
  )
  return { ...settings, kvTokens: pool, kvUnified: 'on' }
}

async function freeMemory(
  llama: LlamaRuntime,
  availableMemory: MemoryDependencies['availableMemory'],
): Promise<FreeMemory> {
  const machine = await llama.freeMemory()
  return { ...machine, ram: Math.min(machine.ram, availableMemory?.() ?? Infinity) }
}

/** Checks the memory, and returns the bytes that the model and its slots take. */
export async function checkPlan(
  llama: LlamaRuntime,
  shape: ModelShape,
  settings: ContextSettings,
  { logger, availableMemory }: MemoryDependencies,
): Promise<number> {
  const plan = planMemory(shape, settings)
  const free = await freeMemory(llama, availableMemory)
  if (!settings.ignoreMemoryCheck) checkMemory(plan, settings, free)
  // A field named `text` would be hidden in the log, as users' texts are.
  const { text, ...bytes } = plan
  logger.info(
    { ...bytes, free: free.ram, freeGpu: free.vram },
    `memory: ${gigabytes(plan.weights)} of weights, ${text}, ${gigabytes(plan.compute)} of buffers`,
  )
  return plan.total
}
