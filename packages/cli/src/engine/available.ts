import { readFileSync } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { attempt } from '@cllm/core'

const cgroup = '/sys/fs/cgroup'

/**
 * Logical cores that this process may use: its CPU affinity, limited by the CPU quota of its
 * container (`--cpus` in Docker, `limits.cpu` in Kubernetes), which Node 20 and 22 ignore. A
 * fraction of a core counts as one.
 */
export function availableCores(
  cores = availableParallelism(),
  read: (file: string) => string = (file) => readFileSync(file, 'utf8'),
): number {
  // Only Linux has these files.
  const quota = attempt(() => ratio(read(`${cgroup}/cpu.max`))) ?? attempt(() => version1(read))
  return quota !== undefined && quota > 0 ? Math.min(cores, Math.ceil(quota)) : cores
}

function version1(read: (file: string) => string): number {
  const [quota, period] = ['quota', 'period'].map((of) => read(`${cgroup}/cpu/cpu.cfs_${of}_us`))
  return ratio(`${quota} ${period}`)
}

/** The ratio of `quota period` in microseconds; NaN for `max`, negative for the older `-1`. */
function ratio(text: string): number {
  const [quota, period] = text.trim().split(/\s+/).map(Number)
  return quota! / period!
}

/**
 * The size of libuv's thread pool in a process that computes with llama.cpp. On the CPU one thread is best: each
 * further one runs its decodes on cold caches (20 to 25 ms a token instead of 15 were measured). On a GPU it is four,
 * as a pass may wait for a thread while a file is read or a state is saved, and as node-llama-cpp's addon samples on
 * four.
 *
 * @param gpu - as `cllm serve --gpu` takes it
 */
export function threadPool(gpu: unknown): string {
  const isLikelyGpu = gpu === 'auto' || gpu === undefined ? process.platform === 'darwin' : true
  return gpu === 'off' || !isLikelyGpu ? '1' : '4'
}

/** Inputs for {@link availableMemory}, in bytes. */
interface MemoryBounds {
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

const mebibyte = 2 ** 20
const mostBytes = 8192 * mebibyte
/** The share of the free memory that the caches take by default. */
const freeShare = 1 / 4

/**
 * Bytes of an engine's cache in RAM.
 *
 * @param setting - for all engines together, in MiB, or `auto`
 * @param free - bytes that are free when the model is loaded
 * @param engines - number of engines that share the memory
 */
export function cacheSize(setting: number | 'auto', free: number, engines: number): number {
  const all = setting === 'auto' ? Math.min(mostBytes, free * freeShare) : setting * mebibyte
  return Math.floor(all / Math.max(1, engines))
}
