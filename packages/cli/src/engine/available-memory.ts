/** What decides how much memory a process may still take. */
export interface MemoryBounds {
  /** The limit of its container in bytes; 0 or undefined when there is none. */
  readonly limit: number | undefined
  /** What it has already, in bytes. */
  readonly used: number
}

/**
 * Bytes that this process may still take within its container's limit; Infinity without one. What the
 * container has in its file cache does not count, for that gives way.
 */
export function availableMemory(
  { limit, used }: MemoryBounds = {
    limit: process.constrainedMemory(),
    used: process.memoryUsage.rss(),
  },
): number {
  if (limit === undefined || limit === 0) return Infinity
  return Math.max(0, limit - used)
}
