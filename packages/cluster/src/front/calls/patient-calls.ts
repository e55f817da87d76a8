import type { Clock } from '@cllm/core'
import type { Sleep } from '../sleep-watch.js'
import type { CallMessage } from './call-kind.js'

/** Calls that wait for a worker while there is none. */
export class PatientCalls {
  readonly #waiting = new Map<number, { readonly message: CallMessage; cancel: () => void }>()

  constructor(
    private readonly clock: Clock,
    private readonly sleep: Sleep,
    private readonly patienceMs: number,
    /** There was no worker for it in time. */
    private readonly onExpired: (message: CallMessage) => void,
  ) {}

  add(message: CallMessage): void {
    const waiting = { message, cancel: () => {} }
    this.#waiting.set(message.call, waiting)
    // Without a limit they wait for ever.
    if (!Number.isFinite(this.patienceMs)) return
    const { clock, sleep } = this
    const [since, sleptMs] = [clock.now(), sleep.sleptMs]
    const wait = (until: number): void => {
      waiting.cancel = clock.at(until, () => {
        // The time for which this process was stopped does not count.
        const later = since + this.patienceMs + sleep.sleptMs - sleptMs
        if (later > clock.now()) return wait(later)
        this.#waiting.delete(message.call)
        this.onExpired(message)
      })
    }
    wait(since + this.patienceMs)
  }

  /** Nobody waits for its answer any more. */
  delete(call: number): void {
    this.#waiting.get(call)?.cancel()
    this.#waiting.delete(call)
  }

  /** All of them, which do not wait any more. */
  take(): CallMessage[] {
    const all = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { cancel } of all) cancel()
    return all.map(({ message }) => message)
  }
}
