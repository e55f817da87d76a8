import { totalmem } from 'node:os'

/** What decides how much memory a process may still take. */
export interface MemoryBounds {
  /** The limit of its container in bytes; 0 or undefined when there is none. */
  readonly limit: number | undefined
  /** What the machine has, in bytes. */
  readonly total: number
  /** What it has already, in bytes. */
  readonly used: number
}

/**
 * Bytes that this process may still take beside `heldBytes` of other engines: within its container's
 * limit, or of what the machine has. What is in the file cache does not count, for that gives way;
 * but weights that others have mapped are there as well, which is why they are counted apart.
 */
export function availableMemory(
  heldBytes = 0,
  { limit, total, used }: MemoryBounds = {
    limit: process.constrainedMemory(),
    total: totalmem(),
    used: process.memoryUsage.rss(),
  },
): number {
  const most = limit === undefined || limit === 0 ? total : Math.min(limit, total)
  return Math.max(0, most - used - heldBytes)
}
