import type { FromEngine } from '../remote/channel.js'
import type { Clock } from '@cllm/core'
import type { EngineRequests } from './engine-requests.js'
import { isAnswer, type PendingCalls } from './pending-calls.js'
import type { SupervisorOptions } from './supervisor-options.js'

/** Work that an engine may have pending. */
export interface EngineDebts {
  /** Whether there is an engine to do it. */
  readonly isUp: () => boolean
  readonly requests: EngineRequests
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
function isFromLoop({ type, telemetry }: FromEngine): boolean {
  if (type === 'events') return (telemetry?.steps.length ?? 0) > 0
  return type !== 'tokenizing'
}

/** Fires when no message has arrived for too long while work is pending. */
class Watchdog {
  #since = 0
  #wasOwed = false
  #cancel: (() => void) | undefined

  /** @param patienceMs 0 switches it off */
  constructor(
    private readonly clock: Clock,
    private readonly patienceMs: number,
    private readonly isOwed: () => boolean,
    private readonly onHang: () => void,
  ) {}

  /** The pending work may have changed: time counts from when there is some. */
  update(): void {
    const isOwed = this.isOwed()
    if (isOwed && !this.#wasOwed) {
      this.#since = this.clock.now()
      if (this.#cancel === undefined && this.patienceMs > 0) this.#arm()
    }
    this.#wasOwed = isOwed
    if (!isOwed) this.#stop()
  }

  /** A message arrived. */
  progress(): void {
    this.#since = this.clock.now()
  }

  #stop(): void {
    this.#cancel?.()
    this.#cancel = undefined
  }

  #arm(): void {
    const at = this.#since + this.patienceMs
    this.#cancel = this.clock.at(at, () => this.#look(at))
  }

  #look(at: number): void {
    this.#cancel = undefined
    if (!this.isOwed()) return
    const now = this.clock.now()
    // If this check ran late, the event loop was blocked and messages may still be unread.
    if (now - at > this.patienceMs / 4) this.#since = now
    if (now < this.#since + this.patienceMs) this.#arm()
    else this.onHang()
  }
}
