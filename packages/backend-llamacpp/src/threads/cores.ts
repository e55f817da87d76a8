import { cpus } from 'node:os'
import { cpuUsage } from 'node:process'
import type { Clock, Logger } from '@cllm/core'

/** The cores that an engine may compute on. */
export interface CoreShare {
  /** Logical cores that its process may use: those of the machine, or of its container. */
  readonly cores: number
  /** The number of engines that may compute on them at once. */
  readonly engines: number
}

/**
 * The number of threads of a forward pass. llama.cpp's threads wait for each other at every layer by spinning: with one
 * for each core, any other work on a core makes all threads wait for a time slice, hundreds of times per token. So the
 * default is one for each core that helps, but at least one less than the logical cores, and engines that may compute
 * at once share them. A setting is kept, up to one for each logical core.
 *
 * @param asked - the `threads` setting, if any
 * @param mathCores - the cores that llama.cpp counts as useful: physical ones, without efficiency cores
 */
export function threadsFor(
  asked: number | undefined,
  mathCores: number,
  { cores, engines }: CoreShare,
): number {
  if (asked !== undefined) return Math.min(asked, Math.max(1, cores))
  return Math.max(1, Math.floor(Math.min(mathCores, cores - 1) / engines))
}

/** The number of threads that an engine starts with, and the most that it may use when cores are free. */
export interface ThreadRange {
  readonly start: number
  /** The number to start with on a machine without other load. */
  readonly startAlone: number
  readonly most: number
}

/**
 * The range around {@link threadsFor}: without a setting, all cores that help may be used while other processes leave
 * them free. Warns if the setting is larger than the number of cores.
 */
export function chooseThreads(
  asked: number | undefined,
  mathCores: number,
  share: CoreShare,
  logger: Logger,
): ThreadRange {
  const start = threadsFor(asked, mathCores, share)
  if (asked === undefined) {
    const most = Math.max(1, Math.min(mathCores, share.cores))
    return { start, startAlone: share.engines === 1 ? most : start, most }
  }
  if (asked > start) {
    const message =
      `threads ${asked} is more than the ${share.cores} cores that this process may use, which ` +
      `would wait for one another: it computes on ${start}`
    logger.warn({ asked, threads: start }, message)
  }
  return { start, startAlone: start, most: start }
}

/** The interval in milliseconds at which the machine's counters are read; they tick every 10 ms. */
const interval = 200
/** A reading over more milliseconds is out of date if this process was idle. */
const past = 5 * interval

/** The time that all cores together have worked so far, in milliseconds. */
interface CoreTime {
  readonly cores: number
  /** For any process. */
  readonly busyMs: number
  /** For this one. */
  readonly ownMs: number
}

/** How much of the machine other processes use, by the system's counters. */
export class MachineLoad {
  #last: { readonly at: number; readonly time: CoreTime }
  #idle = Infinity

  constructor(
    private readonly clock: Clock,
    private readonly read: () => CoreTime = readCoreTime,
  ) {
    this.#last = { at: clock.now(), time: read() }
  }

  /** The number of cores that other processes have left free lately; `Infinity` while unknown. */
  get freeCores(): number {
    const at = this.clock.now()
    const last = this.#last
    if (at - last.at < interval) return this.#idle
    const time = this.read()
    this.#last = { at, time }
    const ownMs = time.ownMs - last.time.ownMs
    const others = Math.max(0, time.busyMs - last.time.busyMs - ownMs)
    const free = time.cores - others / (at - last.at)
    // Processes that computed while this one was idle may have ended; the next reading tells.
    const wasIdle = at - last.at > past && ownMs < (at - last.at) / 2
    if (!wasIdle || free > this.#idle) this.#idle = free
    return this.#idle
  }
}

function readCoreTime(): CoreTime {
  const cores = cpus()
  const { user, system } = cpuUsage()
  let busyMs = 0
  for (const { times } of cores) busyMs += times.user + times.nice + times.sys + times.irq
  return { cores: cores.length, busyMs, ownMs: (user + system) / 1000 }
}
