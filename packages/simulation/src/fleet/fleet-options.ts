import type { RouterPolicy } from '@cllm/core'
import type { MachineModel } from '../machine.js'

/** The machines of a simulation, and what happens to them. */
export interface FleetOptions {
  /** Machines that share the load; default 1. */
  readonly machines?: number
  /** The machine, or that of each number for unequal ones. */
  readonly machine: MachineModel | ((index: number) => MachineModel)
  /** Makes the router of each front. Default: `prefix-wait`. */
  readonly router?: () => RouterPolicy
  /** Processes that place requests, in turns, each with a router and views of its own; default 1. */
  readonly fronts?: number
  /** Milliseconds after which a front sees what happened on a machine; default 0. */
  readonly viewAgeMs?: number
  /**
   * Share of the machines that die each minute, drawn by the seed; default 0. What is on them goes on
   * elsewhere, after the tokens so far are computed again.
   */
  readonly deaths?: number
  /** Milliseconds until the fronts notice a death; default 1,500. */
  readonly noticeMs?: number
  /** Milliseconds until a dead machine is back, empty; default 30,000. */
  readonly restartMs?: number
  /** Machines that take no new requests from a time on. */
  readonly drains?: readonly { readonly machine: number; readonly at: number }[]
}

/** The same machine, this many times as slow. */
export function slower(machine: MachineModel, times: number): MachineModel {
  const { stepMs, copyMs } = machine
  return {
    ...machine,
    stepMs: (shares) => times * stepMs(shares),
    copyMs: (tokens) => times * copyMs(tokens),
  }
}
