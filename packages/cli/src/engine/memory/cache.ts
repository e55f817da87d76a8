import { defined, type EngineParts, type Logger, systemClock } from '@cllm/core'
import { SlotFolder, StateFolder, TouchedMemory } from '@cllm/host'
import type { CacheSettings } from '../engine-settings.js'

const mebibyte = 2 ** 20
const mostBytes = 8192 * mebibyte
/** The share of the free memory that the cache takes where nothing is set. */
const freeShare = 1 / 4

/**
 * Bytes of the cache in RAM.
 *
 * @param setting - in MiB, or `auto`
 * @param free - bytes that are free when the model is loaded
 * @param engines - that share them
 */
export function cacheSize(setting: number | 'auto', free: number, engines: number): number {
  if (setting !== 'auto') return setting * mebibyte
  return Math.floor(Math.min(mostBytes, free * freeShare) / Math.max(1, engines))
}

/**
 * The memory of an engine's cache, and its files where there are to be any.
 *
 * @param ramBytes - of the cache; what unloaded models leave behind takes as much at most
 */
export function stateFilesOf(
  { disk, unloaded, slotFolder, key }: CacheSettings,
  ramBytes: number,
  logger: Logger,
): Pick<EngineParts, 'stateFiles' | 'slotFiles' | 'stateMemory'> {
  const waiting = { limitBytes: ramBytes, isUrgent: true, whenClosing: true }
  const folder = disk ?? (unloaded === undefined ? undefined : { folder: unloaded, ...waiting })
  return {
    stateMemory: new TouchedMemory(),
    ...(folder === undefined
      ? {}
      : { stateFiles: new StateFolder({ ...folder, ...defined({ key }) }, systemClock, logger) }),
    ...(slotFolder === undefined ? {} : { slotFiles: new SlotFolder(slotFolder, key) }),
  }
}
