import type { Logger } from '@cllm/core'
import { openLlama } from './addon.js'
import type { GpuKind } from './native.js'

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
