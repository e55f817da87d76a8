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
  if (asked === undefined) return { start, most: Math.max(1, Math.min(mathCores, share.cores)) }
  if (asked > start) {
    const message =
      `threads ${asked} is more than the ${share.cores} cores that this process may use, which ` +
      `would wait for one another: it computes on ${start}`
    logger.warn({ asked, threads: start }, message)
  }
  return { start, most: start }
}

/** Milliseconds between two looks at the machine: its counters tick every 10 ms. */
const interval = 200

/** Time that cores have worked so far, in milliseconds over all of them. */
export interface CoreTime {
  readonly cores: number
  /** For any process. */
  readonly busyMs: number
  /** For this one. */
  readonly ownMs: number
}

/** How much of the machine other processes use, by the system's own count. */
export class MachineLoad {
  readonly #clock: Clock
  readonly #read: () => CoreTime
  #last: { readonly at: number; readonly time: CoreTime } | undefined
  #idle = Infinity

  constructor(clock: Clock, read: () => CoreTime = readCoreTime) {
    this.#clock = clock
    this.#read = read
  }

  /** Cores that other processes left free lately; `Infinity` before that is known. */
  get freeCores(): number {
    const at = this.#clock.now()
    const last = this.#last
    if (last !== undefined && at - last.at < interval) return this.#idle
    const time = this.#read()
    this.#last = { at, time }
    if (last === undefined) return this.#idle
    const others = time.busyMs - last.time.busyMs - (time.ownMs - last.time.ownMs)
    this.#idle = time.cores - Math.max(0, others) / (at - last.at)
    return this.#idle
  }
}

function readCoreTime(): CoreTime {
  const cores = cpus()
  const { user, system } = cpuUsage()
  const busyMs = cores.reduce(
    (sum, { times }) => sum + times.user + times.nice + times.sys + times.irq,
    0,
  )
  return { cores: cores.length, busyMs, ownMs: (user + system) / 1000 }
}
