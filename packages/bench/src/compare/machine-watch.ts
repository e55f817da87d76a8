import { readFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { sum } from 'simple-statistics'
import { textsOf } from '../report/figures.js'

/** The activity of the machine besides the measurement. */
export interface MachineState {
  readonly cpu: string
  readonly cores: number
  /** Load average over the minute before the first run. */
  readonly loadBefore: number
  /** Share of processor time that was used in the pauses between runs. */
  readonly busyInPauses: number
  /** Share of time that the hypervisor took (steal); null if the system does not report it. */
  readonly steal: number | null
}

/** Watches the machine from its creation on; during its pauses it measures other processes. */
export class MachineWatch {
  readonly #loadBefore = loadavg()[0] ?? 0
  readonly #begin = cpuTimes()
  #pauseTotal = 0
  #pauseBusy = 0

  /** Pauses between two runs. */
  async pause(milliseconds: number): Promise<void> {
    const before = cpuTimes()
    await sleep(milliseconds)
    const after = cpuTimes()
    this.#pauseTotal += after.total - before.total
    this.#pauseBusy += after.busy - before.busy
  }

  /** The activity since the beginning. */
  state(): MachineState {
    const now = cpuTimes()
    const stolen =
      now.steal === null || this.#begin.steal === null ? null : now.steal - this.#begin.steal
    return {
      cpu: cpus()[0]?.model ?? 'unknown',
      cores: cpus().length,
      loadBefore: this.#loadBefore,
      busyInPauses: this.#pauseTotal === 0 ? 0 : this.#pauseBusy / this.#pauseTotal,
      steal: stolen === null ? null : stolen / Math.max(1, now.total - this.#begin.total),
    }
  }
}

/** Warnings about the machine for readers of the figures. */
export function machineWarnings(state: MachineState): string[] {
  const percent = (share: number) => `${(100 * share).toFixed(1)} %`
  const { loadBefore, cores, busyInPauses, steal } = state
  return textsOf(
    loadBefore > cores / 2 &&
      `the machine was busy before: load average ${loadBefore.toFixed(1)} on ${cores} cores`,
    busyInPauses > 0.1 &&
      `other processes used ${percent(busyInPauses)} of the processors between runs`,
    steal !== null &&
      steal > 0.02 &&
      `the hypervisor took ${percent(steal)} of the processor time (steal)`,
  )
}

/** Reads Linux's /proc/stat, the only source for steal, or Node's `cpus()` elsewhere. */
function cpuTimes() {
  try {
    const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n')
    const times = line.trim().split(/\s+/).slice(1, 9).map(Number)
    const [user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0, steal = 0] = times
    const busy = user + nice + system + irq + soft
    return { total: busy + idle + wait + steal, busy, steal }
  } catch {
    const all = cpus().map(({ times }) => times)
    const busy = sum(all.map(({ user, nice, sys, irq }) => user + nice + sys + irq))
    return { total: busy + sum(all.map(({ idle }) => idle)), busy, steal: null }
  }
}
