import type { Clock, EngineCallName, ToEngine } from '@cllm/core'

/** A call of a client. */
export type CallMessage = ToEngine & { readonly type: 'call' }

/** Calls with the same answer from any worker: they can wait for one, and are made again where one is lost. */
export const patient: ReadonlySet<EngineCallName> = new Set([
  'tokenize',
  'detokenize',
  'applyTemplate',
  'embed',
  'getScheduler',
])

/** Calls that wait for a worker while there is none. */
export class PatientCalls {
  readonly #waiting = new Map<
    number,
    { readonly message: CallMessage; readonly cancel: () => void }
  >()

  constructor(
    private readonly clock: Clock,
    private readonly patienceMs: number,
    /** There was no worker for it in time. */
    private readonly onExpired: (message: CallMessage) => void,
  ) {}

  add(message: CallMessage): void {
    const expire = (): void => {
      this.#waiting.delete(message.call)
      this.onExpired(message)
    }
    // Without a limit they wait for ever.
    const cancel = Number.isFinite(this.patienceMs)
      ? this.clock.at(this.clock.now() + this.patienceMs, expire)
      : () => {}
    this.#waiting.set(message.call, { message, cancel })
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
