import type { Clock } from '@cllm/core'
import type { FromEngine } from '../remote/channel.js'
import type { Debts } from './engine-work.js'
import type { SupervisorOptions } from './supervisor-options.js'

interface Watch {
  readonly debt: keyof Debts
  /** The missing sign of progress, for the message about a hang. */
  readonly what: string
  readonly patienceMs: number
  isOwed: boolean
  /** When there was last a sign of progress, or when the debt began. */
  since: number
}

/**
 * Detects a hanging engine: it computes no step, gives no answer, or sends no message at all while
 * it does work that needs no forward pass.
 */
export class HangDetector {
  readonly #watches: readonly Watch[]
  /** Time of the next check. */
  #at = Infinity
  #cancel: (() => void) | undefined

  /** @param onHang called with a description of the pending work */
  constructor(
    private readonly clock: Clock,
    { hangTimeoutMs, prepareTimeoutMs }: SupervisorOptions,
    private readonly onHang: (what: string) => void,
  ) {
    const preparing =
      'nothing from it, while it checked, tokenized, compiled or planned what it was given,'
    const watches: [keyof Debts, string, number][] = [
      ['steps', 'no step', hangTimeoutMs],
      ['answers', 'no answer', hangTimeoutMs],
      ['preparation', preparing, Math.min(hangTimeoutMs, prepareTimeoutMs)],
    ]
    this.#watches = watches
      .filter(([, , patienceMs]) => patienceMs > 0)
      .map(([debt, what, patienceMs]) => ({ debt, what, patienceMs, isOwed: false, since: 0 }))
  }

  /** A message came from the engine. */
  onMessage({ type, telemetry }: FromEngine): void {
    const isAnswer = type === 'result' || type === 'error'
    // Requests are read and answered while a step hangs, too.
    const isStep = type === 'events' ? (telemetry?.steps.length ?? 0) > 0 : type !== 'tokenizing'
    const now = this.clock.now()
    for (const watch of this.#watches) {
      const { debt } = watch
      if (debt === 'preparation' || (debt === 'answers' ? isAnswer : isStep && !isAnswer)) {
        watch.since = now
      }
    }
  }

  /** The pending work may have changed: the time of each kind counts from when it began. */
  update(debts: Debts): void {
    const now = this.clock.now()
    let next = Infinity
    for (const watch of this.#watches) {
      const isOwed = debts[watch.debt]
      if (isOwed && !watch.isOwed) watch.since = now
      watch.isOwed = isOwed
      if (isOwed) next = Math.min(next, watch.since + watch.patienceMs)
    }
    // A check that comes too early, or when nothing is owed any more, does no harm.
    if (next < this.#at) this.#arm(next)
  }

  #arm(at: number): void {
    this.#cancel?.()
    this.#at = at
    this.#cancel = at === Infinity ? undefined : this.clock.at(at, () => this.#look())
  }

  #look(): void {
    const now = this.clock.now()
    const lateMs = now - this.#at
    let next = Infinity
    for (const watch of this.#watches) {
      if (!watch.isOwed) continue
      // If this check is late, the event loop was blocked and messages may still be unread.
      if (lateMs > watch.patienceMs / 4) watch.since = now
      const due = watch.since + watch.patienceMs
      if (due > now) {
        next = Math.min(next, due)
        continue
      }
      // Reported once: the engine is killed.
      watch.since = Infinity
      this.#arm(Infinity)
      return this.onHang(`${watch.what} for ${watch.patienceMs / 1000} s`)
    }
    this.#arm(next)
  }
}
