import { cpus } from 'node:os'
import { cpuUsage } from 'node:process'
import type { Clock, Logger } from '@cllm/core'

/** The cores that an engine may compute on. */
export interface CoreShare {
  /** Logical cores that its process may use: those of the machine, or of its container. */
  readonly cores: number
  /** Engines that may compute at once on them. */
  readonly engines: number
}

/**
 * Threads of a forward pass. llama.cpp's threads wait for one another at every layer by spinning: with
 * one for each core, any other work on one of them makes all others wait for a time slice, hundreds of
 * times a token. So by default there is one for each core that helps, less than the logical cores by
 * one, and engines that may compute at once share them. What is asked for is kept, up to one for each
 * logical core.
 *
 * @param asked - the `threads` setting, if any
 * @param mathCores - cores that llama.cpp counts as useful: physical ones, without efficiency cores
 */
export function threadsFor(
  asked: number | undefined,
  mathCores: number,
  { cores, engines }: CoreShare,
): number {
  if (asked !== undefined) return Math.min(asked, Math.max(1, cores))
  return Math.max(1, Math.floor(Math.min(mathCores, cores - 1) / engines))
}

/** How many threads an engine starts with, and how many it may take when the machine has room. */
export interface ThreadRange {
  readonly start: number
  /** The same on a machine on which nothing else computes. */
  readonly startAlone: number
  readonly most: number
}

/**
 * The range of {@link threadsFor}: without a setting all cores that help may be taken while other
 * processes leave them free. Warns where more are asked for than there are cores.
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

/** Milliseconds between two looks at the machine: its counters tick every 10 ms. */
const interval = 200
/** A look over more milliseconds tells of the past if this process was idle. */
const past = 5 * interval

/** Time that cores have worked so far, in milliseconds over all of them. */
interface CoreTime {
  readonly cores: number
  /** For any process. */
  readonly busyMs: number
  /** For this one. */
  readonly ownMs: number
}

/** How much of the machine other processes use, by the system's own count. */
export class MachineLoad {
  #last: { readonly at: number; readonly time: CoreTime }
  #idle = Infinity

  constructor(
    private readonly clock: Clock,
    private readonly read: () => CoreTime = readCoreTime,
  ) {
    this.#last = { at: clock.now(), time: read() }
  }

  /** Cores that other processes left free lately; `Infinity` before that is known. */
  get freeCores(): number {
    const at = this.clock.now()
    const last = this.#last
    if (at - last.at < interval) return this.#idle
    const time = this.read()
    this.#last = { at, time }
    const ownMs = time.ownMs - last.time.ownMs
    const others = Math.max(0, time.busyMs - last.time.busyMs - ownMs)
    const free = time.cores - others / (at - last.at)
    // What computed while this process was idle may have ended since; the next look shows it.
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
