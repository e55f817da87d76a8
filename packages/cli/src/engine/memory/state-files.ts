import { type EngineParts, type Logger, SlotFolder, StateFolder, systemClock } from '@cllm/core'
import type { CacheSettings } from '../engine-settings.js'

/** The files of an engine's cache, where there are to be any. */
export function stateFilesOf(
  { disk, slotFolder }: CacheSettings,
  logger: Logger,
): Pick<EngineParts, 'stateFiles' | 'slotFiles'> {
  return {
    ...(disk === undefined ? {} : { stateFiles: new StateFolder(disk, systemClock, logger) }),
    ...(slotFolder === undefined ? {} : { slotFiles: new SlotFolder(slotFolder) }),
  }
}
