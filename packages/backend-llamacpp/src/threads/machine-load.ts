import { cpus } from 'node:os'
import { cpuUsage } from 'node:process'
import type { Clock } from '@cllm/core'

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
    const others = time.busyMs - last.time.busyMs - (time.ownMs - last.time.ownMs)
    this.#idle = time.cores - Math.max(0, others) / (at - last.at)
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
