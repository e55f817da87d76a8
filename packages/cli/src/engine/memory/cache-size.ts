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
