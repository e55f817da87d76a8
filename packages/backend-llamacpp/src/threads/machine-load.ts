import { cpus } from 'node:os'
import { cpuUsage } from 'node:process'
import type { Clock } from '@cllm/core'

/** Milliseconds between two looks at the machine: its counters tick every 10 ms. */
const interval = 200
/** A look over more milliseconds tells of the past if this process was idle. */
const past = 5 * interval

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
