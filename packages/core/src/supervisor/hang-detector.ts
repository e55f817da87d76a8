import type { FromEngine } from '../remote/channel.js'
import type { Clock } from '../contracts/clock.js'
import type { InFlightRequests } from './in-flight-requests.js'
import { areOfStep } from '../remote/heartbeat.js'
import { isAnswer, type PendingCalls } from './pending-calls.js'
import type { SupervisorOptions } from './supervisor-options.js'
import { Watchdog } from './watchdog.js'

/** Work that an engine may have pending. */
export interface EngineDebts {
  /** Whether there is an engine to do it. */
  readonly isUp: () => boolean
  readonly requests: InFlightRequests
  readonly calls: PendingCalls
}

/**
 * Detects a hanging engine: it computes no step, gives no answer, or sends no message at all while
 * it does work that needs no forward pass.
 */
export class HangDetector {
  readonly #steps: Watchdog
  readonly #answers: Watchdog
  readonly #preparation: Watchdog

  /** @param onHang called with a description of the pending work */
  constructor(
    clock: Clock,
    { hangTimeoutMs, prepareTimeoutMs }: SupervisorOptions,
    { isUp, requests, calls }: EngineDebts,
    onHang: (what: string) => void,
  ) {
    const watch = (what: string, milliseconds: number, isOwed: () => boolean): Watchdog => {
      const hang = () => onHang(`${what} for ${milliseconds / 1000} s`)
      return new Watchdog(clock, milliseconds, () => isUp() && isOwed(), hang)
    }
    this.#steps = watch('no step', hangTimeoutMs, () => requests.submitted > 0)
    this.#answers = watch('no answer', hangTimeoutMs, () => calls.isOwed)
    this.#preparation = watch(
      'nothing from it, while it checked, tokenized or compiled what it was given,',
      Math.min(hangTimeoutMs, prepareTimeoutMs),
      () => requests.isPreparing || calls.isPreparing,
    )
  }

  /** A message came from the engine. */
  onMessage(message: FromEngine): void {
    this.#preparation.progress()
    if (isAnswer(message)) this.#answers.progress()
    else if (isFromLoop(message)) this.#steps.progress()
  }

  /** The pending work may have changed. */
  update(): void {
    for (const watchdog of [this.#steps, this.#answers, this.#preparation]) watchdog.update()
  }
}

/** Whether the engine's loop goes on; requests are read and answered while a step hangs, too. */
function isFromLoop(message: FromEngine): boolean {
  if (message.type === 'events') return areOfStep(message.events)
  return message.type !== 'tokenizing'
}
