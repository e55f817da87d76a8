import type { Logger } from '@cllm/core'
import { openLlama } from './open-llama.js'
import type { FreeMemory, GpuKind } from './native.js'

/**
 * What would compute with this `gpu` setting: the kind of GPU, or false for the CPU.
 * @throws CllmError `invalid_configuration` when there is no such GPU here
 */
export async function gpuInUse(
  gpu: 'auto' | 'off' | GpuKind,
  logger: Logger,
): Promise<GpuKind | false> {
  return (await openLlama(gpu, logger)).gpu
}

/** The GPUs that would compute. */
export interface GpuDevices {
  readonly kind: GpuKind
  readonly names: readonly string[]
  /** Bytes that are free on all of them together, and of the machine. */
  readonly free: FreeMemory
}

/**
 * The GPUs with this `gpu` setting, and their free memory; undefined: the CPU computes.
 * @throws CllmError `invalid_configuration` when there is no such GPU here
 */
export async function gpuDevices(
  gpu: 'auto' | 'off' | GpuKind,
  logger: Logger,
): Promise<GpuDevices | undefined> {
  const runtime = await openLlama(gpu, logger)
  if (runtime.gpu === false) return undefined
  const [names, free] = await Promise.all([runtime.gpuNames(), runtime.freeMemory()])
  return { kind: runtime.gpu, names, free }
}
