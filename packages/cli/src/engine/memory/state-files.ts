import { defined, type EngineParts, type Logger, systemClock } from '@cllm/core'
import { SlotFolder, StateFolder, TouchedMemory } from '@cllm/host'
import type { CacheSettings } from '../engine-settings.js'

/** The memory of an engine's cache, and its files where there are to be any. */
export function stateFilesOf(
  { disk, slotFolder, key }: CacheSettings,
  logger: Logger,
): Pick<EngineParts, 'stateFiles' | 'slotFiles' | 'stateMemory'> {
  return {
    stateMemory: new TouchedMemory(),
    ...(disk === undefined
      ? {}
      : { stateFiles: new StateFolder({ ...disk, ...defined({ key }) }, systemClock, logger) }),
    ...(slotFolder === undefined ? {} : { slotFiles: new SlotFolder(slotFolder, key) }),
  }
}
