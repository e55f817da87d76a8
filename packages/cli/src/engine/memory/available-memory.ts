import { totalmem } from 'node:os'

/** Inputs for {@link availableMemory}, in bytes. */
export interface MemoryBounds {
  /** The container's limit in bytes; 0 or undefined when there is none. */
  readonly limit: number | undefined
  /** The machine's memory in bytes. */
  readonly total: number
  /** Memory that the process already uses, in bytes. */
  readonly used: number
}

/**
 * Bytes that this process may still allocate: the container's limit or the machine's memory, less
 * the memory in use and `heldBytes` of other engines. The file cache does not count as used,
 * because it can be evicted; weights that other engines have mapped are in it too, so `heldBytes`
 * counts them.
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
